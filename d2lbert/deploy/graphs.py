"""The computation that is exported: a fine-tuned model as a function of plain tensors, without choices on the way.

An exporter follows the tensors once and writes down every operation. So a graph must not look at their values; what
:class:`~d2lbert.torch.BertModel` decides while it runs, such as how many texts the fullest row has, is an input here.

Shape legend: B rows of a batch, L length of a row, W texts of the fullest row, D hidden size, C labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from d2lbert.errors import UserError
from d2lbert.outputs import Rows
from d2lbert.torch.bert import attention_mask, group_by_row
from d2lbert.torch.heads import BertWithHead

# Inputs of a graph for padded rows, under the names that other programs use.
PADDED = ("input_ids", "attention_mask", "token_type_ids")
# Inputs of a graph for packed rows. A head that scores texts needs the columns of their first tokens, too.
PACKED = ("input_ids", "token_type_ids", "position_ids", "sequence_ids")
COLUMNS = "columns"
OUTPUT = "logits"
_EXAMPLE = (2, 7, 3)  # B, L, W of the batch that the exporter follows; none is 0 or 1, which it would take for fixed


class Exportable(nn.Module):
    """A function of tensors that an exporter can follow.

    Attributes:
        inputs: the names of the inputs, in the order of the arguments of ``forward``; a list of tensors has a name for
            each of them.
        outputs: the names of what ``forward`` returns.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = (OUTPUT,)

    def example(self) -> tuple[Any, ...]:
        """Return arguments of ``forward``."""
        raise NotImplementedError

    def axes(self) -> tuple[Any, ...]:
        """Return for each argument the axes that are free, by their names."""
        raise NotImplementedError


class Graph(Exportable):
    """A model with its head, and how it is called. Each class below computes from inputs of its own.

    Args:
        model: in evaluation mode.

    Attributes:
        inputs: integers, (B, L) each, but ``columns``, (B, W).
        positions: the most tokens of a text.
    """

    def __init__(self, model: BertWithHead) -> None:
        super().__init__()
        self.model = model
        self.positions = int(model.config.max_position_embeddings)

    def logits_of_tokens(self, rows: Rows[Tensor]) -> Tensor:
        """Return logits (B, L, C)."""
        bert = self.model.bert
        return self.model.logits_of(bert.encoder(bert.embed(rows), attention_mask(rows)).sequence)

    def logits_of_texts(self, rows: Rows[Tensor], columns: Tensor) -> Tensor:
        """Return logits (B, W, C) of the texts whose first tokens are in these columns (B, W)."""
        bert = self.model.bert
        first = bert.encoder.forward_at(bert.embed(rows), attention_mask(rows), columns)  # (B, W, D)
        return self.model.logits_of(bert.pool(first))

    def example(self) -> tuple[Tensor, ...]:
        """Return arguments of ``forward``."""
        batch, length, texts = _EXAMPLE
        ids = torch.ones(batch, length, dtype=torch.int64)
        made = {name: ids if name in ("input_ids", "attention_mask", "sequence_ids") else ids * 0 for name in PACKED}
        made |= {"attention_mask": ids, COLUMNS: torch.zeros(batch, texts, dtype=torch.int64)}
        return tuple(made[name].clone() for name in self.inputs)

    def axes(self) -> tuple[dict[int, torch.export.Dim], ...]:
        """Return for each argument the axes that are free, by their names."""
        batch, texts = torch.export.Dim("batch"), torch.export.Dim("texts")
        # A packed row may be longer than a text.
        length = torch.export.Dim("length", max=None if "position_ids" in self.inputs else self.positions)
        return tuple({0: batch, 1: texts if name == COLUMNS else length} for name in self.inputs)


