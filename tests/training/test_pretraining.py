"""What both pretraining loops log and compare, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.config.training import Pretraining
from d2lbert.data.pretraining.batches import PretrainingSettings
from d2lbert.tasks.base import IGNORED
from d2lbert.training.pretraining import check_same, count_targets, description, dev_scores, log_columns

OBJECTIVES = ("masked", "next_sentence")


def _data(digest: str = "abc") -> Any:
    return SimpleNamespace(settings=PretrainingSettings(), shards=SimpleNamespace(digest=lambda: digest))


def test_targets_that_count() -> None:
    batch: Any = SimpleNamespace(targets={"masked": np.array([3, IGNORED, 0]), "next_sentence": np.array([IGNORED])})
    assert count_targets(batch).tolist() == [2, 0]


def test_scores_are_means_over_targets() -> None:
    scores = dev_scores(OBJECTIVES, np.array([6.0, 0.0]), np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    assert scores == {
        "dev_masked_loss": 1.5,
        "dev_next_sentence_loss": 0.0,
        "dev_masked_accuracy": 0.25,
        "dev_next_sentence_accuracy": 0.0,
    }
    columns = log_columns(OBJECTIVES)
    assert columns[:6] == ["step", "epoch", "tokens", "learning_rate", "masked_loss", "next_sentence_loss"]
    assert columns[6:] == [*scores, "tokens_per_second"]


def test_the_same_run_and_another() -> None:
    config = BertConfig()
    before = description(Pretraining(steps=5), _data(), config)
    check_same(before, description(Pretraining(steps=5, log_every=3, keep=9), _data(), config))  # what may change
    for now, change in (
        (description(Pretraining(steps=6), _data(), config), "steps was 5 and is now 6"),
        (description(Pretraining(steps=5), _data("abd"), config), "corpus was abc and is now abd"),
        (description(Pretraining(steps=5), _data(), BertConfig(hidden_size=24)), r"model\.hidden_size was 768"),
        ({**before, "edition": "mxnet"}, "edition was None and is now mxnet"),
    ):
        with pytest.raises(UserError, match=f"^--resume: {change}"):
            check_same(before, now)
    with pytest.raises(UserError, match="edition was mxnet and is now None"):
        check_same({**before, "edition": "mxnet"}, before)
