"""What both pretraining loops count, log and compare, by hand."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.config.training import Pretraining
from d2lbert.data.pretraining.batches import BEGINNING, Position, PretrainingSettings, TrainingBatch
from d2lbert.tasks.base import IGNORED
from d2lbert.training.log import TrainingLog
from d2lbert.training.pretraining import (
    LOG,
    BaseTrainer,
    check_same,
    count_targets,
    description,
    dev_scores,
    log_columns,
)
from d2lbert.training.progress import progress_bar

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


class _Data:
    """Endless batches of one target each, three tokens long; two of them to validate on."""

    objectives = OBJECTIVES
    settings = PretrainingSettings()
    shards = SimpleNamespace(digest=lambda: "abc")

    def __init__(self, empty: bool = False) -> None:
        self.empty = empty

    def check(self) -> None:
        if self.empty:
            raise UserError("no batch")

    def batches(self, position: Position) -> Iterator[tuple[Any, Position]]:
        targets = {"masked": np.array([3, 4]), "next_sentence": np.array([1])}
        batch = SimpleNamespace(targets=targets, rows=SimpleNamespace(num_tokens=3))
        for number in itertools.count(position.batch + 1):
            yield batch, Position(batch=number)

    def epoch(self, epoch: int) -> Iterator[tuple[Any, Position]]:
        return self.batches(BEGINNING)


class _Trainer(BaseTrainer):
    """Its losses are the number of the step and a tenth of it; it keeps what it would have saved in a list."""

    def __init__(self, out: Path, dev: Any = None, **settings: Any) -> None:
        chosen = Pretraining(**{"steps": 7, "log_every": 2, "validate_every": 4, "save_every": 3, **settings})
        super().__init__(SimpleNamespace(config=BertConfig()), _Data(), dev, chosen, out)  # type: ignore[arg-type]
        self.written: list[int] = []

    def train_step(self, batches: Iterator[tuple[TrainingBatch, Position]]) -> dict[str, float]:
        step = [next(batches) for _ in range(self.settings.accumulation)]
        return self.count_step(step, [self.step + 1.0, (self.step + 1) / 10], 0.5)

    def losses_and_hits(self, batch: TrainingBatch) -> tuple[list[float], list[int]]:
        return [2.0, 0.25], [1, 0]

    def save(self) -> None:
        self.written.append(self.step)
        self.saved = self.step

    def run(self) -> dict[str, float]:
        batches = self.data.batches(self.position)
        log = TrainingLog(self.out / LOG, log_columns(OBJECTIVES), self.step)
        with log, progress_bar(7, self.step, shown=False) as bar:
            return self.train(batches, log, bar, {})


def test_a_run_logs_saves_and_validates_where_it_is_due(tmp_path: Path) -> None:
    trainer = _Trainer(tmp_path, dev=_Data(), accumulation=2, validation_batches=3)
    last = trainer.run()
    assert trainer.written == [3, 6, 7]
    header, *lines = (tmp_path / LOG).read_text().splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    assert [row["step"] for row in rows] == ["2", "4", "6", "7"]
    assert [row["dev_masked_loss"] for row in rows] == ["", "2.0", "", "2.0"]
    assert [row["tokens"] for row in rows] == ["12", "24", "36", "42"]  # two batches of three tokens a step
    scores = {"dev_masked_loss": 2.0, "dev_next_sentence_loss": 0.25, "dev_masked_accuracy": 0.5}
    assert scores.items() < last.items()
    assert {name: last[name] for name in ("step", "masked_loss", "next_sentence_loss", "learning_rate")} == {
        "step": 7, "masked_loss": 7.0, "next_sentence_loss": 0.7, "learning_rate": trainer.settings.learning_rate / 2
    }  # fmt: skip


def test_without_held_out_documents_there_are_no_scores(tmp_path: Path) -> None:
    assert _Trainer(tmp_path).validate() == {}
    assert not any(name.startswith("dev_") for name in _Trainer(tmp_path).run())


def test_a_run_that_is_over_is_validated_once_more(tmp_path: Path) -> None:
    trainer = _Trainer(tmp_path, dev=_Data())
    trainer.step = 7
    last = trainer.run()
    assert (last["step"], last["dev_masked_loss"]) == (7, 2.0)
    assert trainer.written == []


def test_a_run_that_is_interrupted_saves_its_last_step_once(tmp_path: Path) -> None:
    for at, written in ((2, [2]), (3, [3])):
        trainer = _Trainer(tmp_path / str(at))
        trainer.out.mkdir()
        trainer.is_interrupted = lambda trainer=trainer, at=at: trainer.step == at  # type: ignore[method-assign, misc]
        with pytest.raises(KeyboardInterrupt):
            trainer.run()
        assert trainer.written == written


def test_numbers_of_a_checkpoint_come_back(tmp_path: Path) -> None:
    first, second = _Trainer(tmp_path), _Trainer(tmp_path)
    first.run()
    numbers = json.loads(json.dumps(first.numbers()))
    check_same(numbers["run"], second.description())
    second.restore_numbers(numbers)
    assert (second.step, second.saved, second.tokens) == (7, 7, 21)
    assert (second.position, second.losses) == (first.position, first.losses)
    assert isinstance(second.position, Position)
    del numbers["losses"]  # of an older version
    second.restore_numbers(numbers)
    assert second.losses == {}


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    trainer = _Trainer(tmp_path)
    with pytest.raises(UserError, match="the loss became nan at step 1"):
        trainer.count_step([next(trainer.data.batches(BEGINNING))], [1.0, math.nan], 1.0)


def test_data_without_a_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no batch"):
        _Trainer(tmp_path, dev=_Data(empty=True))
