"""Labels of a smaller model: how they differ from those of the exact one, and the error of the difference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from benchmarks.int8_sides import BATCH, batches_of
from benchmarks.labels import compared, labels_of
from d2lbert.text import Encoding, WordPiece

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])


def test_batches_hold_every_text_once_in_order() -> None:
    texts = list(range(2 * BATCH + 3))
    batches = batches_of(texts)
    assert [len(batch) for batch in batches] == [BATCH, BATCH, 3]
    assert [text for batch in batches for text in batch] == texts
    assert batches_of([]) == []


def test_labels_come_batch_after_batch() -> None:
    encodings: list[Encoding] = TOKENIZER.encode_batch(["good " * (1 + index % 4) for index in range(BATCH + 5)])
    sizes: list[int] = []

    def engine(batch: Any) -> np.ndarray:
        sizes.append(len(batch.lengths))
        return np.eye(7)[batch.lengths]

    assert labels_of(engine, encodings).tolist() == [len(encoding) for encoding in encodings]
    assert sizes == [BATCH, 5]


def test_changed_labels_give_the_difference_and_its_error() -> None:
    truth = np.zeros(100, dtype=int)
    exact, found = truth.copy(), truth.copy()
    exact[:10] = 1  # wrong before
    found[[0, 1, 20, 30, 40, 50]] = 1  # eight of these are right now, four others are wrong
    result = compared(found, exact, truth)
    assert (result["changed"], result["right before"], result["right after"]) == (12, 4, 8)
    assert result["accuracy"] == pytest.approx(0.94)
    assert result["difference"] == pytest.approx(0.04)
    values = np.array([1] * 8 + [-1] * 4 + [0] * 88)
    assert result["standard_error_of_difference"] == pytest.approx(values.std() / math.sqrt(100))
