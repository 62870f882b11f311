"""The classification task: targets, scores, predictions, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data import Sentence
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.table import named_task
from d2lbert.text import WordPiece

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"])
EXAMPLES = [Sentence("a", "positive"), Sentence("b", "negative"), Sentence("c", "positive")]


def test_labels_are_sorted_and_targets_follow() -> None:
    task = Classification.of(EXAMPLES)
    assert task.labels == ("negative", "positive")
    assert task.targets(EXAMPLES).tolist() == [1, 0, 1]


def test_scores_by_hand() -> None:
    task = Classification(["negative", "positive"])
    logits = np.array([[0.0, 1.0], [2.0, 1.0], [3.0, 0.0], [0.0, 5.0]])
    scores = task.metrics(np.array([1, 0, 1, 1]), logits)
    assert scores["accuracy"] == 0.75
    # negative: precision 1/2, recall 1; positive: precision 1, recall 2/3.
    assert scores["f1_macro"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    # tp = 2, tn = 1, fp = 0, fn = 1.
    assert scores["matthews"] == pytest.approx(2 / np.sqrt(2 * 3 * 1 * 2))


def test_probabilities_are_a_softmax() -> None:
    prediction = Classification(["no", "yes"]).describe(np.array([1000.0, 1000.0 + np.log(3)]))
    assert prediction["label"] == "yes"
    assert prediction["probabilities"] == pytest.approx({"no": 0.25, "yes": 0.75})


def test_cut_texts_are_counted(recwarn: pytest.WarningsRecorder) -> None:
    task = Classification(["no", "yes"])
    texts = [Sentence("good film"), Sentence("good good film"), Sentence("film " * 9 + "\n"), Sentence("good good ")]
    encodings = task.encode(texts, TOKENIZER, max_length=4)
    assert [len(encoding) for encoding in encodings] == [4, 4, 4, 4]
    assert [str(warning.message).partition(":")[0] for warning in recwarn] == ["2 of 4 texts cut after 4 tokens"]
    # Nothing is cut from the last one: the tokenizer drops a zero-width space.
    task.encode([*texts, Sentence("good film\u200b")], TOKENIZER, max_length=11)
    assert len(recwarn) == 1


def test_refusals() -> None:
    with pytest.raises(UserError, match="needs two labels"):
        Classification.of([Sentence("a", "x"), Sentence("b", "x")])
    with pytest.raises(UserError, match="unknown label 'postive': did you mean positive"):
        Classification(["negative", "positive"]).targets([Sentence("a", "postive")])
    with pytest.raises(UserError, match="nothing that the tokenizer keeps"):
        Classification(["no", "yes"]).encode([Sentence("film"), Sentence("\u200b")], TOKENIZER, 8)
    with pytest.raises(UserError, match="unknown task 'clasification': did you mean classification"):
        named_task("clasification")
