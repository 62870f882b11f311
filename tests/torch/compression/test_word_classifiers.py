"""Classifiers over word vectors: each text by itself, both by hand, and their tokenizer of whole words."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from random_parameters import randomize
from torch import nn

from d2lbert import UserError
from d2lbert.data.batching import pack, pad
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.torch.compression.word_classifiers import BiLstmClassifier, CnnClassifier, separate_texts, word_tokenizer
from d2lbert.torch.runtime import to_tensors

TEXTS = ["a b c d e", "b", "c a f", "d d d d d d d", "e f", "g"]
LABELS = ("bad", "good", "so so")
WIDTHS = (1, 3, 5)


@pytest.fixture
def vectors(tokenizer: WordPiece) -> np.ndarray:
    return np.zeros((len(tokenizer.vocab), 6))


@pytest.fixture
def lstm(vectors: np.ndarray) -> BiLstmClassifier:
    """Vectors of 6, states of 5, an inner layer of 4; every number matters."""
    made = BiLstmClassifier(vectors, LABELS, 5, 4)
    randomize(made, standard_deviation=0.5)
    return made.eval()


@pytest.fixture
def cnn(vectors: np.ndarray) -> CnnClassifier:
    """Vectors of 6, of each width so many filters that some fit no run of a short text."""
    made = CnnClassifier(vectors, LABELS, WIDTHS, 40)
    randomize(made, standard_deviation=0.2)
    return made.eval()


@pytest.fixture(params=["lstm", "cnn"])
def model(request: pytest.FixtureRequest) -> nn.Module:
    made: nn.Module = request.getfixturevalue(request.param)
    return made


def test_each_text_is_read_by_itself(model: nn.Module, tokenizer: WordPiece) -> None:
    """Padded, packed or alone: the logits of a text are the same."""
    encodings = tokenizer.encode_batch(TEXTS)
    alone = torch.cat([model(torch.tensor([encoding.ids])) for encoding in encodings])
    assert alone.shape == (6, 3)
    torch.testing.assert_close(model(to_tensors(pad(encodings))), alone, atol=1e-6, rtol=0)
    packed = pack(encodings, width=16)
    assert len(packed.token_ids) < len(TEXTS)
    torch.testing.assert_close(model(to_tensors(packed)), alone, atol=1e-6, rtol=0)
    assert alone.std(dim=0).min() > 1e-3


def test_texts_of_packed_rows(tokenizer: WordPiece) -> None:
    encodings = tokenizer.encode_batch(TEXTS)
    ids, lengths = separate_texts(to_tensors(pack(encodings, width=12)))
    assert lengths.tolist() == [len(encoding) for encoding in encodings]
    for row, encoding in zip(ids.tolist(), encodings, strict=True):
        assert row[: len(encoding)] == encoding.ids


def test_an_lstm_by_hand(lstm: BiLstmClassifier) -> None:
    """Gate by gate, from left to right and from right to left (Hochreiter and Schmidhuber 1997)."""
    ids = [2, 7, 5, 9]
    states = []
    for suffix, order in (("", ids), ("_reverse", ids[::-1])):
        weights = {name: getattr(lstm.lstm, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh")}
        bias = getattr(lstm.lstm, f"bias_ih_l0{suffix}") + getattr(lstm.lstm, f"bias_hh_l0{suffix}")
        hidden, cell = torch.zeros(5), torch.zeros(5)
        for index in order:
            x = lstm.embedding.weight[index]
            i, f, g, o = (weights["weight_ih"] @ x + weights["weight_hh"] @ hidden + bias).chunk(4)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
        states.append(hidden)
    expected = lstm.classifier(lstm.inner(torch.cat(states)).relu())
    torch.testing.assert_close(lstm(torch.tensor([ids]))[0], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("ids", [[2], [2, 7, 5, 9]])
@torch.no_grad()
def test_filters_by_hand(cnn: CnnClassifier, ids: list[int]) -> None:
    """Run after run, with zeros around the text."""
    largest = []
    for width, convolution in zip(WIDTHS, cnn.convolutions, strict=True):
        zeros = torch.zeros(width - 1, 6)
        words = torch.cat([zeros, cnn.embedding.weight[ids], zeros])
        runs = [words[begin : begin + width] for begin in range(len(ids) + width - 1)]
        for weight, bias in zip(convolution.weight, convolution.bias, strict=True):  # (E, w), a number
            largest.append(max(0.0, *(float((weight.T * run).sum() + bias) for run in runs)))
    expected = cnn.classifier(torch.tensor(largest))
    torch.testing.assert_close(cnn(torch.tensor([ids]))[0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", [BiLstmClassifier, CnnClassifier])
def test_vectors_are_trained_but_the_given_ones_stay(kind: type[BiLstmClassifier | CnnClassifier]) -> None:
    given = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    before = given.copy()
    made = kind(given, ("no", "yes"))
    assert np.array_equal(made.embedding.weight.detach().numpy(), given)
    made(torch.tensor([[1, 3, 0, 0]]), mask=torch.tensor([[1, 1, 0, 0]])).square().sum().backward()
    gradient = made.embedding.weight.grad
    assert gradient[3].abs().sum() > 0
    assert not gradient[0].any()  # of padding
    with torch.no_grad():
        made.embedding.weight.add_(1)
    assert np.array_equal(given, before)


def test_dropout_only_in_training(model: nn.Module) -> None:
    ids = torch.tensor([[2, 7, 5, 9]])
    assert torch.equal(model(ids), model(ids))
    training = copy.deepcopy(model).train()
    assert not torch.equal(training(ids), training(ids))


def test_an_id_outside_is_named(model: nn.Module) -> None:
    with pytest.raises(UserError, match="token id 99 is not from 0 to 14"):
        model(torch.tensor([[99]]))


def test_a_tokenizer_of_whole_words() -> None:
    matrix = np.arange(8, dtype=np.float32).reshape(4, 2)
    tokenizer, vectors = word_tokenizer(["good", "[UNK]", "films", "."], matrix)
    assert tokenizer.vocab == [*SPECIAL_TOKENS, "good", "films", "."]
    assert tokenizer.encode("Good films, film.").tokens == ["[CLS]", "good", "films", "[UNK]", "[UNK]", ".", "[SEP]"]
    assert vectors.shape == (8, 2)
    assert vectors.dtype == np.float32
    assert vectors[5:].tolist() == [[0, 1], [4, 5], [6, 7]]
    assert not vectors[0].any()
    assert vectors[1:5].all()
    assert np.array_equal(vectors, word_tokenizer(["good", "[UNK]", "films", "."], matrix)[1])
