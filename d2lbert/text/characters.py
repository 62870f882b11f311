"""Text as characters: a vocabulary of its own, or the bytes of each word (ELMo)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from d2lbert.errors import UserError
from d2lbert.text.encoding import PAD, UNKNOWN
from d2lbert.text.vocab import Vocabulary


class CharacterVocabulary:
    """Characters and their ids.

    A character that does not occur in ``lines`` is unknown and is lost in decoding. Byte-pair encoding over bytes does
    not have this gap.

    Args:
        lines: the text from which to take the characters.
        min_count: rarer characters are unknown.
        special_tokens: they get the first ids; ``[UNK]`` must be among them.

    Raises:
        UserError: a special token is given twice, or ``[UNK]`` is missing.
    """

    def __init__(
        self, lines: Iterable[str], min_count: int = 1, special_tokens: Sequence[str] = (PAD, UNKNOWN)
    ) -> None:
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(line)
        self.vocabulary = Vocabulary(counts, min_count, special_tokens=special_tokens)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the id of each character."""
        return self.vocabulary.ids(text)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids. An unknown character becomes U+FFFD; other special tokens are left out.

        Raises:
            UserError: an id outside the vocabulary.
        """
        specials = self.vocabulary.special_tokens
        characters = []
        for index in ids:
            character = self.vocabulary.word(index)
            if index == self.vocabulary.unknown_id:
                characters.append("\ufffd")
            elif character not in specials:
                characters.append(character)
        return "".join(characters)


# The ids of ELMo's characters: bytes 0 to 255, then these markers. In the arrays below all are one higher, so that 0
# can mean "no word here".
WORD_BEGIN, WORD_END, NO_CHARACTER = 258, 259, 260
SENTENCE_BEGIN, SENTENCE_END = "<S>", "</S>"  # each is a single character that no text can contain
_MARKERS = {SENTENCE_BEGIN: [256], SENTENCE_END: [257]}


class WordCharacters:
    """Words as rows of UTF-8 bytes, the input of ELMo (Peters et al. 2018). No word is ever unknown.

    Args:
        max_characters: W, the length of a row in bytes; two of them mark the word's beginning and end. Longer words are
            cut off.

    Raises:
        UserError: ``max_characters`` is below 3.
    """

    def __init__(self, max_characters: int = 50) -> None:
        if max_characters < 3:
            raise UserError(f"max_characters is {max_characters}; a character and two markers need 3")
        self.max_characters = max_characters
        self._rows: dict[str, np.ndarray] = {}  # a text repeats most of its words

    def word(self, word: str) -> np.ndarray:
        """Return the ids of one word, (W,)."""
        row = self._rows.get(word)
        if row is None:
            characters = _MARKERS.get(word) or list(word.encode("utf-8", "replace")[: self.max_characters - 2])
            marked = [WORD_BEGIN, *characters, WORD_END]
            row = np.full(self.max_characters, NO_CHARACTER + 1)
            row[: len(marked)] = np.array(marked) + 1
            self._rows[word] = row
        return row

    def batch(self, sentences: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids (B, T, W) of sentences and their mask (B, T), True for words and markers, False for padding.

        Each sentence begins and ends with a marker, so T is the number of words of the longest sentence plus two.

        Raises:
            UserError: there are no sentences.
        """
        if not sentences:
            raise UserError("there is no sentence to turn into characters: give at least one")
        longest = max(len(sentence) for sentence in sentences) + 2
        ids = np.zeros((len(sentences), longest, self.max_characters), dtype=np.int64)
        mask = np.zeros((len(sentences), longest), dtype=bool)
        for number, sentence in enumerate(sentences):
            rows = [self.word(word) for word in (SENTENCE_BEGIN, *sentence, SENTENCE_END)]
            ids[number, : len(rows)] = rows
            mask[number, : len(rows)] = True
        return ids, mask
