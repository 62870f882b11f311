"""The two heads of pretraining: asked at a few positions or at all, tied to the embeddings, a bias of two names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data.batching import pack
from d2lbert.outputs import Rows
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_tensors

V, D = 9, 12
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "plot"])
BIAS, OTHER_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"


@pytest.fixture
def model() -> BertForPretraining:
    """A small one with random parameters."""
    sizes = {"hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    model = BertForPretraining(BertConfig(vocab_size=V, **sizes))
    randomize(model, seed=1, standard_deviation=0.3)
    return model.eval()


@pytest.fixture
def rows() -> Rows[torch.Tensor]:
    """Three texts in two packed rows."""
    rows = to_tensors(pack(TOKENIZER.encode_batch(["good film", "bad", "plot bad film good"]), 8))
    assert rows.token_ids.shape == (2, 7)
    return rows


@torch.no_grad()
def test_a_few_positions_have_the_logits_that_they_have_among_all(
    model: BertForPretraining, rows: Rows[torch.Tensor]
) -> None:
    whole = model(rows)
    assert (whole.token_logits.shape, whole.next_logits.shape) == ((2, 7, V), (3, 2))
    for places in ([9], [3, 1, 12], []):
        positions = torch.tensor(places, dtype=torch.long)
        some = model(rows, masked_positions=positions)
        assert some.token_logits.shape == (len(places), V)
        assert torch.allclose(some.token_logits, whole.token_logits.flatten(0, 1)[positions], atol=1e-5)
        assert torch.allclose(some.next_logits, whole.next_logits, atol=1e-5)


@torch.no_grad()
def test_objectives_are_the_forward_by_name(model: BertForPretraining, rows: Rows[torch.Tensor]) -> None:
    positions = torch.tensor([2, 8])
    output = model(rows, masked_positions=positions)
    found = model.objectives(rows, positions)
    assert list(found) == ["masked", "next_sentence"]
    assert torch.equal(found["masked"], output.token_logits)
    assert torch.equal(found["next_sentence"], output.next_logits)


@torch.no_grad()
def test_tensors_one_by_one_or_rows(model: BertForPretraining) -> None:
    ids = torch.tensor([[2, 5, 7, 3], [2, 6, 3, 0]])
    segments, mask = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]), (ids > 0).long()
    one, other = model(ids, segments, mask), model(Rows(ids, segments, mask))
    assert torch.equal(one.token_logits, other.token_logits)
    assert torch.equal(one.next_logits, other.next_logits)


@torch.no_grad()
def test_the_score_of_a_piece_is_the_product_with_its_embedding(model: BertForPretraining) -> None:
    states = torch.randn(2, 3, D)
    before = model.token_logits(states)
    assert before.shape == (2, 3, V)
    model.decoder_bias[4] += 2.0
    model.bert.embeddings.word.weight[6] *= 0
    after = model.token_logits(states)
    assert torch.allclose(after[..., 4], before[..., 4] + 2, atol=1e-5)
    assert torch.equal(after[..., 6], model.decoder_bias[6].expand(2, 3))
    kept = [piece for piece in range(V) if piece not in (4, 6)]
    assert torch.equal(after[..., kept], before[..., kept])


def test_the_embeddings_are_no_second_parameter(model: BertForPretraining) -> None:
    shapes = [tuple(parameter.shape) for parameter in model.parameters()]
    assert shapes.count((V, D)) == 1
    assert not [name for name in model.tensors() if name.endswith("decoder.weight")]


def test_it_starts_with_biases_of_zero() -> None:
    model = BertForPretraining(BertConfig(vocab_size=V, hidden_size=D, num_attention_heads=3, intermediate_size=20))
    for bias in (model.decoder_bias, model.dense.bias, model.next_sentence.bias, model.norm.bias):
        assert not bias.any()
    assert torch.equal(model.norm.weight, torch.ones(D))


def test_the_bias_may_have_either_name_in_a_file(model: BertForPretraining) -> None:
    tensors = {name.removeprefix("bert."): array for name, array in model.tensors().items()}
    bias = tensors.pop(BIAS).copy()  # the arrays are views of the parameters
    other = np.arange(V, dtype=np.float32)
    for given, expected in (
        ({BIAS: bias}, bias),
        ({OTHER_BIAS: other}, other),
        ({BIAS: bias, OTHER_BIAS: other}, bias),
    ):
        model.load_tensors({**tensors, **given}, "here")
        assert np.array_equal(model.decoder_bias.detach().numpy(), expected)
    with pytest.raises(UserError, match=rf"^here lacks 1 of 7 tensors, first '{BIAS}'"):
        model.load_tensors(tensors, "here")


def test_a_folder_says_that_the_decoder_is_tied(model: BertForPretraining, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["BertForPreTraining"]
    assert config["tie_word_embeddings"] is True
    back = BertForPretraining.from_pretrained(tmp_path)
    assert not back.training
    assert all(torch.equal(value, back.state_dict()[name]) for name, value in model.state_dict().items())


def test_an_output_layer_of_its_own_is_refused_where_it_is_used(model: BertForPretraining, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    fields = {**json.loads(path.read_text()), "tie_word_embeddings": False}
    path.write_text(json.dumps(fields))
    with pytest.raises(
        UserError, match=r"config\.json: tie_word_embeddings is False, .*; use a checkpoint where it is"
    ):
        BertForPretraining.from_pretrained(tmp_path)
    encoder = BertModel.from_pretrained(tmp_path)  # it has no output layer
    assert torch.equal(encoder.embeddings.word.weight, model.bert.embeddings.word.weight)
    BertForSequenceClassification(encoder, ["bad", "good"]).save_pretrained(tmp_path / "head")
    path = tmp_path / "head" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tie_word_embeddings": False}))
    assert BertForSequenceClassification.from_pretrained(tmp_path / "head").labels == ("bad", "good")
