"""The pretraining loop: stopped and resumed to the same bits; tests/parity compares it with PyTorch's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.config.training import Pretraining
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.corpus import learn_vocabulary
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from d2lbert.mxnet.pretraining import BertForPretraining
from d2lbert.mxnet.runtime import seed_everything
from d2lbert.mxnet.training.pretraining import Trainer, refuse_settings

QUICK = Pretraining(steps=8, learning_rate=3e-3, log_every=1, validate_every=4, save_every=3, validation_batches=2)
CONFIG = BertConfig(
    vocab_size=300, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=40, initializer_range=0.05,
)  # fmt: skip


@pytest.fixture(scope="module")
def shards(root: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    files = sorted((root / "data" / "samples" / "wikipedia_en").glob("*.txt"))
    return prepare(files, tmp_path_factory.mktemp("corpus"), learn_vocabulary(files, 300), Preparation(dev_share=0.2))


def _trainer(shards: TokenShards, out: Path, settings: Pretraining = QUICK) -> Trainer:
    seed_everything(0)
    out.mkdir(exist_ok=True)
    data, dev = (PretrainingData(shards, PretrainingSettings(max_length=32, batch_size=4), s) for s in ("train", "dev"))
    return Trainer(BertForPretraining(CONFIG), data, dev, settings, out)


def _bits(trainer: Trainer) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in trainer.model.tensors().items()}


def _lines(out: Path) -> list[str]:
    """The lines of the log, without the last column, which is a time."""
    return [line.rpartition(",")[0] for line in (out / "log.csv").read_text().splitlines()]


@pytest.mark.parametrize("stop_after", [2, 5])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(stop_after: int, shards: TokenShards, tmp_path: Path) -> None:
    whole = _trainer(shards, tmp_path / "whole")
    metrics = whole.run(progress=False)
    first = _trainer(shards, tmp_path / "parts")
    step = first.train_step

    def stopping(batches):  # type: ignore[no-untyped-def]
        first.interrupted = first.step + 1 == stop_after
        return step(batches)

    first.train_step = stopping  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        first.run(progress=False)
    second = _trainer(shards, tmp_path / "parts")
    assert second.resume()
    assert second.step == stop_after
    assert {**second.run(progress=False), "tokens_per_second": 0} == {**metrics, "tokens_per_second": 0}
    assert _bits(second) == _bits(whole)
    assert _lines(tmp_path / "parts") == _lines(tmp_path / "whole")


def test_dropout_is_on_and_differs_between_batches_of_a_step(shards: TokenShards, tmp_path: Path) -> None:
    trainer = _trainer(shards, tmp_path, dataclasses.replace(QUICK, learning_rate=1e-30))
    (batch,) = [batch for batch, _ in [next(trainer.data.batches(trainer.position))]]
    position = trainer.position
    losses = [trainer.train_step(iter([(batch, position)]))["masked_loss"] for _ in range(3)]
    assert len(set(losses)) == 3
    trainer.step = 0
    assert trainer.train_step(iter([(batch, position)]))["masked_loss"] == losses[0]


def test_there_is_nothing_to_go_on_from(shards: TokenShards, tmp_path: Path) -> None:
    assert not _trainer(shards, tmp_path).resume()


def test_another_run_is_refused(shards: TokenShards, tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, steps=1)
    _trainer(shards, tmp_path, settings).run(progress=False)
    with pytest.raises(UserError, match="--resume: steps was 1 and is now 9; give what it was"):
        _trainer(shards, tmp_path, dataclasses.replace(settings, steps=9)).resume()


@pytest.mark.parametrize("change", [{"precision": "bfloat16"}, {"compiled": True}, {"tensorboard": True}])
def test_what_the_edition_lacks(change: dict[str, object]) -> None:
    refuse_settings(QUICK)
    with pytest.raises(UserError, match=r"the mxnet edition has no (bfloat16|compiling|TensorBoard): leave it out"):
        refuse_settings(dataclasses.replace(QUICK, **change))  # type: ignore[arg-type]
