"""AlbertModel and DistilBertModel equal those of transformers: hidden states, pooled vectors, gradients, folders."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from parity_support import ALBERT, DISTILBERT, BatchOfIds, random_batch
from random_parameters import randomize
from torch import nn

from d2lbert import UserError
from d2lbert.config import AlbertConfig, BertConfig, DistilBertConfig, preset
from d2lbert.data.batching import pack, pad
from d2lbert.torch.bert import BertModel
from d2lbert.torch.relatives import AlbertModel, DistilBertModel
from d2lbert.torch.runtime import to_tensors
from d2lbert.weights.folder import canonical_name

transformers = pytest.importorskip("transformers")

GROUPED = ALBERT.replace(num_hidden_layers=6, num_hidden_groups=2)
CONFIGS = [ALBERT, GROUPED, DISTILBERT, DISTILBERT.replace(hidden_act="relu")]


def reference_and_ours(config: BertConfig) -> tuple[Any, Any]:
    """Return a model of transformers with random parameters, and ours with the same."""
    names = ("model_type", "architectures")
    values = {name: value for name, value in config.to_dict().items() if name not in names}
    kind = config.architecture.removesuffix("Model")
    theirs = getattr(transformers, f"{kind}Config")(**values, attn_implementation="eager")
    reference = getattr(transformers, config.architecture)(theirs)
    randomize(reference, seed=11)
    ours = (AlbertModel if isinstance(config, AlbertConfig) else DistilBertModel)(config)
    state = {canonical_name(name): value.numpy() for name, value in reference.state_dict().items()}
    ours.load_tensors(state, "the reference")
    return reference.eval(), ours.eval()


def run_both(reference: Any, ours: Any, batch: BatchOfIds) -> tuple[Any, Any]:
    """Return both outputs, with hidden states and attention weights."""
    wanted = {"output_hidden_states": True, "output_attentions": True}
    if isinstance(ours, DistilBertModel):
        theirs = reference(input_ids=batch.token_ids, attention_mask=batch.mask, **wanted)
        return theirs, ours(batch.token_ids, mask=batch.mask, **wanted)
    theirs = reference(input_ids=batch.token_ids, token_type_ids=batch.segment_ids, attention_mask=batch.mask, **wanted)
    return theirs, ours(batch.token_ids, batch.segment_ids, batch.mask, **wanted)


@pytest.mark.parametrize("config", CONFIGS, ids=["albert", "two groups", "distilbert", "relu"])
def test_all_outputs_and_gradients_are_equal(config: BertConfig) -> None:
    reference, ours = reference_and_ours(config)
    batch = random_batch()
    theirs, got = run_both(reference, ours, batch)
    kept = batch.mask.bool()
    assert len(got.hidden_states) == config.num_hidden_layers + 1
    for one, two in zip(theirs.hidden_states, got.hidden_states, strict=True):
        assert (one - two)[kept].abs().max() < 1e-5
    for one, two in zip(theirs.attentions, got.attentions, strict=True):
        assert (one - two).transpose(1, 2)[kept].abs().max() < 1e-5
    if "pooler.weight" in ours.names():
        assert (theirs.pooler_output - got.pooled).abs().max() < 1e-5
    direction = torch.randn(got.sequence[kept].shape, generator=torch.Generator().manual_seed(5))
    direction /= direction.numel() ** 0.5
    for sequence in (theirs.last_hidden_state, got.sequence):
        (sequence[kept] * direction).sum().backward()
    gradients = {canonical_name(name): parameter.grad for name, parameter in reference.named_parameters()}
    compared = 0
    for name, parameter in ours.named_parameters():
        if parameter.grad is not None:
            assert (gradients[ours.names()[name]] - parameter.grad).abs().max() < 1e-5, name
            compared += 1
    assert compared >= len(list(ours.parameters())) - 2  # all but the pooler's, which nothing asked for


@pytest.mark.parametrize("config", [ALBERT, GROUPED, DISTILBERT], ids=["albert", "two groups", "distilbert"])
def test_folders_go_both_ways(config: BertConfig, tmp_path: Path) -> None:
    reference, ours = reference_and_ours(config)
    ours.save_pretrained(tmp_path / "ours")
    loaded = getattr(transformers, config.architecture).from_pretrained(tmp_path / "ours").eval()
    assert loaded.config.model_type == config.model_type
    theirs, got = run_both(loaded, ours, random_batch())
    assert (theirs.last_hidden_state - got.sequence)[random_batch().mask.bool()].abs().max() < 1e-5
    reference.save_pretrained(tmp_path / "theirs")
    back = type(ours).from_pretrained(tmp_path / "theirs")
    assert back.config == config
    for name, value in ours.state_dict().items():
        assert torch.equal(value, back.state_dict()[name]), name
        assert torch.equal(value, type(ours).from_pretrained(tmp_path / "ours").state_dict()[name]), name
    with pytest.raises(UserError, match=f"model_type is '{config.model_type}', which"):
        BertModel.from_pretrained(tmp_path / "ours")


@pytest.mark.parametrize(
    ("architecture", "config"), [("AlbertForMaskedLM", ALBERT), ("DistilBertForMaskedLM", DISTILBERT)]
)
def test_heads_in_a_file_are_left_aside(architecture: str, config: BertConfig, tmp_path: Path) -> None:
    """As the files of the hub are: a prefix before every name, and the head of masked words."""
    reference, ours = reference_and_ours(config)
    whole = getattr(transformers, architecture)(reference.config)
    whole.base_model.load_state_dict(reference.state_dict(), strict=False)
    whole.save_pretrained(tmp_path)
    if config.model_type == "albert":
        with pytest.warns(UserWarning, match="has no pooler"):
            loaded = AlbertModel.from_pretrained(tmp_path)
    else:
        loaded = DistilBertModel.from_pretrained(tmp_path)
    for name, value in ours.state_dict().items():
        assert "pooler" in name or torch.equal(value, loaded.state_dict()[name]), name


def test_a_file_with_more_blocks_is_refused(tmp_path: Path) -> None:
    for config in (GROUPED, DISTILBERT):
        _, ours = reference_and_ours(config)
        ours.save_pretrained(tmp_path / config.model_type)
        groups = {"num_hidden_groups": 1} if isinstance(config, AlbertConfig) else {}
        fewer = config.replace(num_hidden_layers=config.num_hidden_layers // 2, **groups)
        with pytest.raises(UserError, match="which the configuration has no place for"):
            type(ours)(fewer).load_tensors(ours.tensors(), tmp_path)


def test_packed_rows_equal_padded_rows() -> None:
    generator = np.random.default_rng(3)
    encodings = [BatchOfIds.encoding(generator, length) for length in (5, 17, 3, 30, 11, 2)]
    padded, packed = pad(encodings), pack(encodings, width=32)
    _, albert = reference_and_ours(ALBERT)
    one, two = albert(to_tensors(padded)), albert(to_tensors(packed))
    assert (one.pooled - two.pooled).abs().max() < 1e-5
    assert (one.pooled - albert.forward_pooled(to_tensors(packed))).abs().max() < 1e-5
    _, distilbert = reference_and_ours(DISTILBERT)
    one, two = (distilbert(to_tensors(batch)).sequence for batch in (padded, packed))
    assert (one[:, 0] - distilbert.forward_pooled(to_tensors(packed))).abs().max() < 1e-5
    for index, encoding in enumerate(encodings):
        row, column = packed.starts[index]
        length = len(encoding.ids)
        assert (one[index, :length] - two[row, column : column + length]).abs().max() < 1e-5


def test_albert_layers_are_one_block_and_its_gradient_is_the_sum_over_layers() -> None:
    _, ours = reference_and_ours(ALBERT)
    assert len(ours.encoder.blocks) == 1
    ids = random_batch().token_ids
    ours(ids).sequence.square().sum().backward()
    shared = ours.encoder.blocks[0].attention.query.weight.grad
    # The same network with a block for each layer, all of equal weights.
    state = {name: value for name, value in ours.state_dict().items() if "blocks" not in name}
    for layer in range(4):
        for name, value in ours.encoder.blocks[0].state_dict().items():
            state[f"encoder.blocks.{layer}.{name}"] = value
    unrolled = AlbertModel(ALBERT.replace(num_hidden_groups=4)).eval()
    unrolled.load_state_dict(state)
    unrolled(ids).sequence.square().sum().backward()
    total = sum(block.attention.query.weight.grad for block in unrolled.encoder.blocks)
    assert (shared - total).abs().max() < 1e-4 * shared.abs().max()


def test_known_exact_counts() -> None:
    large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    with torch.device("meta"):
        models: dict[str, nn.Module] = {
            "albert base": AlbertModel(AlbertConfig()),
            "albert large": AlbertModel(AlbertConfig(**large)),
            "distilbert": DistilBertModel(DistilBertConfig()),
            "bert base": BertModel(preset("base")),
        }
    counts = {name: sum(parameter.numel() for parameter in model.parameters()) for name, model in models.items()}
    # The papers round these: 12 M and 18 M (Lan et al. 2020, table 1), 66 M (Sanh et al. 2019, table 3).
    assert counts == {
        "albert base": 11_683_584,
        "albert large": 17_683_968,
        "distilbert": 66_362_880,
        "bert base": 109_482_240,
    }


def test_configurations_have_the_defaults_of_transformers() -> None:
    reference = transformers.DistilBertConfig().to_dict()
    for name, value in DistilBertConfig().to_dict().items():
        if name not in ("architectures", "layer_norm_eps", "type_vocab_size"):
            assert reference[name] == value, name
    known = set(transformers.AlbertConfig().to_dict())
    assert {field.name for field in dataclasses.fields(AlbertConfig)} <= known


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (
            ALBERT,
            {"num_hidden_groups": 3},
            "3 groups do not divide num_hidden_layers 4; choose num_hidden_groups so that they do",
        ),
        (ALBERT, {"embedding_size": 0}, "embedding_size is 0"),
        (DISTILBERT, {"type_vocab_size": 2}, "type_vocab_size is 2; it is 0 in every DistilBERT"),
        (DISTILBERT, {"layer_norm_eps": 1e-5}, "it is 1e-12 in every DistilBERT"),
    ],
)
def test_configurations_that_cannot_be(config: BertConfig, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        config.replace(**changes)


def test_foreign_configurations_that_are_not_computed(tmp_path: Path) -> None:
    for config, change in ((ALBERT, {"inner_group_num": 2}), (DISTILBERT, {"sinusoidal_pos_embds": True})):
        (tmp_path / "config.json").write_text(json.dumps({**config.to_dict(), **change}))
        with pytest.raises(UserError, match=f"{next(iter(change))} is"):
            type(config).from_json(tmp_path / "config.json")


def test_too_long_input() -> None:
    for config in (ALBERT, DISTILBERT):
        _, ours = reference_and_ours(config)
        with pytest.raises(UserError, match="input of 48 tokens, but the model has 47 positions"):
            ours(torch.ones(1, 48, dtype=torch.long))
