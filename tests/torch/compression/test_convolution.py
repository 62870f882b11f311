"""The classifier of convolutions: each text by itself, run by run by hand."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.data.batching import pack, pad
from d2lbert.text import WordPiece
from d2lbert.torch.compression import CnnClassifier
from d2lbert.torch.runtime import to_tensors

TEXTS = ["a b c d e", "b", "c a f", "d d d d d d d", "e f", "g"]
WIDTHS = (1, 3, 5)


@pytest.fixture
def model(tokenizer: WordPiece) -> CnnClassifier:
    """Vectors of 6, four filters of each width; every number matters."""
    made = CnnClassifier(np.zeros((len(tokenizer.vocab), 6)), ("bad", "good", "so so"), WIDTHS, 4)
    randomize(made, standard_deviation=0.5)
    return made.eval()


def test_each_text_is_read_by_itself(model: CnnClassifier, tokenizer: WordPiece) -> None:
    """Padded, packed or alone: the logits of a text are the same."""
    encodings = tokenizer.encode_batch(TEXTS)
    alone = torch.cat([model(torch.tensor([encoding.ids])) for encoding in encodings])
    assert alone.shape == (6, 3)
    torch.testing.assert_close(model(to_tensors(pad(encodings))), alone, atol=1e-6, rtol=0)
    packed = pack(encodings, width=16)
    assert len(packed.token_ids) < len(TEXTS)
    torch.testing.assert_close(model(to_tensors(packed)), alone, atol=1e-6, rtol=0)
    assert alone.std(dim=0).min() > 1e-3


@pytest.mark.parametrize("ids", [[2], [2, 7, 5, 9]])
@torch.no_grad()
def test_the_same_by_hand(model: CnnClassifier, ids: list[int]) -> None:
    """Run after run, with zeros around the text."""
    largest = []
    for width, convolution in zip(WIDTHS, model.convolutions, strict=True):
        zeros = torch.zeros(width - 1, 6)
        words = torch.cat([zeros, model.embedding.weight[ids], zeros])
        runs = [words[begin : begin + width] for begin in range(len(ids) + width - 1)]
        for weight, bias in zip(convolution.weight, convolution.bias, strict=True):  # (E, w), a number
            largest.append(max(0.0, *(float((weight.T * run).sum() + bias) for run in runs)))
    expected = model.classifier(torch.tensor(largest))
    torch.testing.assert_close(model(torch.tensor([ids]))[0], expected, atol=1e-5, rtol=0)


def test_padding_has_no_gradient_and_the_given_vectors_stay() -> None:
    given = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    before = given.copy()
    made = CnnClassifier(given, ("no", "yes"), filters=9)
    made(torch.tensor([[1, 3, 0, 0]]), mask=torch.tensor([[1, 1, 0, 0]])).square().sum().backward()
    gradient = made.embedding.weight.grad
    assert not gradient[0].any()
    assert gradient[3].abs().sum() > 0
    with torch.no_grad():
        made.embedding.weight.add_(1)
    assert np.array_equal(given, before)


def test_dropout_only_in_training(model: CnnClassifier) -> None:
    ids = torch.tensor([[2, 7, 5, 9]])
    assert torch.equal(model(ids), model(ids))
    training = copy.deepcopy(model).train()
    assert not torch.equal(training(ids), training(ids))


def test_an_id_outside_is_named(model: CnnClassifier) -> None:
    with pytest.raises(UserError, match="token id 99 is not from 0 to 14"):
        model(torch.tensor([[99]]))
