"""What a run can be told beyond rate and epochs: resume, early stopping, layer decay, weights of labels, regression."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data import ScoredPair, Sentence
from d2lbert.data.batching import pack
from d2lbert.storage.checkpoints import DamagedCheckpointWarning
from d2lbert.tasks.base import Loss
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.pair import PairRegression
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.training import finetuning
from d2lbert.torch.training.evaluation import evaluate
from d2lbert.torch.training.finetuning import Training, fine_tune
from d2lbert.torch.training.losses import compute_loss

WORDS = ["good", "fine", "bad", "poor", "film", "plot", "the", "a"]
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
TASK = Classification(["negative", "positive"])
QUICK = Training(epochs=4, batch_size=8, learning_rate=3e-3)


def _sentences(count: int, seed: int) -> list[Sentence]:
    generator = np.random.default_rng(seed)
    return [
        Sentence(f"the {WORDS[index]} {generator.choice(WORDS[4:])}", TASK.labels[int(index < 2)])
        for index in generator.integers(4, size=count)
    ]


def _model(labels: tuple[str, ...] = TASK.labels) -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(TOKENIZER.vocab), initializer_range=0.1, **sizes)
    return BertForSequenceClassification(BertModel(config), labels)


def _run(
    settings: Training, checkpoint: Path | None = None, stopped: Callable[[], bool] = lambda: False
) -> tuple[dict[str, torch.Tensor], list[dict[str, float]]]:
    model = _model()
    data = _sentences(50, 1), _sentences(40, 2)
    history = fine_tune(model, TASK, TOKENIZER, *data, settings, None, False, checkpoint, stopped)
    return model.state_dict(), history


def test_bfloat16_trains_nearly_the_same_model_in_float32_weights() -> None:
    exact, history = _run(QUICK)
    rounded, other = _run(dataclasses.replace(QUICK, precision="bfloat16"))
    assert _run(dataclasses.replace(QUICK, precision="auto"))[1][0]["loss"] == history[0]["loss"]  # on a processor
    assert other[0]["loss"] != history[0]["loss"]
    assert other[0]["loss"] == pytest.approx(history[0]["loss"], rel=1e-2)
    assert all(weight.dtype == exact[name].dtype for name, weight in rounded.items())
    assert other[-1]["accuracy"] == pytest.approx(history[-1]["accuracy"], abs=0.1)


class Stopped(Exception):
    """The power failed."""


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, history = _run(QUICK)
    original, epochs = finetuning.train_epoch, []

    def fail_in_the_third_epoch(*arguments):
        epochs.append(0)
        if len(epochs) == 3:
            torch.rand(7)  # random numbers that the resumed run must not see
            raise Stopped
        return original(*arguments)

    monkeypatch.setattr(finetuning, "train_epoch", fail_in_the_third_epoch)
    with pytest.raises(Stopped):
        _run(QUICK, tmp_path)
    steps = -(-50 // QUICK.batch_size)  # of an epoch
    saved = [f"checkpoint-{epochs * steps:08}" for epochs in (1, 2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == saved
    resumed, resumed_history = _run(QUICK, tmp_path)
    assert len(epochs) == 3 + 2
    assert [record["loss"] for record in resumed_history] == [record["loss"] for record in history]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_run_that_is_told_to_stop_goes_on_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """At the first step of an epoch, within one, and twice in one: nothing is trained on twice, no bit differs."""
    settings = dataclasses.replace(QUICK, batch_size=7)
    whole, history = _run(settings)
    steps = -(-50 // settings.batch_size)
    for stop in (3, 5, 5 + steps, 2 * steps):
        asked = itertools.count(int(max((path.name[-8:] for path in tmp_path.iterdir()), default=0)))
        with pytest.raises(KeyboardInterrupt):
            _run(settings, tmp_path, lambda stop=stop, asked=asked: next(asked) == stop)
        assert (tmp_path / f"checkpoint-{stop:08}").is_dir()
    resumed, resumed_history = _run(settings, tmp_path)
    assert [record["loss"] for record in resumed_history] == [record["loss"] for record in history]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_run_without_checkpoints_is_told_to_stop() -> None:
    with pytest.raises(KeyboardInterrupt):
        _run(QUICK, None, lambda: True)


def test_checkpoints_that_cannot_be_used(tmp_path: Path) -> None:
    _run(dataclasses.replace(QUICK, epochs=1), tmp_path)
    with pytest.raises(UserError, match=r"of another run: epochs was 1 and is now 4; give the same, or remove"):
        _run(QUICK, tmp_path)
    (state,) = tmp_path.glob("checkpoint-*/state.pt")
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)
    with pytest.warns(DamagedCheckpointWarning), pytest.raises(UserError, match=r"is damaged: remove .* to start anew"):
        _run(dataclasses.replace(QUICK, epochs=1), tmp_path)


def test_patience_stops_a_run_that_no_longer_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = iter([0.0, 0.5, 0.7, 0.6, 0.7, 0.9])  # the first is asked for before the training
    monkeypatch.setattr(Classification, "score", lambda *_: {"accuracy": next(accuracies), "f1": 0.0})
    _, history = _run(dataclasses.replace(QUICK, epochs=5, patience=2))
    assert [record["accuracy"] for record in history] == [0.5, 0.7, 0.6, 0.7]


def test_of_epochs_that_tie_the_later_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights, too: those of the last epoch, where all score the same."""
    accuracies = iter([0.0, 0.5, 0.7, 0.7, 0.7])
    monkeypatch.setattr(Classification, "score", lambda *_: {"accuracy": next(accuracies)})
    kept, history = _run(QUICK)
    assert history.best["epoch"] == 4
    accuracies = iter([0.0, 0.5, 0.7, 0.6, 0.6])
    earlier, history = _run(QUICK)
    assert history.best["epoch"] == 2
    assert not torch.equal(kept["classifier.weight"], earlier["classifier.weight"])
    accuracies = iter([0.0, 0.1, 0.2, 0.3, 0.4])
    last, _ = _run(QUICK)
    assert torch.equal(kept["classifier.weight"], last["classifier.weight"])


