"""Removal of heads and neurons: equal to gates of zero, smaller, saved and loaded, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from d2lbert import UserError
from d2lbert.config import DistilBertConfig
from d2lbert.config.adapters import AdapterConfig
from d2lbert.config.training import Training
from d2lbert.torch.adapters import add_adapters, merge_adapters
from d2lbert.torch.compression import gated, most_important, prune_encoder
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.relatives import DistilBertModel, PrunedBertModel
from d2lbert.torch.training.finetuning import fine_tune

HEADS = [[0, 2, 3], [1], [2, 3]]
NEURONS = [list(range(7)), [0, 19, 4], list(range(1, 20))]


def as_gates(kept: list[list[int]], count: int) -> list[torch.Tensor]:
    """One for what stays, zero for what goes."""
    return [torch.tensor([float(part in own) for part in range(count)]) for own in kept]


def masked_logits(model: BertForSequenceClassification, logits, packed: bool) -> torch.Tensor:
    """What the whole model computes while its parts are multiplied by zero."""
    blocks = model.bert.encoder.layers()
    heads = gated([block.attention.output for block in blocks], as_gates(HEADS, 4))
    neurons = gated([block.feed_forward.project for block in blocks], as_gates(NEURONS, 20))
    with heads, neurons:
        return logits(model, packed)


@pytest.mark.parametrize("packed", [False, True])
def test_removal_equals_gates_of_zero(model: BertForSequenceClassification, logits, packed: bool) -> None:
    before, masked = logits(model, packed), masked_logits(model, logits, packed)
    whole, model.bert = model.bert, prune_encoder(model.bert, HEADS, NEURONS)
    torch.testing.assert_close(logits(model, packed), masked, atol=1e-5, rtol=0)
    assert (before - masked).abs().max() > 0.1
    model.bert = whole
    assert torch.equal(logits(model, packed), before)  # the given encoder is as it was


def test_all_outputs_of_the_encoder_are_there(model: BertForSequenceClassification) -> None:
    pruned = prune_encoder(model.bert, HEADS, NEURONS)
    ids = torch.tensor([[2, 5, 6, 3]])
    out = pruned(ids, output_hidden_states=True, output_attentions=True)
    assert out.sequence.shape == (1, 4, 12)
    assert [weights.shape for weights in out.attentions] == [(1, 3, 4, 4), (1, 1, 4, 4), (1, 2, 4, 4)]


def test_packed_equals_padded(model: BertForSequenceClassification, logits) -> None:
    model.bert = prune_encoder(model.bert, HEADS, NEURONS)
    torch.testing.assert_close(logits(model, packed=True), logits(model), atol=1e-5, rtol=0)


def test_parameters_by_formula(model: BertForSequenceClassification) -> None:
    """A head of three takes 4 x 12 x 3 weights and 3 x 3 biases with it, a neuron 2 x 12 weights and a bias."""
    pruned = prune_encoder(model.bert, HEADS, NEURONS)
    heads = 12 - sum(len(own) for own in HEADS)
    neurons = 60 - sum(len(own) for own in NEURONS)
    gone = heads * (4 * 12 * 3 + 9) + neurons * (2 * 12 + 1)
    assert count_parameters(model.bert) - count_parameters(pruned) == gone
    assert pruned.config.heads_per_layer == (3, 1, 2)
    assert pruned.config.neurons_per_layer == (7, 3, 19)


def test_nothing_removed_is_the_same_model(model: BertForSequenceClassification, logits) -> None:
    before = logits(model)
    model.bert = prune_encoder(model.bert)
    torch.testing.assert_close(logits(model), before, atol=1e-6, rtol=0)


def test_the_precision_stays(model: BertForSequenceClassification) -> None:
    whole = model.bert.double()
    pruned = prune_encoder(whole, HEADS).state_dict()
    name = "encoder.blocks.1.attention.query.weight"
    assert torch.equal(pruned[name], whole.state_dict()[name][3:6])  # float64, the second head of three rows


def test_order_and_repetition_of_pruning(model: BertForSequenceClassification, logits) -> None:
    """Heads first and neurons later, from indices in any order, gives the same as both at once."""
    twice = prune_encoder(prune_encoder(model.bert, [own[::-1] for own in HEADS]), neurons=NEURONS)
    once = prune_encoder(model.bert, HEADS, NEURONS)
    assert twice.config == once.config
    for name, value in once.state_dict().items():
        assert torch.equal(twice.state_dict()[name], value)
    again = prune_encoder(once, [[1, 2], [0], [1]])
    assert again.config.heads_per_layer == (2, 1, 1)
    wanted = prune_encoder(model.bert, [[2, 3], [1], [3]], NEURONS)
    assert all(torch.equal(again.state_dict()[name], value) for name, value in wanted.state_dict().items())


def test_a_folder_comes_back(model: BertForSequenceClassification, logits, tmp_path: Path) -> None:
    model.bert = prune_encoder(model.bert, HEADS, NEURONS)
    model.save_pretrained(tmp_path / "pruned")
    loaded = BertForSequenceClassification.from_pretrained(tmp_path / "pruned")
    assert type(loaded.bert) is PrunedBertModel
    assert loaded.config == model.config
    assert torch.equal(logits(loaded), logits(model))
    encoder = PrunedBertModel.from_pretrained(tmp_path / "pruned")
    ids = torch.tensor([[2, 5, 6, 3]])
    assert torch.equal(encoder(ids).pooled, loaded.bert(ids).pooled)
    content = json.loads((tmp_path / "pruned" / "config.json").read_text())
    assert content["model_type"] == "pruned_bert"
    assert content["architectures"] == ["PrunedBertForSequenceClassification"]
    assert content["heads_per_layer"] == [3, 1, 2]


def test_a_file_of_other_sizes_is_refused(model: BertForSequenceClassification, tmp_path: Path) -> None:
    model.bert = prune_encoder(model.bert, HEADS)
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "heads_per_layer": [3, 2, 2]}))
    with pytest.raises(UserError, match=r"layer\.1\.attention\.self\.query\.weight has shape \(3, 12\) but"):
        BertForSequenceClassification.from_pretrained(tmp_path)


def test_a_pruned_model_learns(model, task, tokenizer, examples) -> None:
    model.bert = prune_encoder(model.bert, HEADS, NEURONS)
    settings = Training(epochs=30, batch_size=4, learning_rate=1e-2)
    history = fine_tune(model, task, tokenizer, examples, examples, settings, "cpu", progress=False)
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]


def test_the_most_important_over_all_layers() -> None:
    importance = [torch.tensor([0.5, 0.9, 0.1]), torch.tensor([0.01, 0.02, 0.03]), torch.tensor([0.6, 0.6, 0.8])]
    assert most_important(importance, 3) == [[1], [2], [2]]
    assert most_important(importance, 5) == [[1], [2], [0, 1, 2]]
    assert most_important(importance, 6) == [[0, 1], [2], [0, 1, 2]]
    assert most_important(importance, 9) == [[0, 1, 2]] * 3


@pytest.mark.parametrize("keep", [2, 10])
def test_numbers_that_cannot_stay(keep: int) -> None:
    with pytest.raises(UserError, match=rf"^cannot keep {keep} of 9 parts in 3 layers: keep from 3 to 9$"):
        most_important([torch.ones(3)] * 3, keep)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([[0], [1]], r"^heads to keep are given for 2 layers of 3: give a list for each$"),
        ([[0], [], [1]], r"^heads to keep in layer 1 are \[\]: give one or more different numbers from 0 to 3$"),
        ([[0], [1], [4]], r"^heads to keep in layer 2 are \[4\]"),
        ([[0], [1, 1], [2]], r"^heads to keep in layer 1 are \[1, 1\]"),
        ([[-1], [1], [2]], r"^heads to keep in layer 0 are \[-1\]"),
    ],
)
def test_heads_that_do_not_fit(model: BertForSequenceClassification, heads: list[list[int]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        prune_encoder(model.bert, heads)


def test_other_encoders_and_adapters_are_refused(model: BertForSequenceClassification) -> None:
    sizes = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 20, "num_hidden_layers": 2}
    with pytest.raises(UserError, match=r"^a DistilBertModel cannot be pruned: its layers are not those of a BERT"):
        prune_encoder(DistilBertModel(DistilBertConfig(vocab_size=20, **sizes)))
    add_adapters(model, AdapterConfig(rank=2))
    with pytest.raises(UserError, match=r"^the encoder has more than a BERT's own weights: merge its adapters first$"):
        prune_encoder(model.bert, HEADS)
    merge_adapters(model)
    assert prune_encoder(model.bert, HEADS).config.heads_per_layer == (3, 1, 2)
