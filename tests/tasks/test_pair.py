"""The tasks on pairs: inputs, scores, predictions, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data import Pair, ScoredPair, Sentence, WordInContext
from d2lbert.tasks.base import Loss
from d2lbert.tasks.pair import PairClassification, PairRegression
from d2lbert.tasks.table import fitting_examples, named_task
from d2lbert.text import WordPiece

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film", "plot"])
PAIRS = [Pair("good film", "plot", "same"), Pair("plot", "good", "different"), Pair("film", "film", None)]


def test_inputs_hold_both_texts_and_the_index_of_the_label() -> None:
    inputs = PairClassification(["different", "same"]).inputs(PAIRS, TOKENIZER, 10)
    assert inputs[0].encodings[0].tokens == ["[CLS]", "good", "film", "[SEP]", "plot", "[SEP]"]
    assert inputs[0].encodings[0].segment_ids == [0, 0, 0, 0, 1, 1]
    assert [model_input.target for model_input in inputs] == [1, 0, None]
    assert [model_input.example for model_input in inputs] == [0, 1, 2]


def test_scores_of_a_regression_by_hand() -> None:
    pairs = [ScoredPair("a", "b", score) for score in (0.0, 1.0, 2.0, 5.0)]
    outputs = [np.array([value], dtype=np.float32) for value in (1.0, 0.0, 2.0, 3.0)]
    scores = PairRegression().score(pairs, [], outputs)
    # Ranks 1 2 3 4 against 2 1 3 4: 1 - 6 * 2 / (4 * 15).
    assert scores["spearman"] == pytest.approx(0.8)
    x, y = np.array([-2.0, -1, 0, 3]), np.array([-0.5, -1.5, 0.5, 1.5])
    assert scores["pearson"] == pytest.approx((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))
    assert scores["mean_squared_error"] == pytest.approx((1 + 1 + 0 + 4) / 4)
    assert next(iter(scores)) == "spearman"
    assert PairRegression().predictions(pairs, [], outputs)[3] == {"score": 3.0}


def test_a_constant_answer_has_no_correlation() -> None:
    pairs = [ScoredPair("a", "b", 0.0), ScoredPair("a", "b", 2.0)]
    scores = PairRegression().score(pairs, [], [np.array([1.0])] * 2)
    assert (scores["spearman"], scores["pearson"], scores["mean_squared_error"]) == (0.0, 0.0, 1.0)


def test_f1_is_that_of_the_second_label() -> None:
    task = PairClassification(["different", "paraphrase"])
    logits = [np.array([0.0, 1.0])] * 3 + [np.array([1.0, 0.0])]
    pairs = [Pair("a", "b", label) for label in ("paraphrase", "different", "paraphrase", "paraphrase")]
    # Two of three predicted paraphrases are right, two of three true ones are found.
    assert task.score(pairs, [], logits)["f1"] == pytest.approx(2 / 3)
    assert "f1" not in PairClassification(["a", "b", "c"]).metrics(np.array([0, 1]), np.eye(3)[:2])


def test_examples_choose_the_task() -> None:
    assert named_task("pair").of_examples(PAIRS).labels == ("different", "same")
    assert named_task("pair").of_examples([ScoredPair("a", "b", 1.0)]).loss is Loss.SCORE
    assert named_task("pair").of_model(["score"], None).loss is Loss.SCORE
    assert named_task("pair").of_model(["no", "yes"], None).loss is Loss.LABEL
    word = WordInContext("a", "N", "a", "a b", 0, 0, False)
    assert fitting_examples("pair", "wic", [word]) == [Pair("a : a", "a b", "different")]
    with pytest.raises(UserError, match="'sst2' holds no pairs of texts"):
        fitting_examples("pair", "sst2", [Sentence("a", "b")])


@pytest.mark.parametrize("pair", [Pair("\u200b", "film"), Pair("film", "\u200b")])
def test_an_empty_side_is_refused(pair: Pair) -> None:
    with pytest.raises(UserError, match="nothing that the tokenizer keeps"):
        PairClassification(["a", "b"]).inputs([pair], TOKENIZER, 10)


def test_a_cut_pair_is_counted_once_and_room_for_none_is_refused() -> None:
    long = Pair("film " * 9, "plot " * 9)
    with pytest.warns(UserWarning, match="1 of 2 texts cut after 8 tokens"):
        inputs = PairClassification(["a", "b"]).inputs([long, Pair("film", "plot")], TOKENIZER, 8)
    assert len(inputs[0].encodings[0]) == 8
    with pytest.raises(UserError, match="max_length 4 is too small for a pair"):
        PairClassification(["a", "b"]).inputs([long], TOKENIZER, 4)


def test_missing_scores_are_refused() -> None:
    with pytest.raises(UserError, match="without a score"):
        PairRegression().score([ScoredPair("a", "b")], [], [np.array([1.0])])
    with pytest.raises(UserError, match="at least two pairs"):
        PairRegression().score([ScoredPair("a", "b", 1.0)], [], [np.array([1.0])])