def test_by_epoch_the_last_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = iter([0.0, 0.9, 0.1])  # the first is asked for before the training
    monkeypatch.setattr(Classification, "score", lambda *_: {"accuracy": next(accuracies)})
    kept, history = _run(dataclasses.replace(QUICK, epochs=2, best_by="epoch"))
    assert [record["accuracy"] for record in history] == [0.9, 0.1]
    assert history.best["epoch"] == 2
    assert history.shown == "accuracy"
    accuracies = iter([0.0, 0.1, 0.9])
    last, _ = _run(dataclasses.replace(QUICK, epochs=2))
    assert torch.equal(kept["classifier.weight"], last["classifier.weight"])


def test_best_by_chooses_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [{"accuracy": 0.9, "f1": 0.1}, {"accuracy": 0.1, "f1": 0.9}]
    kept = {}
    for best_by in ("", "f1"):
        given = iter([scores[0], *scores])  # the first is asked for before the training
        monkeypatch.setattr(Classification, "score", lambda *_, given=given: next(given))
        kept[best_by], _ = _run(dataclasses.replace(QUICK, epochs=2, best_by=best_by))
    assert not torch.equal(kept[""]["classifier.weight"], kept["f1"]["classifier.weight"])
    monkeypatch.setattr(Classification, "score", lambda *_: scores[0])
    with pytest.raises(UserError, match="unknown score best_by 'f2': did you mean f1"):
        _run(dataclasses.replace(QUICK, best_by="f2"))


def test_layer_decay_moves_low_layers_less() -> None:
    start = _model().state_dict()
    moved = {}
    for decay in (1.0, 0.1):
        end, _ = _run(dataclasses.replace(QUICK, epochs=1, layer_decay=decay))
        moved[decay] = (end["bert.embeddings.word.weight"] - start["bert.embeddings.word.weight"]).abs().max()
    assert moved[0.1] < moved[1.0] / 20


def test_bias_correction_is_on_unless_it_is_switched_off(tmp_path: Path) -> None:
    by_default, _ = _run(dataclasses.replace(QUICK, epochs=1))
    with_it, _ = _run(dataclasses.replace(QUICK, epochs=1, bias_correction=True))
    settings = dataclasses.replace(QUICK, epochs=2, bias_correction=False)
    without, history = _run(settings, tmp_path)
    assert torch.equal(by_default["classifier.weight"], with_it["classifier.weight"])
    start = _model().state_dict()["bert.embeddings.word.weight"]
    moved = [(end["bert.embeddings.word.weight"] - start).abs().mean() for end in (without, with_it)]
    assert moved[0] > 1.5 * moved[1]
    _, again = _run(settings, tmp_path)  # the moments are in the checkpoint
    assert [record["loss"] for record in again] == [record["loss"] for record in history]


def test_balanced_weights_are_inverse_to_frequency() -> None:
    sentences = [Sentence("good film", "positive")] * 6 + [Sentence("bad film", "negative")] * 2
    inputs = TASK.inputs(sentences, TOKENIZER, 8)
    weights = finetuning._class_weights(TASK, inputs, "cpu")
    assert weights.tolist() == pytest.approx([8 / (2 * 2), 8 / (2 * 6)])
    batch = pack([one.encodings[0] for one in inputs])
    logits = torch.zeros(8, 2)
    logits[:, 1] = 1.0
    loss = compute_loss(Loss.LABEL, logits, [one.target for one in inputs], batch, weights)
    surprise = np.log(1 + np.e) - np.array([0.0, 1.0])
    assert float(loss) == pytest.approx(surprise.mean())  # both labels count the same
    with pytest.raises(UserError, match="balanced weighs labels"):
        finetuning._class_weights(PairRegression(), inputs, "cpu")


def test_regression_learns_to_count_praise_in_both_texts() -> None:
    generator = np.random.default_rng(3)
    pairs = []
    for _ in range(200):
        first, second = generator.choice(["good", "bad"], 2)
        score = 2.5 * ((first == "good") + (second == "good"))
        pairs.append(ScoredPair(f"the {first} film", f"a {second} film", score))
    model, task = _model(("score",)), PairRegression()
    settings = Training(epochs=12, batch_size=8, learning_rate=5e-3)
    history = fine_tune(model, task, TOKENIZER, pairs[:160], pairs[160:], settings, progress=False)
    assert history[-1]["loss"] < 0.5
    assert history[-1]["mean_squared_error"] < 0.5  # the scores have a variance of 3
    scores, answers = evaluate(model, task, TOKENIZER, pairs[160:])
    assert scores["spearman"] == max(record["spearman"] for record in history) > 0.95
    assert len(answers) == 40
    assert all(np.isfinite(answer["score"]) for answer in answers)
