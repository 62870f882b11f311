"""What goes into a model and what comes out of it, once for both editions: T is a tensor of PyTorch or of MXNet.

Shape legend: B rows of a batch, L length of a row, N texts, M length of the memory of a decoder, D hidden size,
H heads, V vocabulary, P positions at which a token is predicted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Rows(Generic[T]):
    """The tensors of a batch: N texts in B rows. A row holds one text (padded), or several (packed).

    Packed rows need ``position_ids``, ``sequence_ids`` and ``starts``; :func:`d2lbert.data.batching.pack` makes them.

    Fields:
        token_ids: (B, L), integers below V.
        segment_ids: (B, L), 0 for the first text of a pair and 1 for the second; None for all 0.
        mask: (B, L), 1 for a token and 0 for padding; None for all 1. ``sequence_ids`` takes its place.
        position_ids: (B, L), the position of a token in its own text; None for 0, 1, 2, ... in every row.
        sequence_ids: (B, L), k for the k-th text of a row, 0 for padding; None where a row is one text.
        starts: (N, 2), row and column of each text's first token; None for column 0 of every row.
    """

    token_ids: T
    segment_ids: T | None = None
    mask: T | None = None
    position_ids: T | None = None
    sequence_ids: T | None = None
    starts: T | None = None

    @classmethod
    def of(cls, token_ids: T | Rows[T], segment_ids: T | None = None, mask: T | None = None) -> Rows[T]:
        """Return what a model was called with: a batch of rows as it is, or ids with their segments and mask."""
        return token_ids if isinstance(token_ids, Rows) else cls(token_ids, segment_ids, mask)

    def to(self, device: Any) -> Rows[T]:
        """Return the rows on another device of PyTorch."""
        moved = {one.name: getattr(self, one.name) for one in fields(self)}
        return Rows(**{name: None if value is None else value.to(device) for name, value in moved.items()})


@dataclass
class EncoderOutput(Generic[T]):
    """What a stack of encoder blocks returns.

    Fields:
        sequence: (B, L, D), the last hidden states.
        hidden_states: on request, the input of the first block and the output of every block, each (B, L, D).
        attentions: on request, the weights of every block, each (B, H, L, L).
    """

    sequence: T
    hidden_states: tuple[T, ...] | None = None
    attentions: tuple[T, ...] | None = None


@dataclass
class DecoderOutput(Generic[T]):
    """What a stack of decoder blocks returns.

    Fields:
        sequence: (B, L, D), the last hidden states.
        attentions: on request, the weights of every block on the target, each (B, H, L, T + L) after T positions.
        cross_attentions: on request, those on the encoder's output, each (B, H, L, M).
    """

    sequence: T
    attentions: tuple[T, ...] | None = None
    cross_attentions: tuple[T, ...] | None = None


@dataclass
class BertOutput(Generic[T]):
    """What BERT and its relatives return.

    Fields:
        sequence: (B, L, D), the last hidden state of every token.
        pooled: (N, D), tanh(W h + b) of the first token of every text; h itself where there is no pooler.
        hidden_states: on request, the embeddings and the output of each block, each (B, L, D).
        attentions: on request, the weights of each block, each (B, H, L, L).
    """

    sequence: T
    pooled: T
    hidden_states: tuple[T, ...] | None = None
    attentions: tuple[T, ...] | None = None


@dataclass
class PretrainingOutput(Generic[T]):
    """What BERT with its two pretraining heads returns.

    Fields:
        token_logits: (P, V) at the masked positions; (B, L, V) where no positions were given.
        next_logits: (N, 2), for "B follows A" and for "B is of another document".
    """

    token_logits: T
    next_logits: T

    @property
    def objectives(self) -> dict[str, T]:
        """The logits of each pretraining objective, by its name in the batches of data."""
        return {"masked": self.token_logits, "next_sentence": self.next_logits}


@dataclass
class GptOutput(Generic[T]):
    """What GPT returns.

    Fields:
        logits: (B, L, V), scores of the token that follows each position; (P, V) where positions were given.
        sequence: (B, L, D), the last hidden states.
        hidden_states: on request, the embeddings and the output of each block, each (B, L, D).
        attentions: on request, the weights of each block, each (B, H, L, L).
    """

    logits: T
    sequence: T
    hidden_states: tuple[T, ...] | None = None
    attentions: tuple[T, ...] | None = None


@dataclass
class Hypothesis:
    """An output that a search found.

    Fields:
        ids: its tokens, without the begin and the end token.
        score: the logarithm of its probability, divided by the length penalty.
        ended: False where the longest length was reached without an end token.
    """

    ids: list[int] = field(default_factory=list)
    score: float = -math.inf
    ended: bool = False


@dataclass
class TransformerOutput(Generic[T]):
    """What the Transformer returns.

    Fields:
        logits: (B, L, V), scores of the token that follows each position of the target.
        encoder, decoder: the outputs of both halves, with their attention weights on request.
    """

    logits: T
    encoder: EncoderOutput[T]
    decoder: DecoderOutput[T]


@dataclass
class Seq2SeqOutput(Generic[T]):
    """What the recurrent encoder-decoder returns.

    Fields:
        logits: (B, L, V), scores of the token that follows each position of the target.
        attentions: (B, L, M), where each position looked; None without attention.
    """

    logits: T
    attentions: T | None = None


@dataclass(frozen=True)
class ElmoOutput(Generic[T]):
    """What ELMo returns for B sentences, the longest of W words with its two markers.

    Fields:
        layers: N + 1 tensors (B, W, 2 D): the word's own vector twice, then after each LSTM layer the forward state
            beside the backward state. The markers of the sentence are still in.
        mask: (B, W), True where a word or a marker stands; an array of NumPy in the MXNet edition.
        state: of every LSTM after its last word, projected state and cell, to go on with; forward layers first.
    """

    layers: tuple[T, ...]
    mask: Any
    state: tuple[tuple[T, T], ...]
