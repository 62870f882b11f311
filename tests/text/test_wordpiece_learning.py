"""Learned WordPiece vocabularies: small ones by eye, a large one against the `tokenizers` library."""

from __future__ import annotations

from collections import Counter

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from d2lbert import UserError
from d2lbert.text import SPECIAL_TOKENS, learn_wordpiece, train_wordpiece
from d2lbert.text.normalization import clean_words
from d2lbert.text.wordpiece_learning import count_clean_words

TOY = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def test_special_tokens_then_characters_then_merges() -> None:
    vocab = learn_wordpiece(TOY, 5 + 10 + 9 + 3)
    assert vocab[:5] == list(SPECIAL_TOKENS)
    assert vocab[5:15] == list("deilnorstw")
    assert vocab[15:24] == ["##d", "##e", "##i", "##o", "##r", "##s", "##t", "##w", "##es"]
    assert vocab[24:] == ["##est", "lo", "low"]


def test_the_vocabulary_does_not_depend_on_the_order_of_words() -> None:
    backwards = dict(reversed(TOY.items()))
    assert learn_wordpiece(TOY, 40) == learn_wordpiece(backwards, 40)


def test_it_equals_the_library_up_to_ties(lines: list[str]) -> None:
    learned = learn_wordpiece(count_clean_words(lines[:6000]), size=1500, characters=100_000)
    library = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=1500, min_frequency=2, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    library.train_from_iterator(lines[:6000], trainer)
    # Which of two equally frequent pairs comes first is chance in the library; it changes from run to run.
    assert len(set(learned) & set(library.get_vocab())) >= 0.98 * len(learned)


def test_a_trained_tokenizer_knows_its_text(lines: list[str]) -> None:
    english = [line for line in lines if line.isascii()][:500]
    tokenizer = train_wordpiece(english, 600)
    assert len(tokenizer.vocab) <= 600
    assert all("[UNK]" not in tokenizer.tokenize(line) for line in english if "[UNK]" not in line and len(line) < 90)
    assert tokenizer.tokenize(english[0].upper()) == tokenizer.tokenize(english[0].lower())


def test_counting_cleans_each_word_as_the_tokenizer_does(lines: list[str]) -> None:
    # Two invisible separators are spaces to str.split and nothing to BERT; real text has none of them.
    plain = [line for line in lines if not any(character in line for character in "\x1c\x1d\x1e\x1f\x85")]
    expected = Counter(word.text for line in plain for word in clean_words(line))
    assert count_clean_words(plain) == expected


def test_rare_characters_are_left_out_with_their_words() -> None:
    vocab = learn_wordpiece({"low": 9, "løw": 1}, 100, characters=3)
    assert "ø" not in vocab
    assert "low" in vocab


def test_a_size_without_room_is_refused() -> None:
    with pytest.raises(UserError, match="size 10 is too small: 23 special tokens and characters come first"):
        learn_wordpiece(TOY, 10)
