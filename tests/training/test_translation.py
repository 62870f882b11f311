"""What the loops share: rates, the books of a run, what must be the same; tests/torch and tests/mxnet run the loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.config import Seq2SeqConfig
from d2lbert.data.translation import EncodedPair
from d2lbert.training.translation import (
    CHECKPOINTS,
    SequenceRun,
    SequenceTraining,
    check_folder,
    no_checkpoint,
    run_identity,
)

SETTINGS = SequenceTraining(steps=12, tokens=60, learning_rate=0.01, warmup_steps=4, evaluate_every=4, seed=5)


class Model:
    """All that is asked of a model: its sizes."""

    config = Seq2SeqConfig(9, 9, 4)


def test_the_rate_rises_and_falls() -> None:
    assert [SETTINGS.rate_factor(step) for step in (0, 3, 15)] == [0.25, 1, 0.5]
    linear = replace(SETTINGS, decay="linear")
    assert [linear.rate_factor(step) for step in (0, 3, 4, 8, 12)] == [0.25, 1, 1, 0.5, 0]


def test_the_books_of_a_run() -> None:
    run = SequenceRun(step=4, tokens=50, seconds=1.5)
    assert run.mean_loss(10.0) == 2.5
    assert run.add_record(2.5, 3.0)
    assert run.last_is_best
    run.step, run.tokens = 6, 70
    assert run.mean_loss(10.0) == 5.0, "two steps since the last record"
    assert not run.add_record(5.0, 4.0)
    assert not run.last_is_best
    assert not run.add_record(1.0, 3.0), "a tie keeps the older weights"
    assert run.last_is_best
    assert run.add_record(1.0, 2.9)
    assert run.history[0] == {"step": 4, "tokens": 50, "seconds": 1.5, "loss": 2.5, "dev_loss": 3.0}


def test_a_loss_that_is_no_number_ends_the_run() -> None:
    with pytest.raises(UserError, match="the loss became inf at step 7: lower the learning rate"):
        SequenceRun(step=7).mean_loss(float("inf"))


def test_what_must_be_the_same() -> None:
    train, dev = [EncodedPair([3, 2], [1, 3, 2])], [EncodedPair([4, 2], [1, 4, 2])]
    identity = run_identity(Model(), SETTINGS, train, dev)
    assert {"hidden_size": 4, "learning_rate": 0.01, "seed": 5}.items() <= identity.items()
    assert "steps" not in identity
    assert run_identity(Model(), replace(SETTINGS, decay="linear"), train, dev)["steps"] == 12
    assert run_identity(Model(), SETTINGS, dev, dev)["train"] == identity["dev"] != identity["train"]


def test_the_folder_of_a_run(tmp_path: Path) -> None:
    assert check_folder(None, resume=False) is None
    assert check_folder(tmp_path, resume=False) == tmp_path
    with pytest.raises(UserError, match="to resume needs the folder of the run"):
        check_folder(None, resume=True)
    (tmp_path / CHECKPOINTS / "checkpoint-00000004").mkdir(parents=True)
    with pytest.raises(UserError, match="holds the checkpoints of a run: resume it, or choose another folder"):
        check_folder(tmp_path, resume=False)
    assert check_folder(tmp_path, resume=True) == tmp_path
    assert str(no_checkpoint(tmp_path)) == f"there is no checkpoint in {tmp_path}: start the run without resume"
