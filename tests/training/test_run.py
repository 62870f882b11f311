"""A run's books: the best epoch, orders, what is saved and when, and whether it is the same run."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.config.training import Training
from d2lbert.data import Sentence
from d2lbert.tasks.classification import Classification
from d2lbert.text import WordPiece
from d2lbert.training.progress import progress_bar
from d2lbert.training.run import (
    BaseRun,
    History,
    Partial,
    Plan,
    check_same_run,
    choose_score,
    fingerprint_of_examples,
    identity,
    plan_run,
)

TASK = Classification(["negative", "positive"])
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])
EXAMPLES = [Sentence("good " * (1 + index % 3), TASK.labels[index % 2]) for index in range(10)]
MODEL = SimpleNamespace(config=BertConfig(max_position_embeddings=16))


class _Run(BaseRun):
    """Its weights are the number of its step; it writes them into a list."""

    def __init__(self, checkpoint: Path | None = None, **settings: Any) -> None:
        inputs = TASK.inputs(EXAMPLES, TOKENIZER, 8)
        super().__init__(Plan(TASK, TOKENIZER, Training(batch_size=4, **settings), inputs, [], "accuracy"), checkpoint)
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


def _examples_of_steps(run: _Run, steps: int = 3) -> list[list[int]]:
    """Which examples each of some steps trains on; the loss of a step is its number."""
    found = []
    with progress_bar(run.total_steps, run.step, shown=False) as bar:
        for items, batch in run.batches():
            assert batch.num_tokens == sum(len(encoding) for item in items for encoding in item.encodings)
            found.append([item.example for item in items])
            run.count(float(run.step + 1), items, batch, bar)
            if len(found) == steps:
                break
    return found


def test_an_epoch_takes_every_example_once_and_counts_it() -> None:
    run = _Run(epochs=2)
    first = _examples_of_steps(run)
    assert [len(step) for step in first] == [4, 4, 2]
    assert sorted(index for step in first for index in step) == list(range(10))
    tokens = sum(len(item.encodings[0]) for item in run.inputs)
    assert (run.step, run.partial.examples, run.partial.tokens) == (3, 10, tokens)
    record = run.record()
    assert (record["epoch"], record["loss"]) == (1, (4 * 1 + 4 * 2 + 2 * 3) / 10)
    assert record["tokens_per_second"] == pytest.approx(tokens / record["seconds"])
    run.finish_epoch({**record, "accuracy": 0.5})
    assert _examples_of_steps(run) != first
    assert run.record()["epoch"] == 2


def test_an_epoch_goes_on_where_it_was_stopped() -> None:
    whole, first, second = _Run(epochs=1), _Run(epochs=1), _Run(epochs=1)
    steps = _examples_of_steps(whole)
    assert _examples_of_steps(first, 2) == steps[:2]
    second.restore_counters(first.counters())
    assert _examples_of_steps(second) == steps[2:]
    assert second.record()["loss"] == whole.record()["loss"]
    assert second.record()["seconds"] > first.partial.seconds


def test_a_loss_that_is_no_number_is_not_counted() -> None:
    run = _Run(epochs=1)
    with pytest.raises(UserError, match="the loss became nan at step 1"), progress_bar(3, 0, shown=False) as bar:
        run.count(math.nan, *next(run.batches()), bar)
    assert run.partial == Partial()


def test_a_run_that_is_told_to_stop_takes_no_step() -> None:
    run = _Run(epochs=1)
    run.stopped = lambda: True
    with pytest.raises(KeyboardInterrupt):
        next(run.batches())


def test_what_a_run_needs_is_made_and_checked() -> None:
    settings = Training(max_length=4)
    with pytest.warns(UserWarning, match="1 of 3 texts cut after 4 tokens"):
        plan = plan_run(MODEL, TASK, TOKENIZER, EXAMPLES[:3], EXAMPLES[3:4], settings)
    assert [item.example for item in plan.inputs] == [0, 1, 2]
    assert [item.target for item in plan.dev_inputs] == [1]
    assert (plan.best_by, plan.settings) == ("accuracy", settings)
    assert max(len(item.encodings[0]) for item in plan.inputs) == 4
    for train, dev, more, complaint in (
        (["good"], EXAMPLES, {}, "is a str, not an example"),
        (EXAMPLES, ["good"], {}, "is a str, not an example"),
        (EXAMPLES, [], {}, "no examples to choose the epoch on"),
        (EXAMPLES, [Sentence("good " * 20, "positive")], {}, "a text of 22 tokens, but the model has 16 positions"),
        (EXAMPLES, EXAMPLES, {"best_by": "f2"}, "unknown score best_by 'f2'"),
    ):
        with pytest.raises(UserError, match=complaint):
            plan_run(MODEL, TASK, TOKENIZER, train, dev, Training(**more))


def test_what_makes_it_another_run() -> None:
    before = identity(TASK, EXAMPLES, EXAMPLES[:1], "abc")
    assert identity(TASK, EXAMPLES, EXAMPLES[:1], "abc") == before
    turned = Classification(["positive", "negative"])
    for name, now in (
        ("labels", identity(turned, EXAMPLES, EXAMPLES[:1], "abc")),
        ("train", identity(TASK, EXAMPLES[1:], EXAMPLES[:1], "abc")),
        ("dev", identity(TASK, EXAMPLES, EXAMPLES[1:2], "abc")),
        ("encoder", identity(TASK, EXAMPLES, EXAMPLES[:1], "abd")),
    ):
        assert [key for key in before if before[key] != now[key]] == [name]


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
