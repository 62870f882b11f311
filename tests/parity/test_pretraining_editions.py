"""Both editions pretrain alike: from the same weights and without dropout, step by step, in one log."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.config.training import Pretraining
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.corpus import learn_vocabulary
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.torch.pretraining import BertForPretraining as TorchModel
from d2lbert.torch.training.pretraining import Trainer as TorchTrainer

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from edition_support import same_random_parameters

from d2lbert.mxnet.pretraining import BertForPretraining
from d2lbert.mxnet.training.pretraining import Trainer

SETTINGS = Pretraining(steps=50, learning_rate=2e-3, log_every=1, validate_every=25, save_every=50, accumulation=2)
CONFIG = BertConfig(
    vocab_size=300, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
    max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def shards(root: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    files = sorted((root / "data" / "samples" / "wikipedia_en").glob("*.txt"))
    return prepare(files, tmp_path_factory.mktemp("corpus"), learn_vocabulary(files, 300), Preparation(dev_share=0.2))


def _trainer(trainer: Any, model: Any, shards: TokenShards, out: Path, settings: Pretraining, packed: bool) -> Any:
    examples = PretrainingSettings(max_length=32, batch_size=4, packed=packed)
    out.mkdir(exist_ok=True)
    data, dev = (PretrainingData(shards, examples, split) for split in ("train", "dev"))
    return trainer(model, data, dev, settings, out)


def _log(out: Path) -> list[dict[str, str]]:
    with (out / "log.csv").open() as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("packed", [True, False])
def test_fifty_steps(packed: bool, shards: TokenShards, tmp_path: Path) -> None:
    one, two = TorchModel(CONFIG), BertForPretraining(CONFIG)
    same_random_parameters(one, two)
    _trainer(TorchTrainer, one, shards, tmp_path / "torch", SETTINGS, packed).run(progress=False)
    _trainer(Trainer, two, shards, tmp_path / "mxnet", SETTINGS, packed).run(progress=False)
    expected, found = _log(tmp_path / "torch"), _log(tmp_path / "mxnet")
    assert len(found) == 50
    for theirs, ours in zip(expected, found, strict=True):
        assert list(theirs) == list(ours)
        for name in set(theirs) - {"tokens_per_second"}:
            if theirs[name]:
                assert float(ours[name]) == pytest.approx(float(theirs[name]), abs=1e-3), (name, theirs["step"])
    assert float(found[-1]["dev_masked_loss"]) < float(found[0]["masked_loss"])
    tensors = one.tensors()
    for name, array in two.tensors().items():
        if not name.endswith("key.bias"):  # its gradient is a rounding error, which Adam makes large
            assert np.abs(tensors[name] - array).max() < 5e-3, name


def test_a_checkpoint_is_a_folder_for_both_but_goes_on_in_its_own(shards: TokenShards, tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, steps=2, save_every=2, validate_every=2)
    trainers = {"torch": (TorchTrainer, TorchModel), "mxnet": (Trainer, BertForPretraining)}
    for name, (trainer, model) in trainers.items():
        _trainer(trainer, model(CONFIG), shards, tmp_path / name, settings, True).run(progress=False)
        folder = tmp_path / name / "checkpoints" / "checkpoint-00000002"
        tensors = [kind.from_pretrained(folder).tensors() for kind in (TorchModel, BertForPretraining)]
        assert all(np.array_equal(array, tensors[1][key]) for key, array in tensors[0].items())
    for name, (trainer, model) in trainers.items():
        other = tmp_path / ("mxnet" if name == "torch" else "torch")
        with pytest.raises(UserError, match="--resume: edition was"):
            _trainer(trainer, model(CONFIG), shards, other, settings, True).resume()
