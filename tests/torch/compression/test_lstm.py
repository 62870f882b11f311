"""The BiLSTM student: each text by itself, both directions, and its tokenizer of whole words."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.data.batching import pack, pad
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.torch.compression import BiLstmClassifier, word_tokenizer
from d2lbert.torch.compression.lstm import separate_texts
from d2lbert.torch.runtime import to_tensors

TEXTS = ["a b c d e", "b", "c a f", "d d d d d d d", "e f", "g"]


@pytest.fixture
def student(tokenizer: WordPiece) -> BiLstmClassifier:
    """Vectors of 6, states of 5, an inner layer of 4; every number matters."""
    made = BiLstmClassifier(np.zeros((len(tokenizer.vocab), 6)), ("bad", "good", "so so"), 5, 4)
    randomize(made, standard_deviation=0.5)
    return made.eval()


def test_each_text_is_read_by_itself(student: BiLstmClassifier, tokenizer: WordPiece) -> None:
    """Padded, packed or alone: the logits of a text are the same."""
    encodings = tokenizer.encode_batch(TEXTS)
    alone = torch.cat([student(torch.tensor([encoding.ids])) for encoding in encodings])
    assert alone.shape == (6, 3)
    torch.testing.assert_close(student(to_tensors(pad(encodings))), alone, atol=1e-6, rtol=0)
    packed = pack(encodings, width=16)
    assert len(packed.token_ids) < len(TEXTS)
    torch.testing.assert_close(student(to_tensors(packed)), alone, atol=1e-6, rtol=0)
    assert alone.std(dim=0).min() > 1e-3


def test_texts_of_packed_rows(tokenizer: WordPiece) -> None:
    encodings = tokenizer.encode_batch(TEXTS)
    ids, lengths = separate_texts(to_tensors(pack(encodings, width=12)))
    assert lengths.tolist() == [len(encoding) for encoding in encodings]
    for row, encoding in zip(ids.tolist(), encodings, strict=True):
        assert row[: len(encoding)] == encoding.ids


def test_the_same_by_hand(student: BiLstmClassifier) -> None:
    """Gate by gate, from left to right and from right to left (Hochreiter and Schmidhuber 1997)."""
    ids = [2, 7, 5, 9]
    states = []
    for suffix, order in (("", ids), ("_reverse", ids[::-1])):
        weights = {name: getattr(student.lstm, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh")}
        bias = getattr(student.lstm, f"bias_ih_l0{suffix}") + getattr(student.lstm, f"bias_hh_l0{suffix}")
        hidden, cell = torch.zeros(5), torch.zeros(5)
        for index in order:
            x = student.embedding.weight[index]
            i, f, g, o = (weights["weight_ih"] @ x + weights["weight_hh"] @ hidden + bias).chunk(4)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
        states.append(hidden)
    expected = student.classifier(student.inner(torch.cat(states)).relu())
    torch.testing.assert_close(student(torch.tensor([ids]))[0], expected, atol=1e-6, rtol=0)


def test_vectors_are_trained_but_the_given_ones_stay(student: BiLstmClassifier) -> None:
    given = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    before = given.copy()
    made = BiLstmClassifier(given, ("no", "yes"))
    assert np.array_equal(made.embedding.weight.detach().numpy(), given)
    made(torch.tensor([[1, 3]])).sum().backward()
    assert made.embedding.weight.grad[3].abs().sum() > 0
    with torch.no_grad():
        made.embedding.weight.add_(1)
    assert np.array_equal(given, before)


def test_dropout_only_in_training(student: BiLstmClassifier) -> None:
    ids = torch.tensor([[2, 7, 5, 9]])
    assert torch.equal(student(ids), student(ids))
    training = copy.deepcopy(student).train()
    assert not torch.equal(training(ids), training(ids))


def test_an_id_outside_is_named(student: BiLstmClassifier) -> None:
    with pytest.raises(UserError, match="token id 99 is not from 0 to 14"):
        student(torch.tensor([[99]]))


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
