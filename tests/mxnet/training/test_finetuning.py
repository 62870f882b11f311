"""The loop: it learns, keeps its best epoch, stops and goes on bit for bit; tests/parity compares it with PyTorch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.config.training import Training
from d2lbert.data import Sentence
from d2lbert.tasks.classification import Classification
from d2lbert.text import WordPiece

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet

from d2lbert.mxnet.bert import BertModel
from d2lbert.mxnet.blocks import shared_names
from d2lbert.mxnet.heads import BertForSequenceClassification
from d2lbert.mxnet.training import finetuning
from d2lbert.mxnet.training.evaluation import evaluate
from d2lbert.mxnet.training.finetuning import fine_tune
from d2lbert.training.run import History, Plan

WORDS = ["good", "fine", "bad", "poor", "film", "plot", "the", "a"]
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
TASK = Classification(["negative", "positive"])
SETTINGS = Training(epochs=3, batch_size=8, learning_rate=3e-3, max_length=16)


def _examples(count: int = 40) -> list[Sentence]:
    generator = np.random.default_rng(1)
    found = []
    for _ in range(count):
        words = list(generator.choice(WORDS[4:], generator.integers(1, 5)))
        judgement = str(generator.choice(WORDS[:4]))
        label = "positive" if judgement in ("good", "fine") else "negative"
        words.insert(int(generator.integers(0, len(words) + 1)), judgement)
        found.append(Sentence(" ".join(words), label))
    return found


EXAMPLES = _examples()


@pytest.mark.filterwarnings("ignore:.*texts cut after")
def test_what_is_trained_on_few_tokens_reads_as_few() -> None:
    model = _model()
    settings = Training(epochs=1, batch_size=8, learning_rate=3e-3, max_length=5)
    fine_tune(model, TASK, TOKENIZER, EXAMPLES, EXAMPLES, settings, progress=False)
    assert model.trained_length == 5
    rest = [[Sentence(f"the film a {last}", "positive")] for last in ("good good", "bad bad")]
    for length, same in (((), True), ((16,), False)):
        one, two = (evaluate(model, TASK, TOKENIZER, example, *length)[1] for example in rest)
        assert (one == two) == same


def _model(dropout: float = 0.2) -> BertForSequenceClassification:
    mxnet.random.seed(5)
    config = BertConfig(
        vocab_size=len(TOKENIZER.vocab), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=32, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout, initializer_range=0.1,
    )  # fmt: skip
    return BertForSequenceClassification(BertModel(config), TASK.labels)


def _run(settings: Training = SETTINGS, dropout: float = 0.2, **more: Any) -> tuple[dict[str, np.ndarray], History]:
    model = _model(dropout)
    history = fine_tune(model, TASK, TOKENIZER, EXAMPLES, EXAMPLES[:16], settings, progress=False, **more)
    return {name: parameter.data().asnumpy() for name, parameter in shared_names(model).items()}, history


def _same(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(array, two[name]) for name, array in one.items())


def _losses(history: History) -> list[float]:
    return [record["loss"] for record in history]


def test_it_learns_and_a_seed_gives_the_same_run() -> None:
    settings = Training(**{**vars(SETTINGS), "epochs": 12})
    weights, history = _run(settings)
    again, repeated = _run(settings)
    assert _same(weights, again)
    assert _losses(history) == _losses(repeated)
    assert history[-1]["loss"] < 0.5 < history[0]["loss"]
    assert history.best["accuracy"] > 0.9
    other, _ = _run(Training(**{**vars(settings), "seed": 1}))
    assert not _same(weights, other)


def test_dropout_is_on_in_training_in_every_epoch() -> None:
    with_it, without = _run(), _run(dropout=0.0)
    assert all(one != two for one, two in zip(_losses(with_it[1]), _losses(without[1]), strict=True))
    frozen = Training(**{**vars(SETTINGS), "learning_rate": 1e-30, "batch_size": 40})
    _, history = _run(frozen)
    assert len(set(_losses(history))) == 3  # the same weights and texts: dropout alone makes them differ
    _, history = _run(frozen, dropout=0.0)
    assert _losses(history) == pytest.approx([_losses(history)[0]] * 3, abs=1e-6)


@pytest.mark.parametrize("stop_after", [1, 5, 7, 12])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(stop_after: int, tmp_path: Path) -> None:
    """Five steps an epoch: stopped inside the first, between two, inside the second and the third."""
    weights, history = _run()
    asked = iter([False] * stop_after + [True])
    with pytest.raises(KeyboardInterrupt):
        _run(checkpoint=tmp_path, stopped=lambda: next(asked))
    resumed, records = _run(checkpoint=tmp_path)
    assert _same(weights, resumed)
    assert _losses(history) == _losses(records)
    finished, same = _run(checkpoint=tmp_path)  # nothing is left to do
    assert _same(weights, finished)
    assert _losses(same) == _losses(history)


def test_another_run_does_not_go_on(tmp_path: Path) -> None:
    _run(checkpoint=tmp_path)
    with pytest.raises(UserError, match=r"of another run: learning_rate was 0\.003 and is now 0\.1"):
        _run(Training(**{**vars(SETTINGS), "learning_rate": 0.1}), checkpoint=tmp_path)


def test_a_run_of_the_other_edition_does_not_go_on(tmp_path: Path) -> None:
    from d2lbert.torch.bert import BertModel as TorchBert
    from d2lbert.torch.heads import BertForSequenceClassification as TorchHead
    from d2lbert.torch.training.finetuning import fine_tune as torch_fine_tune

    model, sets = _model(), (EXAMPLES, EXAMPLES[:16])
    twin = TorchHead(TorchBert(model.config), TASK.labels)
    twin.bert.load_tensors(model.bert.tensors(), tmp_path)
    torch_fine_tune(twin, TASK, TOKENIZER, *sets, SETTINGS, "cpu", False, tmp_path / "torch")
    with pytest.raises(UserError, match="is of another run: "):
        _run(checkpoint=tmp_path / "torch")
    _run(checkpoint=tmp_path / "mxnet")
    with pytest.raises(UserError, match="is of another run: "):
        torch_fine_tune(twin, TASK, TOKENIZER, *sets, SETTINGS, "cpu", False, tmp_path / "mxnet")


def test_the_best_epoch_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.4, 0.9, 0.2])
    kept: list[dict[str, np.ndarray]] = []
    finish = finetuning.Run.finish_epoch

    def finish_epoch(run: Any, record: dict[str, float]) -> None:
        kept.append(run.weights())
        finish(run, {**record, "accuracy": next(scores)})

    monkeypatch.setattr(finetuning.Run, "finish_epoch", finish_epoch)
    weights, history = _run()
    assert history.best["epoch"] == 2
    assert _same(weights, kept[1])
    assert not _same(weights, kept[2])


def test_rare_labels_count_more() -> None:
    inputs = TASK.inputs(EXAMPLES, TOKENIZER, 16)
    run = finetuning.Run(
        _model(), mxnet.cpu(), Plan(TASK, TOKENIZER, Training(balanced=True), inputs, inputs, "accuracy")
    )
    counts = [sum(one.label == label for one in EXAMPLES) for label in TASK.labels]
    assert run.class_weights is not None
    assert run.class_weights.tolist() == pytest.approx([40 / (2 * count) for count in counts])
    assert _losses(_run(Training(**{**vars(SETTINGS), "balanced": True}))[1]) != _losses(_run()[1])


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="the mxnet edition trains in float32 alone"):
        _run(Training(precision="bfloat16"))
    with pytest.raises(UserError, match="no examples to train on"):
        fine_tune(_model(), TASK, TOKENIZER, [], EXAMPLES, SETTINGS, progress=False)
    with pytest.raises(UserError, match=r"the loss became (nan|inf) at step \d+: lower the learning rate"):
        _run(Training(**{**vars(SETTINGS), "learning_rate": 1e30}))


def test_the_model_scores_as_its_best_epoch() -> None:
    model = _model()
    history = fine_tune(model, TASK, TOKENIZER, EXAMPLES, EXAMPLES[:16], SETTINGS, progress=False)
    scores, _ = evaluate(model, TASK, TOKENIZER, EXAMPLES[:16], 16)
    assert scores["accuracy"] == history.best["accuracy"]
    assert list(history[0])[:4] == ["epoch", "loss", "seconds", "tokens_per_second"]
