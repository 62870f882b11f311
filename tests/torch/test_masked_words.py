"""Filled gaps and likelihoods from a model for masked words, against one text at a time without batches."""

from __future__ import annotations

import math

import pytest
import torch
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.text import WordPiece
from d2lbert.torch.masked_words import fill_masks, pseudo_log_likelihoods, pseudo_perplexity
from d2lbert.torch.pretraining import BertForPretraining

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "on", "a", "mat", "."]
TEXTS = ["The cat sat on a mat.", "Cats", "a mat on the mats."]


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece(VOCABULARY)


@pytest.fixture(scope="module")
def model() -> BertForPretraining:
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=16,
    )
    model = BertForPretraining(config).eval()
    randomize(model)
    return model


@torch.inference_mode()
def log_probabilities_of(model: BertForPretraining, ids: list[int]) -> torch.Tensor:
    """Log-probabilities (T, V) of one text alone, at every position."""
    return model(torch.tensor([ids])).token_logits[0].log_softmax(-1)


def test_gaps_are_filled_with_the_likeliest_pieces(model: BertForPretraining, tokenizer: WordPiece) -> None:
    predictions = fill_masks(model, tokenizer, "The [MASK] sat on a [MASK].", k=3)
    expected = log_probabilities_of(model, tokenizer.encode("The [MASK] sat on a [MASK].").ids)
    for gap, position in zip(predictions, (2, 6), strict=True):
        order = expected[position].argsort(descending=True)[:3].tolist()
        assert [piece for piece, _ in gap] == [VOCABULARY[token] for token in order]
        assert [p for _, p in gap] == pytest.approx(expected[position][order].exp().tolist(), abs=1e-6)
    assert len(fill_masks(model, tokenizer, "[MASK]", k=100)[0]) == len(VOCABULARY)


def test_likelihoods_are_those_of_one_mask_at_a_time(model: BertForPretraining, tokenizer: WordPiece) -> None:
    texts = TEXTS * 15  # more copies than a batch holds
    likelihoods = pseudo_log_likelihoods(model, tokenizer, texts)
    assert [likelihood.tokens for likelihood in likelihoods[:3]] == [7, 2, 7]
    for text, likelihood in zip(TEXTS, likelihoods, strict=False):
        ids, total = tokenizer.encode(text).ids, 0.0
        for position in range(1, len(ids) - 1):
            masked = [*ids[:position], 4, *ids[position + 1 :]]
            total += float(log_probabilities_of(model, masked)[position, ids[position]])
        assert likelihood.log_probability == pytest.approx(total, abs=1e-4)
    scores = [likelihood.log_probability for likelihood in likelihoods]
    assert scores[:3] == pytest.approx(scores[-3:], abs=1e-4)  # of another batch


def test_pseudo_perplexity_weighs_tokens_not_texts(model: BertForPretraining, tokenizer: WordPiece) -> None:
    long, short = pseudo_log_likelihoods(model, tokenizer, TEXTS[:2])
    expected = math.exp(-(long.log_probability + short.log_probability) / 9)
    assert pseudo_perplexity([long, short]) == pytest.approx(expected)
    uniform = BertForPretraining(model.config).eval()
    torch.nn.init.zeros_(uniform.bert.embeddings.word.weight)  # the decoder's weights, too: all pieces alike
    assert pseudo_perplexity(pseudo_log_likelihoods(uniform, tokenizer, TEXTS)) == pytest.approx(len(VOCABULARY))


def test_texts_are_cut_where_they_are_too_long(model: BertForPretraining, tokenizer: WordPiece) -> None:
    assert pseudo_log_likelihoods(model, tokenizer, ["cat " * 30])[0].tokens == 14
    assert pseudo_log_likelihoods(model, tokenizer, ["cat " * 30], max_length=6)[0].tokens == 4


def test_mistakes(model: BertForPretraining, tokenizer: WordPiece) -> None:
    with pytest.raises(UserError, match=r"has no \[MASK\]"):
        fill_masks(model, tokenizer, "The cat.")
    with pytest.raises(UserError, match="has 32 tokens, but the model takes 16"):
        fill_masks(model, tokenizer, "[MASK] " * 30)
    with pytest.raises(UserError, match="holds nothing that the tokenizer keeps"):
        pseudo_log_likelihoods(model, tokenizer, ["cat", "​"])
