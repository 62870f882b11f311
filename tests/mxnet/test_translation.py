"""The loop: a run that was interrupted ends like one that was not, the best weights stay, mistakes are one line.

tests/parity/test_sequence_training_editions.py compares it with PyTorch's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.config import Seq2SeqConfig, TransformerConfig
from d2lbert.data.translation import EncodedPair, PairBatches
from d2lbert.storage.checkpoints import DamagedCheckpointWarning
from d2lbert.training.translation import SequenceTraining

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet

from d2lbert.mxnet import translation
from d2lbert.mxnet.blocks import shared_names
from d2lbert.mxnet.seq2seq import Seq2Seq
from d2lbert.mxnet.transformer import Transformer
from d2lbert.mxnet.translation import evaluate_sequences, label_smoothing_loss, train_sequences

V = 17
SETTINGS = SequenceTraining(
    steps=12, tokens=60, learning_rate=0.01, warmup_steps=4, label_smoothing=0.1, evaluate_every=4, seed=5
)


# A rate that grows and grows: on every processor each evaluation is far worse than the first.
DIVERGING = replace(SETTINGS, steps=24, learning_rate=5.0, warmup_steps=24)


def _model(kind: str, dropout: float = 0.1) -> Any:
    mxnet.random.seed(0)
    if kind == "transformer":
        sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
        return Transformer(TransformerConfig(V, V, 32, hidden_dropout_prob=dropout, **sizes))
    return Seq2Seq(Seq2SeqConfig(V, V, 32, embedding_size=16, hidden_dropout_prob=dropout))


def _pairs(count: int, seed: int) -> list[EncodedPair]:
    """Copy what is there: the easiest task."""
    generator = np.random.default_rng(seed)
    texts = [generator.integers(3, V, generator.integers(1, 8)).tolist() for _ in range(count)]
    return [EncodedPair([*text, 2], [1, *text, 2]) for text in texts]


def _train(model: Any, settings: SequenceTraining = SETTINGS, **options: Any) -> list[dict[str, float]]:
    return train_sequences(model, _pairs(70, 0), _pairs(20, 1), settings, progress=False, **options)


def _weights(model: Any) -> dict[str, np.ndarray]:
    return {name: parameter.data().asnumpy() for name, parameter in shared_names(model).items()}


kinds = pytest.mark.parametrize("kind", ["transformer", "seq2seq"])


@kinds
def test_an_interrupted_run_ends_like_an_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    assert 8 % len(PairBatches(_pairs(70, 0), SETTINGS.tokens)), "the break must fall into an epoch"
    whole = _model(kind)
    expected = _train(whole, folder=tmp_path / "whole")
    _train(_model(kind), replace(SETTINGS, steps=8), folder=tmp_path / "broken")
    mxnet.random.seed(99)  # what happens between must not matter
    again = _model(kind)
    for parameter in shared_names(again).values():
        parameter.set_data(mxnet.nd.random.normal(shape=parameter.shape))
    history = _train(again, folder=tmp_path / "broken", resume=True)
    assert len(history) == 3
    for record, resumed in zip(expected, history, strict=True):
        assert {**record, "seconds": 0} == {**resumed, "seconds": 0}
    assert history[2]["seconds"] > history[1]["seconds"] > 0
    found = _weights(again)
    assert all(np.array_equal(value, found[name]) for name, value in _weights(whole).items())
    assert (tmp_path / "whole/model.safetensors").read_bytes() == (tmp_path / "broken/model.safetensors").read_bytes()


@kinds
def test_dropout_is_on_in_training_and_off_in_evaluation(kind: str) -> None:
    with_dropout, without = _model(kind, 0.5), _model(kind, 0.0)
    pairs = _pairs(20, 1)
    assert evaluate_sequences(with_dropout, pairs) == evaluate_sequences(with_dropout, pairs)
    assert evaluate_sequences(with_dropout, pairs) == evaluate_sequences(without, pairs)
    settings = replace(SETTINGS, steps=1)
    assert _train(with_dropout, settings)[0]["loss"] != pytest.approx(_train(without, settings)[0]["loss"], abs=1e-5)


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    model = _model("seq2seq")
    history = _train(model, DIVERGING, folder=tmp_path)
    losses = [record["dev_loss"] for record in history]
    assert min(losses) < losses[-1], "a learning rate far too high must make the last evaluation a bad one"
    assert evaluate_sequences(model, _pairs(20, 1)) == pytest.approx(min(losses), abs=1e-6)
    best = Seq2Seq.from_pretrained(tmp_path)
    assert evaluate_sequences(best, _pairs(20, 1)) == pytest.approx(min(losses), abs=1e-6)
    model = _model("seq2seq")
    resumed = _train(model, replace(DIVERGING, steps=28), folder=tmp_path, resume=True)
    assert min(losses) < resumed[-1]["dev_loss"], "the best evaluation must lie before the break"
    assert evaluate_sequences(model, _pairs(20, 1)) == pytest.approx(min(losses), abs=1e-6)


def test_the_loss_by_hand() -> None:
    """Two tokens of three; the model gives each of four words the same probability, and then prefers the right one."""
    ids, mask = mxnet.nd.array([[1, 2, 0]]), mxnet.nd.array([[1, 1, 0]])
    even = mxnet.nd.zeros((1, 3, 4))
    assert label_smoothing_loss(even, ids, mask, 0.4).asscalar() == pytest.approx(np.log(4), abs=1e-5)
    even[0, 2] = mxnet.nd.array([50, 0, 0, 0])  # padding
    assert label_smoothing_loss(even, ids, mask, 0.4).asscalar() == pytest.approx(np.log(4), abs=1e-5)
    sharp = mxnet.nd.array([[[0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]]])
    total = np.log(np.exp(2) + 3)
    assert label_smoothing_loss(sharp, ids, mask, 0.4).asscalar() == pytest.approx(
        total - 0.6 * 2 - 0.4 * 2 / 4, abs=1e-5
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.02}, "of another run: learning_rate was 0.01 and is now 0.02; give the same, or remove"),
        ({"decay": "linear"}, "of another run: decay was 'root' and is now 'linear'"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    _train(_model("seq2seq"), folder=tmp_path)
    with pytest.raises(UserError, match=message):
        _train(_model("seq2seq"), replace(SETTINGS, **change), folder=tmp_path, resume=True)
    with pytest.raises(UserError, match="holds the checkpoints of a run: resume it, or choose another folder"):
        _train(_model("seq2seq"), folder=tmp_path)


def test_a_run_of_the_other_edition_does_not_go_on(tmp_path: Path) -> None:
    from d2lbert.torch import seq2seq as torch_seq2seq
    from d2lbert.torch import translation as torch_translation

    other = torch_seq2seq.Seq2Seq(_model("seq2seq").config)
    pairs = {"train": _pairs(70, 0), "dev": _pairs(20, 1), "settings": SETTINGS, "progress": False}
    torch_translation.train_sequences(other, folder=tmp_path / "torch", **pairs)
    with pytest.raises(UserError, match="of another run: edition was None and is now 'mxnet'"):
        _train(_model("seq2seq"), folder=tmp_path / "torch", resume=True)
    _train(_model("seq2seq"), folder=tmp_path / "mxnet")
    with pytest.raises(UserError, match="of another run: edition was 'mxnet' and is now None"):
        torch_translation.train_sequences(other, folder=tmp_path / "mxnet", resume=True, **pairs)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    _train(_model("seq2seq"), folder=tmp_path)
    for path in (tmp_path / "checkpoints").glob("*/state.safetensors"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 64
        path.write_bytes(content)
    with (
        pytest.warns(DamagedCheckpointWarning, match="wrong sha256"),
        pytest.raises(UserError, match=r"every checkpoint in .* is damaged: remove") as caught,
    ):
        _train(_model("seq2seq"), folder=tmp_path, resume=True)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_without_a_part_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = translation.save_checkpoint
    with monkeypatch.context() as patched:
        patched.setattr(translation, "save_checkpoint", lambda *run: save(*run[:4], {"steps": 3}))
        _train(_model("seq2seq"), folder=tmp_path)
    with pytest.raises(UserError, match=r"checkpoint-\d+ does not hold the state of this run \(TypeError\)"):
        _train(_model("seq2seq"), folder=tmp_path, resume=True)


def test_what_cannot_be_resumed_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="start the run without resume"):
        _train(_model("seq2seq"), folder=tmp_path, resume=True)
    with pytest.raises(UserError, match="to resume needs the folder of the run"):
        _train(_model("seq2seq"), resume=True)


def test_a_loss_that_is_no_number_is_one_line() -> None:
    model = _model("seq2seq")
    model.output.bias.set_data(mxnet.nd.full(V, float("nan")))
    with pytest.raises(UserError, match=r"the loss became nan at step \d+: lower the learning rate"):
        _train(model)


def test_a_last_step_that_ruins_the_weights_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The loss of the step is finite, the weights that it makes are not."""
    model, step = _model("seq2seq"), translation._train_step

    def ruin(*arguments: Any) -> float:
        loss = step(*arguments)
        model.output.bias.set_data(mxnet.nd.full(V, float("inf")))
        return loss

    monkeypatch.setattr(translation, "_train_step", ruin)
    with pytest.raises(UserError, match=r" became NaN or infinite at step 1: lower the learning rate$"):
        _train(model, replace(SETTINGS, steps=1), folder=tmp_path)
    assert not list(tmp_path.iterdir())
