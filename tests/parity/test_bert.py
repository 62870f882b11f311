"""BertModel equals transformers.BertModel: every hidden state, attention, the pooled vector and gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from parity_support import BatchOfIds, compare_bert, random_batch, reference_and_ours, small_config

from d2lbert.config import BertConfig, preset
from d2lbert.data.batching import Batch, pack, pad
from d2lbert.torch.bert import BertModel
from d2lbert.torch.encoder import PreNormEncoderBlock
from d2lbert.torch.runtime import to_tensors
from d2lbert.weights.folder import write_folder
from d2lbert.zoo import locate

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_all_outputs_and_gradients_are_equal(activation: str, implementation: str) -> None:
    reference, ours = reference_and_ours(small_config(hidden_act=activation), implementation)
    differences = compare_bert(reference, ours, random_batch())
    assert set(differences) >= {"hidden_states", "pooled", "word gradient", "query gradient"}
    assert max(differences.values()) < 1e-5, differences


def test_fused_and_explicit_attention_are_equal() -> None:
    _, ours = reference_and_ours(small_config())
    batch = random_batch()
    with torch.no_grad():
        fused = ours(batch.token_ids, batch.segment_ids, batch.mask)
        explicit = ours(batch.token_ids, batch.segment_ids, batch.mask, output_attentions=True)
    kept = batch.mask.bool()
    assert (fused.sequence - explicit.sequence)[kept].abs().max() < 1e-5


def test_without_segments_and_mask_everything_is_kept() -> None:
    reference, ours = reference_and_ours(small_config())
    ids = random_batch().token_ids
    with torch.no_grad():
        assert (reference(ids).last_hidden_state - ours(ids).sequence).abs().max() < 1e-5


def test_pretrained_minilm_is_equal() -> None:
    folder = locate("minilm")
    reference = transformers.BertModel.from_pretrained(folder).eval()
    ours = BertModel.from_pretrained("minilm")
    differences = compare_bert(reference, ours, random_batch(vocab_size=30522, length=64))
    assert max(differences.values()) < 2e-5, differences


def test_saved_folder_loads_in_transformers_and_back(tmp_path: Path) -> None:
    reference, ours = reference_and_ours(small_config())
    ours.save_pretrained(tmp_path / "ours")
    loaded = transformers.BertModel.from_pretrained(tmp_path / "ours").eval()
    assert max(compare_bert(loaded, ours, random_batch()).values()) < 1e-5
    reference.save_pretrained(tmp_path / "theirs")
    back = BertModel.from_pretrained(tmp_path / "theirs")
    for name, value in ours.state_dict().items():
        assert torch.equal(value, back.state_dict()[name]), name


def test_old_names_load(tmp_path: Path) -> None:
    """Google's checkpoints, converted: a bert. prefix, gamma and beta, and a head that we leave aside."""
    _, ours = reference_and_ours(small_config())
    tensors = {}
    for name, array in ours.tensors().items():
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[f"bert.{old}"] = array
    tensors["cls.predictions.bias"] = np.zeros(ours.config.vocab_size, dtype=np.float32)
    write_folder(tmp_path, ours.config, tensors)
    loaded = BertModel.from_pretrained(tmp_path)
    for name, value in ours.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[name]), name


def test_packed_rows_equal_padded_rows() -> None:
    _, ours = reference_and_ours(small_config())
    generator = np.random.default_rng(3)
    encodings = [BatchOfIds.encoding(generator, length) for length in (5, 17, 3, 30, 11, 2, 24, 8)]
    padded, packed = pad(encodings), pack(encodings, width=32)
    assert packed.token_ids.shape[0] < padded.token_ids.shape[0]
    with torch.no_grad():
        expected, output = ours(to_tensors(padded)), ours(to_tensors(packed))
    assert (expected.pooled - output.pooled).abs().max() < 1e-5
    for index, encoding in enumerate(encodings):
        row, column = packed.starts[index]
        text = output.sequence[row, column : column + len(encoding.ids)]
        assert (expected.sequence[index, : len(encoding.ids)] - text).abs().max() < 1e-5


@pytest.mark.parametrize("collate", [pad, pack])
@pytest.mark.parametrize("norm_first", [False, True])
def test_pooled_alone_equals_pooled_of_the_full_run(collate: Callable[..., Batch], norm_first: bool) -> None:
    _, ours = reference_and_ours(small_config())
    for block in ours.encoder.blocks:
        if norm_first:
            block.__class__ = PreNormEncoderBlock
    generator = np.random.default_rng(5)
    batch = to_tensors(collate([BatchOfIds.encoding(generator, length) for length in (5, 17, 3, 30, 11, 2)]))
    full, alone = ours(batch).pooled, ours.forward_pooled(batch)
    assert (full - alone).abs().max() < 1e-5
    weight = torch.randn_like(full)
    query = ours.encoder.blocks[0].attention.query.weight
    expected, gradient = (torch.autograd.grad((pooled * weight).sum(), query)[0] for pooled in (full, alone))
    assert (expected - gradient).abs().max() < 1e-4 * max(1.0, float(expected.abs().max()))


def test_packed_gradients_equal_padded_gradients() -> None:
    _, ours = reference_and_ours(small_config())
    twin = copy.deepcopy(ours)
    generator = np.random.default_rng(4)
    encodings = [BatchOfIds.encoding(generator, length) for length in (9, 14, 4, 21)]
    weight = torch.randn(4, ours.config.hidden_size)
    for model, batch in ((ours, pad(encodings)), (twin, pack(encodings, width=32))):
        (model(to_tensors(batch)).pooled * weight).sum().backward()
    for (name, expected), (_, packed) in zip(ours.named_parameters(), twin.named_parameters(), strict=True):
        difference = (expected.grad - packed.grad).abs().max()
        assert difference < 1e-4 * max(1.0, float(expected.grad.abs().max())), name


@pytest.mark.parametrize("name", ["tiny", "mini", "small", "base"])
def test_parameter_counts_equal_the_reference(name: str) -> None:
    config = preset(name)
    with torch.device("meta"):
        ours = sum(parameter.numel() for parameter in BertModel(config).parameters())
        theirs = transformers.BertModel(transformers.BertConfig(**_sizes(config))).num_parameters()
    assert ours == theirs


def test_base_and_large_have_the_known_exact_counts() -> None:
    with torch.device("meta"):
        counts = {
            name: sum(parameter.numel() for parameter in BertModel(preset(name)).parameters())
            for name in ("base", "large")
        }
    # The paper rounds these up to 110 M and 340 M: embeddings, blocks and pooler, without the pretraining heads.
    assert counts == {"base": 109_482_240, "large": 335_141_888}


def _sizes(config: BertConfig) -> dict[str, int]:
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    return {name: getattr(config, name) for name in names}
