"""The whole Transformer: counts, shapes, folders, the loss, the schedule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformer_sizes import transformer_config

from d2lbert import UserError
from d2lbert.config import TransformerConfig, transformer_preset
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.transformer import Transformer
from d2lbert.torch.translation import label_smoothing_loss


def _config(**changes: Any) -> TransformerConfig:
    return transformer_config((41, 41, 16, 2, 1, 4, 24, 19), **changes)


def test_base_model_has_the_size_of_the_paper() -> None:
    """65 million parameters with 37,000 tokens (Vaswani et al. 2017, table 3); biases of attention are ours."""
    with torch.device("meta"):
        counted = count_parameters(Transformer(transformer_preset("base")))
    attention, feed_forward, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    blocks = 6 * (attention + feed_forward + 2 * norm) + 6 * (2 * attention + feed_forward + 3 * norm)
    assert counted == blocks + 37000 * 512
    assert round(counted / 1e6) in (63, 64, 65)


@pytest.mark.parametrize(
    ("share", "tie", "tables"), [(True, True, 1), (True, False, 2), (False, True, 2), (False, False, 3)]
)
def test_tables_are_shared_as_asked(share: bool, tie: bool, tables: int) -> None:
    model = Transformer(_config(share_embeddings=share, tie_word_embeddings=tie))
    assert len([value for value in model.parameters() if value.shape == (41, 16)]) == tables
    assert (model.source_embedding is model.target_embedding) == share
    assert (model.output.weight is model.target_embedding.weight) == tie


def test_embeddings_are_lifted_to_the_size_of_the_positions() -> None:
    model, ids = Transformer(_config()).eval(), torch.randint(0, 41, (2, 7))
    states = model.encode(ids, output_hidden_states=True).hidden_states
    assert states is not None
    expected = model.source_embedding(ids) * 4.0 + model.positions.table[:7]  # the root of 16
    assert torch.allclose(states[0], expected, atol=1e-6)


def test_a_later_token_changes_nothing_before_it() -> None:
    model = Transformer(_config()).eval()
    source, target = torch.randint(0, 41, (1, 6)), torch.randint(0, 41, (1, 8))
    changed = target.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 41
    before, after = model(source, target).logits, model(source, changed).logits
    assert torch.allclose(before[:, :5], after[:, :5], atol=1e-6)
    assert not torch.allclose(before[:, 5], after[:, 5], atol=1e-3)


def test_padding_changes_nothing() -> None:
    model = Transformer(_config()).eval()
    source, target = torch.randint(1, 41, (1, 6)), torch.randint(1, 41, (1, 5))
    pad_source, pad_target = (nn.functional.pad(ids, (0, 3)) for ids in (source, target))
    masks = [(torch.arange(len(ids[0])) < length).long()[None] for ids, length in ((pad_source, 6), (pad_target, 5))]
    padded = model(pad_source, pad_target, *masks).logits[:, :5]
    assert torch.allclose(model(source, target).logits, padded, atol=1e-5)


def test_outputs_on_request() -> None:
    output = Transformer(_config()).eval()(torch.ones(2, 6, dtype=torch.long), torch.ones(2, 5, dtype=torch.long))
    assert output.logits.shape == (2, 5, 41)
    assert output.decoder.cross_attentions is None
    ids = torch.ones(2, 6, dtype=torch.long), torch.ones(2, 5, dtype=torch.long)
    output = Transformer(_config()).eval()(*ids, output_hidden_states=True, output_attentions=True)
    assert [x.shape for x in output.encoder.attentions] == [(2, 4, 6, 6)] * 2
    assert [x.shape for x in output.decoder.attentions] == [(2, 4, 5, 5)]
    assert [x.shape for x in output.decoder.cross_attentions] == [(2, 4, 5, 6)]
    assert len(output.encoder.hidden_states) == 3


def test_too_long_a_sequence_is_one_line() -> None:
    model = Transformer(_config())
    fine, long = torch.ones(1, 19, dtype=torch.long), torch.ones(1, 20, dtype=torch.long)
    model(fine, fine)
    for arguments in ((long, fine), (fine, long)):
        with pytest.raises(UserError, match="20 tokens, but the model has 19 positions: shorten"):
            model(*arguments)


@pytest.mark.parametrize("changes", [{}, {"share_embeddings": False, "tie_word_embeddings": False, "norm_first": True}])
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    model = Transformer(_config(**changes)).eval()
    model.save_pretrained(tmp_path)
    loaded = Transformer.from_pretrained(tmp_path)
    assert loaded.config == model.config
    assert not loaded.training
    source, target = torch.randint(0, 41, (2, 6)), torch.randint(0, 41, (2, 5))
    assert torch.equal(model(source, target).logits, loaded(source, target).logits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"intermediate_size": 25}, r"expand.weight has shape \(24, 16\) but the configuration asks for \(25, 16\)"),
        ({"num_decoder_layers": 2}, r"lacks \d+ of \d+ tensors, first 'decoder.blocks.1.\S+'"),
        (
            {"num_encoder_layers": 1},
            r"the weights hold 'encoder.blocks.1.\S+', which the configuration has no",
        ),
        ({"tie_word_embeddings": False}, r"lacks 1 of \d+ tensors, first 'output.weight'"),
        ({"model_type": "bert"}, "model_type is 'bert', not 'transformer'; give a folder of such a model"),
        ({"num_attention_heads": 3}, "config.json: configuration: 3 heads do not divide hidden_size 16"),
        ({"depth": 3}, "config.json: unknown configuration field 'depth'"),
    ],
)
def test_another_configuration_is_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    Transformer(_config()).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(UserError, match=message) as caught:
        Transformer.from_pretrained(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_vocab_size": 40}, "share_embeddings wants one vocabulary, but the sizes are 40 and 41"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob is 1.0; it must be at least 0 and below 1"),
        ({"eos_token_id": 41}, "eos_token_id is 41, outside the vocabulary of 41"),
        ({"num_decoder_layers": 0}, "num_decoder_layers is 0; it must be at least 1"),
        ({"hidden_size": "16"}, "hidden_size is '16'; it must be of type int"),
        ({"norm_first": 1}, "norm_first is 1; it must be of type bool"),
        ({"hidden_act": "tanh"}, "configuration: unknown hidden_act 'tanh'"),
    ],
)
def test_wrong_sizes_are_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _config(**changes)


def test_presets() -> None:
    assert transformer_preset("tiny", 800).source_vocab_size == 800
    with pytest.raises(UserError, match="unknown preset 'bsae': did you mean base"):
        transformer_preset("bsae")


def test_loss_is_the_formula_of_the_paper_over_real_tokens() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(2, 3, 7), torch.randint(0, 7, (2, 3))
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    total, count = 0.0, 0
    for row, column in mask.nonzero().tolist():
        target = torch.full((7,), 0.1 / 7)
        target[targets[row, column]] += 0.9
        total -= float((target * logits[row, column].log_softmax(0)).sum())
        count += 1
    assert float(label_smoothing_loss(logits, targets, mask, 0.1)) == pytest.approx(total / count, abs=1e-6)
