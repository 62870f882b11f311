"""The Transformer of the MXNet edition equals that of the PyTorch edition: outputs, every gradient, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformer_sizes import transformer_config

from d2lbert import UserError
from d2lbert.config import TransformerConfig
from d2lbert.torch import transformer as torch_transformer

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from edition_support import assert_same, mxnet_run, same_random_parameters, torch_run

from d2lbert.mxnet import transformer

B, M, L = 4, 9, 7
TABLES = {"source_vocab_size": 43, "target_vocab_size": 37, "share_embeddings": False, "tie_word_embeddings": False}


def _config(**changes: Any) -> TransformerConfig:
    return transformer_config((37, 37, 12, 2, 3, 4, 20, 15), **changes)


def _pair(hybridize: bool = False, **changes: Any) -> tuple[torch_transformer.Transformer, Any]:
    one, two = torch_transformer.Transformer(_config(**changes)).eval(), transformer.Transformer(_config(**changes))
    same_random_parameters(one, two)
    if hybridize:
        two.hybridize()
    return one, two


def _inputs(masks: bool) -> list[np.ndarray | None]:
    generator, rows = np.random.default_rng(0), np.arange(B)[:, None]
    ids = [generator.integers(0, 37, (B, M)), generator.integers(0, 37, (B, L))]
    return [*ids, *([np.arange(M) < M - 2 * rows, np.arange(L) < L - rows] if masks else [None, None])]


def _torch(arrays: list[np.ndarray | None]) -> list[Any]:
    return [None if array is None else torch.from_numpy(array) for array in arrays]


def _mxnet(arrays: list[np.ndarray | None]) -> list[Any]:
    return [None if array is None else mxnet.nd.array(array) for array in arrays]


def _outputs(output: Any) -> list[Any]:
    encoder, decoder = output.encoder, output.decoder
    weights = [*encoder.attentions, *decoder.attentions, *decoder.cross_attentions]
    return [output.logits, decoder.sequence, *encoder.hidden_states, *weights]


@pytest.mark.parametrize("changes", [{}, {"norm_first": True}, TABLES, {"tie_word_embeddings": False}])
@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("hybridize", [False, True])
def test_outputs_and_gradients(changes: dict[str, Any], masks: bool, hybridize: bool) -> None:
    one, two = _pair(hybridize, **changes)
    flags = {"output_hidden_states": True, "output_attentions": True}
    expected = torch_run(one, lambda: _outputs(one(*_torch(_inputs(masks)), **flags)), [])
    got = mxnet_run(two, lambda: _outputs(two(*_mxnet(_inputs(masks)), **flags)), [])
    # MXNet lists a shared table under each of its names; in torch it has one.
    assert_same(expected, (got[0], {name: got[1][name] for name in expected[1]}))
    assert len(expected[0]) == 2 + 3 + 2 + 3 + 3
    plain = two(*_mxnet(_inputs(masks)))
    assert plain.decoder.attentions is None
    assert np.abs(plain.logits.asnumpy() - expected[0][0]).max() < 1e-5


@pytest.mark.parametrize("changes", [{}, TABLES])
def test_saved_by_one_loads_in_the_other(tmp_path: Path, changes: dict[str, Any]) -> None:
    one, two = _pair(**changes)
    one.save_pretrained(tmp_path / "torch")
    two.save_pretrained(tmp_path / "mxnet")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "torch" / name).read_bytes() == (tmp_path / "mxnet" / name).read_bytes()
    loaded = transformer.Transformer.from_pretrained(tmp_path / "torch")
    expected = two(*_mxnet(_inputs(True))).logits.asnumpy()
    assert np.abs(loaded(*_mxnet(_inputs(True))).logits.asnumpy() - expected).max() < 1e-6


def test_errors_are_the_same(tmp_path: Path) -> None:
    one, two = _pair()
    with pytest.raises(UserError) as theirs:
        one(torch.zeros(1, 16, dtype=torch.long), torch.zeros(1, 2, dtype=torch.long))
    with pytest.raises(UserError) as ours:
        two(mxnet.nd.zeros((1, 16)), mxnet.nd.zeros((1, 2)))
    assert str(theirs.value) == str(ours.value)
    one.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"num_decoder_layers": 3', '"num_decoder_layers": 2'))
    with pytest.raises(UserError, match="configuration and weights are not of one model"):
        transformer.Transformer.from_pretrained(tmp_path)


def test_first_weights_have_the_same_spread() -> None:
    config = TransformerConfig(200, 200, 64, num_attention_heads=4, intermediate_size=128)
    one, two = torch_transformer.Transformer(config), transformer.Transformer(config)
    for name in ("target_embedding", "encoder.blocks.0.feed_forward.expand", "decoder.blocks.1.cross_attention.key"):
        theirs = one.get_parameter(f"{name}.weight").std().item()
        ours = two._collect_params_with_prefix()[f"{name}.weight"].data().asnumpy().std()
        assert ours == pytest.approx(theirs, rel=0.05)
