"""Sentences and their batches."""

from __future__ import annotations

import pytest

from d2lbert import UserError
from d2lbert.data.elmo import SentenceBatches, read_sentences, split_sentences, word_vocabulary
from d2lbert.data.examples import Document

SENTENCES = [[f"w{number}"] * (1 + number % 7) for number in range(60)]


def test_sentences_end_at_their_marks_or_at_the_limit() -> None:
    words = ["It", "rained", ".", "Did", "it", "?", "a", "b", "c", "d", "e", "f"]
    assert list(split_sentences(words, 4)) == [["It", "rained", "."], ["Did", "it", "?"], list("abcd"), list("ef")]


def test_reading_stops_after_enough_words() -> None:
    documents = [Document(("One two. Three!", "Four five six.")), Document(("Seven.",)), Document(("Eight.",))]
    expected = [["One", "two", "."], ["Three", "!"], ["Four", "five", "six", "."]]
    assert read_sentences(documents, 9) == expected
    assert read_sentences(documents, 10) == [*expected, ["Seven", "."]]
    with pytest.raises(UserError, match="no words"):
        read_sentences([Document(())], 10)


def test_every_sentence_comes_once_in_an_order_of_the_seed() -> None:
    batches = SentenceBatches(SENTENCES, word_vocabulary(SENTENCES, 100), 6, words_per_batch=30)
    plans = [batches.plan(seed) for seed in (0, 0, 1, None)]
    assert plans[0] == plans[1] != plans[2]
    for plan in plans:
        assert sorted(row for rows in plan for row in rows) == list(range(60))
    lengths = [len(SENTENCES[row]) for rows in plans[3] for row in rows]
    assert lengths == sorted(lengths)


def test_a_batch_keeps_to_its_size_and_wastes_little() -> None:
    batches = SentenceBatches(SENTENCES, word_vocabulary(SENTENCES, 100), 6, words_per_batch=30)
    cells = words = 0
    for batch in batches.epoch(3):
        assert batch.char_ids.shape == (*batch.mask.shape, 6)
        assert batch.mask.size <= 30
        cells, words = cells + batch.mask.size, words + batch.mask.sum()
    assert words == sum(len(sentence) + 2 for sentence in SENTENCES)
    assert words / cells > 0.9


def test_what_is_to_be_guessed_stands_in_its_place() -> None:
    vocabulary = word_vocabulary([["b", "a", "b"], ["c"]], max_size=5)  # <S>, </S>, [UNK], b, a
    batch = SentenceBatches([["a", "c"], ["b"]], vocabulary, 6, 100).batch([0, 1])
    assert batch.word_ids.tolist() == [[0, 4, 2, 1], [0, 3, 1, 0]]
    assert batch.mask.tolist() == [[True] * 4, [True] * 3 + [False]]
