"""Word embeddings as two factors: the nearest product, a model with it, saved and loaded, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from d2lbert import UserError
from d2lbert.config import DistilBertConfig
from d2lbert.config.adapters import AdapterConfig
from d2lbert.torch.adapters import add_adapters
from d2lbert.torch.compression import best_factors, factorise_embeddings, prune_encoder
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.relatives import DistilBertModel, PrunedBertModel

V, D, R = 15, 12, 5  # of the fixture's model, and a rank


def test_the_error_is_what_is_left_out() -> None:
    matrix = torch.randn(9, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.linalg.svdvals(matrix)
    for rank in range(1, 7):
        narrow, wide = best_factors(matrix, rank)
        assert (narrow.shape, wide.shape) == ((9, rank), (rank, 6))
        left_out = values[rank:].square().sum()
        torch.testing.assert_close((matrix - narrow @ wide).square().sum(), left_out, atol=1e-12, rtol=1e-9)


def test_no_other_product_is_nearer() -> None:
    generator = torch.Generator().manual_seed(1)
    matrix = torch.randn(9, 6, generator=generator)
    narrow, wide = best_factors(matrix, 2)
    best = (matrix - narrow @ wide).square().sum()
    for _ in range(200):
        moved = narrow + 0.1 * torch.randn(9, 2, generator=generator)
        assert (matrix - moved @ torch.linalg.lstsq(moved, matrix).solution).square().sum() >= best - 1e-4


def test_a_row_that_counts_often_comes_out_nearer() -> None:
    generator = torch.Generator().manual_seed(2)
    matrix, counts = torch.randn(9, 6, generator=generator), torch.tensor([50.0, 1, 1, 7, 1, 1, 1, 1, 1])

    def errors(factors: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return (matrix - factors[0] @ factors[1]).square().sum(1)

    plain, weighted = errors(best_factors(matrix, 2)), errors(best_factors(matrix, 2, counts))
    assert weighted[0] < 0.2 * plain[0]
    assert (counts * weighted).sum() < (counts * plain).sum()
    assert plain.sum() < weighted.sum()
    repeated = matrix.repeat_interleave(counts.int(), dim=0)  # a row that stands there so often counts so often
    narrow, wide = best_factors(repeated, 2)
    torch.testing.assert_close((repeated - narrow @ wide).square().sum(), (counts * weighted).sum())


def test_counts_reach_the_embeddings(model: BertForSequenceClassification) -> None:
    counts = 1 + torch.arange(V)
    smaller = factorise_embeddings(model.bert, R, counts)
    narrow, wide = best_factors(model.bert.embeddings.word.weight.detach(), R, counts)
    torch.testing.assert_close(smaller.embeddings.word(torch.arange(V)).detach(), narrow @ wide, atol=1e-5, rtol=0)


@pytest.mark.parametrize("counts", [torch.ones(8), torch.arange(9)])
def test_counts_that_do_not_fit(counts: torch.Tensor) -> None:
    with pytest.raises(UserError, match=r"^counts: give 9 numbers above 0, one for each row; add 1 to"):
        best_factors(torch.ones(9, 6), 2, counts)


@pytest.mark.parametrize("rank", [0, 7])
def test_a_rank_that_a_matrix_cannot_have(rank: int) -> None:
    with pytest.raises(UserError, match=rf"^rank {rank}: a matrix of 9 x 6 can have 1 to 6$"):
        best_factors(torch.ones(9, 6), rank)


@pytest.mark.parametrize("packed", [False, True])
def test_the_model_is_the_one_with_the_product(model: BertForSequenceClassification, logits, packed: bool) -> None:
    before = logits(model, packed)
    whole, model.bert = model.bert, factorise_embeddings(model.bert, R)
    found = logits(model, packed)
    narrow, wide = best_factors(whole.embeddings.word.weight.detach(), R)
    model.bert = whole
    assert torch.equal(logits(model, packed), before)  # the given encoder is as it was
    whole.embeddings.word.weight.data = narrow @ wide
    torch.testing.assert_close(found, logits(model, packed), atol=1e-5, rtol=0)
    assert (found - before).abs().max() > 0.1


def test_the_whole_rank_is_the_same_model(model: BertForSequenceClassification, logits) -> None:
    before = logits(model)
    model.bert = factorise_embeddings(model.bert, D)
    torch.testing.assert_close(logits(model), before, atol=1e-4, rtol=0)


def test_parameters_by_formula(model: BertForSequenceClassification) -> None:
    smaller = factorise_embeddings(model.bert, R)
    assert count_parameters(model.bert) - count_parameters(smaller) == V * D - (V * R + R * D)
    assert smaller.config.embedding_rank == R


def test_pruned_before_or_afterwards(model: BertForSequenceClassification) -> None:
    heads = [[0, 2], [1], [3]]
    first = factorise_embeddings(prune_encoder(model.bert, heads), R)
    second = prune_encoder(factorise_embeddings(model.bert, R), heads)
    assert first.config == second.config
    assert first.config.heads_per_layer == (2, 1, 1)
    for name, value in first.state_dict().items():
        torch.testing.assert_close(second.state_dict()[name], value)


def test_a_folder_comes_back(model: BertForSequenceClassification, logits, tmp_path: Path) -> None:
    model.bert = factorise_embeddings(model.bert, R)
    model.save_pretrained(tmp_path / "smaller")
    loaded = BertForSequenceClassification.from_pretrained(tmp_path / "smaller")
    assert type(loaded.bert) is PrunedBertModel
    assert loaded.config == model.config
    assert torch.equal(logits(loaded), logits(model))
    assert json.loads((tmp_path / "smaller" / "config.json").read_text())["embedding_rank"] == R


def test_a_file_of_another_rank_is_refused(model: BertForSequenceClassification, tmp_path: Path) -> None:
    model.bert = factorise_embeddings(model.bert, R)
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "embedding_rank": 4}))
    with pytest.raises(UserError, match=r"word_embeddings\.narrow\.weight has shape \(15, 5\) but"):
        BertForSequenceClassification.from_pretrained(tmp_path)


def test_precision_and_mode_stay(model: BertForSequenceClassification) -> None:
    smaller = factorise_embeddings(model.bert.double().train(), R)
    assert smaller.embeddings.word.narrow.weight.dtype == torch.float64
    assert smaller.training


def test_encoders_that_cannot_be_factorised(model: BertForSequenceClassification) -> None:
    sizes = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 20, "vocab_size": 9}
    with pytest.raises(UserError, match=r"^a DistilBertModel cannot be factorised"):
        factorise_embeddings(DistilBertModel(DistilBertConfig(num_hidden_layers=1, **sizes)), 3)
    with pytest.raises(UserError, match=r"^the word embeddings have 5 columns already: give the whole model$"):
        factorise_embeddings(factorise_embeddings(model.bert, R), 3)
    with pytest.raises(UserError, match=r"^rank 13: a matrix of 15 x 12 can have 1 to 12$"):
        factorise_embeddings(model.bert, 13)
    add_adapters(model, AdapterConfig(rank=2))
    with pytest.raises(UserError, match=r"^the encoder has more than a BERT's own weights: merge its adapters first$"):
        factorise_embeddings(model.bert, R)