class PaddedTexts(Graph):
    """Any head, over rows of one text each, padded to the longest."""

    inputs = PADDED

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Return logits, (B, C) or, of a head that scores tokens, (B, L, C). In the mask 1 is a token, 0 padding."""
        rows = Rows(input_ids, token_type_ids, attention_mask)
        if not self.model.uses_pooler:
            return self.logits_of_tokens(rows)
        first = torch.zeros_like(input_ids[:, :1])  # a text begins in column 0
        return self.logits_of_texts(rows, first).squeeze(1)  # (B, 1, C) -> (B, C)


class PackedTokens(Graph):
    """A head that scores tokens, over rows of several texts each."""

    inputs = PACKED

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor, sequence_ids: Tensor) -> Tensor:
        """Return logits (B, L, C). The arguments are the fields of :class:`~d2lbert.outputs.Rows`."""
        return self.logits_of_tokens(Rows(input_ids, token_type_ids, None, position_ids, sequence_ids))


class PackedTexts(Graph):
    """A head that scores texts, over rows of several texts each."""

    inputs = (*PACKED, COLUMNS)

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor, sequence_ids: Tensor, columns: Tensor
    ) -> Tensor:
        """Return logits (B, W, C) of the texts that begin in these columns (B, W)."""
        rows = Rows(input_ids, token_type_ids, None, position_ids, sequence_ids)
        return self.logits_of_texts(rows, columns)


def graph_of(model: nn.Module, packed: bool = False) -> Graph:
    """Return the graph of a fine-tuned model.

    Args:
        packed: for rows of several texts, as :func:`d2lbert.data.batching.pack` makes them.

    Raises:
        UserError: the model has no head.
    """
    if not isinstance(model, BertWithHead):
        kind = type(model).__name__
        raise UserError(f"a {kind} has no head to export: fine-tune it first, or name a fine-tuned model")
    if not packed:
        return PaddedTexts(model).eval()
    return (PackedTexts if model.uses_pooler else PackedTokens)(model).eval()


def arguments(rows: Rows[Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    """Return the inputs of a graph, by name, for a batch: packed rows for a packed graph, padded ones for the other."""
    zeros = torch.zeros_like(rows.token_ids)
    fields: dict[str, Any] = {
        "input_ids": rows.token_ids,
        "token_type_ids": zeros if rows.segment_ids is None else rows.segment_ids,
        "attention_mask": zeros + 1 if rows.mask is None else rows.mask,
        "position_ids": rows.position_ids,
        "sequence_ids": rows.sequence_ids,
    }
    if COLUMNS in names:
        assert rows.starts is not None
        row, column = rows.starts.T  # (N,) each
        fields[COLUMNS], _ = group_by_row(row, column, len(rows.token_ids))
    return {name: fields[name].to(torch.int64) for name in names}


def texts_of(logits: Tensor, rows: Rows[Tensor]) -> Tensor:
    """Return the logits (N, C) of the texts of packed rows, from (B, W, C)."""
    assert rows.starts is not None
    row, column = rows.starts.T  # (N,) each
    _, slot = group_by_row(row, column, len(rows.token_ids))
    return logits[row, slot]


def random_inputs(graph: Graph, rows: int, length: int, seed: int, full: bool = False) -> tuple[Tensor, ...]:
    """Return arguments of a graph, by chance: each row holds a text and padding or, packed, two texts.

    Args:
        full: whether the text of the first row fills it, so that every position is read.
    """
    generator = torch.Generator().manual_seed(seed)
    config, shape = graph.model.config, (rows, length)
    first = torch.randint(1, length + 1, (rows, 1), generator=generator)  # tokens of the first text
    if full:
        first[0] = length
    place = torch.arange(length).expand(shape)
    segments = getattr(config, "type_vocab_size", 0) or 1  # a DistilBERT has none, and reads none
    made = {
        "input_ids": torch.randint(0, config.vocab_size, shape, generator=generator),
        "attention_mask": (place < first).long(),
        "token_type_ids": torch.randint(0, segments, shape, generator=generator),
        "position_ids": torch.where(place < first, place, place - first),
        "sequence_ids": torch.where(place < first, 1, 2),
        COLUMNS: torch.cat([torch.zeros_like(first), first.clamp(max=length - 1)], dim=1),
    }
    return tuple(made[name].contiguous() for name in graph.inputs)


def logits_beside(
    graph: Graph, inputs: Sequence[Tensor], run: Callable[..., np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of a graph and what an engine makes of the same inputs, without those of padding.

    Args:
        inputs: arguments of the graph.
        run: the engine, with the same arguments.
    """
    with torch.no_grad():
        right = graph(*inputs).numpy()
    found = run(*inputs)
    if "attention_mask" in graph.inputs and not graph.model.uses_pooler:  # nobody reads the logits of padding
        keep = inputs[graph.inputs.index("attention_mask")].numpy() > 0
        right, found = right[keep], found[keep]
    return right, found
