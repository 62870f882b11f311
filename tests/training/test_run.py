"""A run's books: the best epoch, orders, what is saved and when, and whether it is the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.config.training import Training
from d2lbert.data import Sentence
from d2lbert.tasks.base import Input
from d2lbert.tasks.classification import Classification
from d2lbert.text import WordPiece
from d2lbert.training.run import BaseRun, History, Partial, check_same_run, choose_score, fingerprint_of_examples

TASK = Classification(["negative", "positive"])
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])


class _Run(BaseRun):
    """Its weights are the number of its step; it writes them into a list."""

    def __init__(self, checkpoint: Path | None = None, **settings: Any) -> None:
        inputs = [Input((), 0, index) for index in range(10)]
        super().__init__(TASK, TOKENIZER, Training(batch_size=4, **settings), inputs, "accuracy", checkpoint)
        self.written: list[int] = []

    def weights(self) -> int:
        return self.step

    def write(self) -> None:
        self.written.append(self.step)


def _epoch(run: _Run, accuracy: float) -> list[int]:
    order = run.order.permutation(10).tolist()
    run.step += 3
    run.finish_epoch({"epoch": len(run.history) + 1, "loss": 1.0, "accuracy": accuracy})
    return order


def test_steps_of_all_epochs() -> None:
    run = _Run(epochs=5, warmup=0.25)
    assert (run.total_steps, run.warmup_steps) == (15, 3)


def test_of_two_best_epochs_the_later_is_kept() -> None:
    run = _Run(epochs=5, patience=2)
    for accuracy, best, since, over in ((0.5, 3, 0, False), (0.7, 6, 0, False), (0.7, 9, 1, False), (0.6, 9, 2, True)):
        _epoch(run, accuracy)
        assert (run.best_weights, run.epochs_since_best, run.is_over) == (best, since, over)
    assert run.history.best["epoch"] == 3


def test_a_run_without_patience_ends_with_its_epochs() -> None:
    run = _Run(epochs=2)
    _epoch(run, 0.5)
    assert not run.is_over
    _epoch(run, 0.4)
    assert run.is_over


def test_a_run_goes_on_in_the_same_order() -> None:
    whole = _Run(epochs=3)
    orders = [_epoch(whole, 0.5) for _ in range(3)]
    assert orders[0] != orders[1]
    first = _Run(epochs=3)
    _epoch(first, 0.5)
    first.order.permutation(10)  # stopped in the middle of the second epoch
    first.step, first.partial = 4, Partial(4, 20, 2.0, 1.0)
    second = _Run(epochs=3)
    second.restore_counters(first.counters())
    assert (second.step, second.saved, second.partial) == (4, 4, first.partial)
    assert list(second.history) == list(first.history)
    assert [_epoch(second, 0.5) for _ in range(2)] == orders[1:]


def test_one_checkpoint_a_step_and_none_without_a_folder(tmp_path: Path) -> None:
    run = _Run(tmp_path)
    run.save()
    run.step = 2
    run.save()
    run.save()
    assert run.written == [2]
    without = _Run()
    without.step = 2
    without.save()
    assert without.written == []


def test_a_run_that_is_told_to_stop_saves_its_last_step(tmp_path: Path) -> None:
    run = _Run(tmp_path)
    run.step = 3
    run.stop_if_told()
    assert run.written == []
    run.stopped = lambda: True
    with pytest.raises(KeyboardInterrupt):
        run.stop_if_told()
    assert run.written == [3]


def test_what_is_shown_of_an_epoch() -> None:
    record = {"epoch": 1, "loss": 0.5, "seconds": 1.0, "tokens_per_second": 2.0, "accuracy": 0.5, "f1": 0.4}
    assert History("f1", [record]).shown == "f1"
    assert History("epoch", [record, {**record, "epoch": 2, "accuracy": 0.1}]).shown == "accuracy"
    assert History("epoch", [record, {**record, "epoch": 2, "accuracy": 0.1}]).best["epoch"] == 2


def test_the_score_that_chooses() -> None:
    dev = [Sentence("good", "positive"), Sentence("bad", "negative")]
    inputs = TASK.inputs(dev, TOKENIZER, 8)
    assert choose_score(TASK, dev, inputs, "") == "accuracy"
    assert choose_score(TASK, dev, inputs, "f1") == "f1"
    assert choose_score(TASK, dev, inputs, "epoch") == "epoch"
    with pytest.raises(UserError, match="unknown score best_by 'acuracy': did you mean accuracy"):
        choose_score(TASK, dev, inputs, "acuracy")
    with pytest.raises(UserError, match="its highest value is not the best"):
        choose_score(TASK, dev, inputs, "mean_squared_error")


def test_another_run_is_refused() -> None:
    before = {"epochs": 3, "labels": ["a", "b"]}
    check_same_run("runs", before, {"epochs": 3, "labels": ("a", "b")})
    for now in ({"epochs": 4, "labels": ["a", "b"]}, {"epochs": 3}, {**before, "seed": 1}):
        with pytest.raises(UserError, match=r"^runs is of another run: (epochs was 3|labels was|seed was None)"):
            check_same_run("runs", before, now)


def test_other_examples_or_another_order_have_another_name() -> None:
    one, two = Sentence("good film", "positive"), Sentence("bad film", "negative")
    several = [[one, two], [two, one], [one], [one, two, two], [], [one, Sentence("bad film", "positive")]]
    names = [fingerprint_of_examples(examples) for examples in several]
    assert len(set(names)) == len(several)
    assert fingerprint_of_examples(iter([Sentence("good film", "positive"), two])) == names[0]
    assert {len(name) for name in names} == {16}
