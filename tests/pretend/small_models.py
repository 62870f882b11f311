"""The smallest models that run on the accelerator, and what compares them with the processor's.

The accelerator is the pretend one beside this file, unless ``D2LBERT_ACCELERATOR`` names a real one, such as ``cuda``.
A real one adds up in another order, so its numbers are compared less closely, and it draws other random numbers, so
there is no dropout.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from d2lbert.config import (
    BertConfig,
    ElmoConfig,
    Seq2SeqConfig,
    TransformerConfig,
)
from d2lbert.text import WordPiece
from d2lbert.torch.elmo import Elmo
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer

ACCELERATOR = os.environ.get("D2LBERT_ACCELERATOR", "pretend")
PRETEND = ACCELERATOR == "pretend"
DROPOUT = 0.1 if PRETEND else 0.0
RTOL, ATOL = (1e-5, 1e-6) if PRETEND else (1e-3, 1e-3)
torch.backends.cudnn.allow_tf32 = PRETEND  # in recurrent layers a GPU would keep 11 of 24 binary digits
V = 24
BLOCK = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrs"])
RATES = {"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT}
BERT = BertConfig(vocab_size=V, max_position_embeddings=32, **BLOCK, **RATES)
TEXTS = ["a b c", "d", "e f g h i", "j k"]


def made(kind: Callable[..., nn.Module], *arguments: Any, device: torch.device, **options: Any) -> Any:
    """A model with the weights of seed 0, on a device."""
    torch.manual_seed(0)
    return kind(*arguments, **options).eval().to(device)


def ids(device: torch.device, rows: int = 3, length: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids (rows, length) and their mask, padded at the right."""
    numbers = torch.arange(rows * length).reshape(rows, length) % (V - 6) + 5
    mask = (torch.arange(length) < length - torch.arange(rows).unsqueeze(1)).long()
    return (numbers * mask).to(device), mask.to(device)


def gradients(model: nn.Module, loss: torch.Tensor) -> list[torch.Tensor]:
    """The gradient of every parameter that the loss depends on."""
    loss.backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def translator(kind: str, device: torch.device, vocabulary: int = V) -> Any:
    if kind == "transformer":
        sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        config = TransformerConfig(vocabulary, vocabulary, 8, hidden_dropout_prob=DROPOUT, **sizes)
        return made(Transformer, config, device=device)
    attention, cell = kind.split()
    sizes = {"embedding_size": 8, "hidden_dropout_prob": DROPOUT}
    config = Seq2SeqConfig(vocabulary, vocabulary, 8, attention=attention, cell=cell, **sizes)
    return made(Seq2Seq, config, device=device)


def elmo(device: torch.device) -> Any:
    config = ElmoConfig(
        char_embedding_size=4, filters=((1, 8), (2, 8)), max_characters=8, projection_size=6, hidden_size=8
    )
    return made(Elmo, config, device=device)


def assert_same(found: Any, expected: Any) -> None:
    """Numbers, texts, and tensors of any device are equal, however they are nested."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=RTOL, atol=ATOL, equal_nan=True)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_allclose(found, expected, rtol=RTOL, atol=ATOL)
    elif isinstance(expected, dict):
        assert_same([*found.items()], [*expected.items()])
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=RTOL, abs=ATOL)
    else:
        assert found == expected
