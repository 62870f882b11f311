"""A small classifier with random weights, its task, a tokenizer and labelled texts of unequal length."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from random_parameters import randomize

from d2lbert.config import BertConfig
from d2lbert.data.batching import pack, pad
from d2lbert.data.examples import Sentence
from d2lbert.tasks.classification import Classification
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification, BertWithHead
from d2lbert.torch.runtime import to_tensors

LABELS = ("bad", "good")
TEXTS = ["a b c d e", "b", "c a f", "d d d d d d d", "e f", "f g h i j a b c d", "g", "h a"]


@pytest.fixture
def tokenizer() -> WordPiece:
    """A vocabulary of single letters."""
    return WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"])


@pytest.fixture
def task() -> Classification:
    """Two labels."""
    return Classification(LABELS)


@pytest.fixture
def examples() -> list[Sentence]:
    """Eight texts, some of each label."""
    return [Sentence(text, LABELS[len(text) % 4 == 1]) for text in TEXTS]


@pytest.fixture
def model(tokenizer: WordPiece) -> BertForSequenceClassification:
    """Three layers of four heads of three; every number matters."""
    config = BertConfig(
        vocab_size=len(tokenizer.vocab),
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=20,
        max_position_embeddings=16,
    )
    made = BertForSequenceClassification(BertModel(config), LABELS)
    randomize(made, seed=2, standard_deviation=0.4)
    return made.eval()


@pytest.fixture
def logits(tokenizer: WordPiece) -> Callable[..., torch.Tensor]:
    """Computes the logits of a model for all texts, padded or packed."""

    def compute(model: BertWithHead, packed: bool = False) -> torch.Tensor:
        encodings = tokenizer.encode_batch(TEXTS, max_length=16)
        return model(to_tensors((pack if packed else pad)(encodings))).detach()

    return compute
