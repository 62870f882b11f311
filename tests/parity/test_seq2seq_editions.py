"""The recurrent encoder-decoder of the MXNet edition equals that of the PyTorch edition: outputs, gradients, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from d2lbert.config import Seq2SeqConfig
from d2lbert.torch import seq2seq as torch_seq2seq

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from edition_support import assert_same, mxnet_run, same_random_parameters, torch_run

from d2lbert.mxnet import seq2seq

B, M, L = 3, 6, 5
SIZES = {"source_vocab_size": 23, "target_vocab_size": 19, "hidden_size": 8, "embedding_size": 6}
ONE_TABLE = {"target_vocab_size": 23, "share_embeddings": True, "tie_word_embeddings": True}


def _pair(**changes: Any) -> tuple[torch_seq2seq.Seq2Seq, Any]:
    config = Seq2SeqConfig(**{**SIZES, **changes})
    one, two = torch_seq2seq.Seq2Seq(config).eval(), seq2seq.Seq2Seq(config)
    same_random_parameters(one, two)
    for parameter in one.parameters():  # larger weights: of two layers of small ones no gradient would come back
        parameter.data *= 4
    for parameter in two.collect_params().values():
        parameter.set_data(4 * parameter.data())
    return one, two


def _inputs(mask: bool) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    ids = [generator.integers(0, 23, (B, M)), generator.integers(0, 19, (B, L))]
    return [*ids, np.arange(M) < M - 2 * np.arange(B)[:, None]] if mask else ids


def _outputs(output: Any) -> list[Any]:
    return [output.logits] if output.attentions is None else [output.logits, output.attentions]


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("attention", ["none", "additive", "dot"])
@pytest.mark.parametrize(("bidirectional", "layers", "mask"), [(True, 1, True), (False, 2, False), (True, 2, True)])
def test_outputs_and_gradients(cell: str, attention: str, bidirectional: bool, layers: int, mask: bool) -> None:
    one, two = _pair(cell=cell, attention=attention, bidirectional=bidirectional, num_hidden_layers=layers)
    tensors = [torch.from_numpy(array) for array in _inputs(mask)]
    arrays = [mxnet.nd.array(array) for array in _inputs(mask)]
    expected = torch_run(one, lambda: _outputs(one(*tensors)), [])
    assert len(expected[0]) == (1 if attention == "none" else 2)
    assert_same(expected, mxnet_run(two, lambda: _outputs(two(*arrays)), []))


@pytest.mark.parametrize("tables", [ONE_TABLE, {"tie_word_embeddings": True}], ids=["one table", "tied output"])
def test_shared_tables(tables: dict[str, Any]) -> None:
    one, two = _pair(**tables)
    assert two.output.weight is two.target_embedding.weight
    assert (two.source_embedding is two.target_embedding) is ("share_embeddings" in tables)
    tensors = [torch.from_numpy(array) for array in _inputs(True)]
    arrays = [mxnet.nd.array(array) for array in _inputs(True)]
    expected = torch_run(one, lambda: _outputs(one(*tensors)), [])
    outputs, gradients = mxnet_run(two, lambda: _outputs(two(*arrays)), [])  # a shared table under each of its names
    assert_same(expected, (outputs, {name: gradients[name] for name in expected[1]}))


@pytest.mark.parametrize("changes", [{}, ONE_TABLE], ids=["three tables", "one table"])
def test_saved_by_one_loads_in_the_other(changes: dict[str, Any], tmp_path: Path) -> None:
    one, two = _pair(**changes)
    one.save_pretrained(tmp_path / "torch")
    two.save_pretrained(tmp_path / "mxnet")
    arrays = [mxnet.nd.array(array) for array in _inputs(True)]
    loaded = seq2seq.Seq2Seq.from_pretrained(tmp_path / "torch")(*arrays).logits.asnumpy()
    assert np.abs(loaded - two(*arrays).logits.asnumpy()).max() < 1e-6
    two.save_pretrained(tmp_path / "half", half=True)
    size, half = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("mxnet", "half"))
    assert half < size
    assert (
        np.abs(
            torch_seq2seq.Seq2Seq.from_pretrained(tmp_path / "half").readout.weight.detach().numpy()
            - one.readout.weight.detach().numpy()
        ).max()
        < 1e-3
    )
    back = torch_seq2seq.Seq2Seq.from_pretrained(tmp_path / "mxnet")
    found = back(*(torch.from_numpy(array) for array in _inputs(True))).logits.detach().numpy()
    assert np.abs(found - loaded).max() < 1e-5
