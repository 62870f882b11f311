"""Learn a WordPiece vocabulary from text.

Schuster and Nakajima 2012 join the pair of pieces that raises the likelihood of the text most; the trainer behind BERT
was never released. Here, as in the `tokenizers` library, the most frequent pair is joined: byte-pair encoding, but over
characters, with ``##`` before each piece that continues a word. The result is the same on every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from d2lbert.errors import UserError
from d2lbert.text.encoding import SPECIAL_TOKENS
from d2lbert.text.merges import merge_pairs
from d2lbert.text.normalization import clean_words
from d2lbert.text.wordpiece import WordPiece

_LONGEST_WORD = 100  # characters; longer words are unknown to the tokenizer, so there is nothing to learn from them


def train_wordpiece(lines: Iterable[str], size: int, lowercase: bool = True) -> WordPiece:
    """Learn a tokenizer from lines of text.

    Args:
        lines: the text.
        size: the number of pieces, special tokens included. A small text may give fewer.
        lowercase: fold case and strip accents.

    Raises:
        UserError: ``size`` has no room for the characters of the text.
    """
    return WordPiece(learn_wordpiece(count_clean_words(lines, lowercase), size), lowercase)


def count_clean_words(lines: Iterable[str], lowercase: bool = True) -> Counter[str]:
    """Count the words and punctuation marks of the lines after BERT's cleaning."""
    raw: Counter[str] = Counter()
    for line in lines:
        raw.update(line.split())
    # Each distinct word is cleaned once; in English text these are a small part of all words.
    counts: Counter[str] = Counter()
    for text, count in raw.items():
        for word in clean_words(text, lowercase, lowercase):
            counts[word.text] += count
    return counts


def learn_wordpiece(word_counts: Mapping[str, int], size: int, characters: int = 1000) -> list[str]:
    """Return a vocabulary: the special tokens, the characters, then the joined pieces in the order learned.

    Args:
        word_counts: how often each cleaned word occurs.
        size: the number of pieces at which to stop.
        characters: the largest number of characters that become pieces, the most frequent ones; words with others are
            left out, so that one page in a foreign script does not fill the vocabulary.

    Raises:
        UserError: ``size`` has no room for the characters.
    """
    alphabet = _most_frequent_characters(word_counts, characters)
    words = {
        word: count for word, count in word_counts.items() if len(word) <= _LONGEST_WORD and alphabet.issuperset(word)
    }
    # A character seen only inside words also becomes a piece for the start of a word: other text may begin a word so.
    starts = sorted({character for word in words for character in word})
    continuations = sorted({"##" + character for word in words for character in word[1:]})
    vocab = [*SPECIAL_TOKENS, *starts, *continuations]
    if size < len(vocab):
        raise UserError(f"size {size:,} is too small: {len(vocab):,} special tokens and characters come first")
    ids = {piece: index for index, piece in enumerate(vocab)}

    def join(left: int, right: int) -> int:
        piece = vocab[left] + vocab[right].removeprefix("##")
        if piece not in ids:
            ids[piece] = len(vocab)
            vocab.append(piece)
        return ids[piece]

    spelled = [[ids[word[0]], *(ids["##" + character] for character in word[1:])] for word in words]
    for _ in merge_pairs(spelled, list(words.values()), join):
        if len(vocab) >= size:
            break
    return vocab


def _most_frequent_characters(word_counts: Mapping[str, int], limit: int) -> set[str]:
    counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return set(ranked[:limit])
