"""The computations that a browser runs: filling gaps with a look at attention, and one encoder with many adapters.

A page downloads what it runs, so the encoder is one file for all tasks. What a task has of its own, its adapters and
its head, are inputs of the graph: some hundred kilobytes beside the tens of megabytes of the encoder.

Shape legend: B rows of a batch, L length of a row, W gaps of a row, D hidden size, H heads, V vocabulary, C labels,
I inputs of a layer, O its outputs, r rank, N adapted layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.deploy.graphs import COLUMNS, OUTPUT, PADDED, Exportable
from d2lbert.outputs import Rows
from d2lbert.torch.adapters import adapted_layers
from d2lbert.torch.bert import BertModel, attention_mask
from d2lbert.torch.encoder import select_positions
from d2lbert.torch.heads import BertWithHead
from d2lbert.torch.pretraining import BertForPretraining

ATTENTIONS = "attentions"
HEAD = ("head.weight", "head.bias")
# Which output a head reads: of a head on tokens, and of one on the pooled vector.
TOKENS, TEXTS = "token_logits", "text_logits"
_BATCH, _LENGTH, _GAPS, _LABELS, _RANK = 2, 7, 3, 5, 4  # of the example; none is 0 or 1, which would be taken for fixed

Axes = dict[int, torch.export.Dim]


class Gaps(Exportable):
    """The head for masked words, at the gaps alone, and the attention weights of every layer.

    Args:
        model: pretrained, in evaluation mode.
    """

    inputs = (*PADDED, COLUMNS)
    outputs = (OUTPUT, ATTENTIONS)

    def __init__(self, model: BertForPretraining) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, mask: Tensor, token_type_ids: Tensor, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return logits (B, W, V) of the tokens in these columns (B, W), and attention weights (B, layers, H, L, L)."""
        rows, bert = Rows(input_ids, token_type_ids, mask), self.model.bert
        encoded = bert.encoder(bert.embed(rows), attention_mask(rows), output_attentions=True)
        logits = self.model.token_logits(select_positions(encoded.sequence, columns))  # (B, W, D) -> (B, W, V)
        return logits, torch.stack(encoded.attentions or (), dim=1)

    def example(self) -> tuple[Tensor, ...]:
        return *_texts(), torch.zeros(_BATCH, _GAPS, dtype=torch.int64)

    def axes(self) -> tuple[Axes, ...]:
        rows = _axes_of_texts(self.model.config.max_position_embeddings)
        return *rows, {0: rows[0][0], 1: torch.export.Dim("gaps")}


class SharedTexts(Exportable):
    """One encoder for many tasks: the matrices of the adapters and the head come in with the texts.

    Args:
        bert: the encoder as it is without adapters; it is changed in place.
        layers: the names of the N layers that have an adapter, in the order of the inputs.
    """

    outputs = (TOKENS, TEXTS)

    def __init__(self, bert: BertModel, layers: Sequence[str]) -> None:
        super().__init__()
        self.bert = bert
        self.layers = tuple(layers)
        self.inputs = (*PADDED, *HEAD, *(f"{name}.down" for name in layers), *(f"{name}.up" for name in layers))
        self._now: dict[str, tuple[Tensor, Tensor]] = {}
        for name in layers:
            bert.set_submodule(name, _GivenAdapter(_linear(bert, name), name, self._now))

    def forward(
        self,
        input_ids: Tensor,
        mask: Tensor,
        token_type_ids: Tensor,
        head_weight: Tensor,
        head_bias: Tensor,
        downs: list[Tensor],
        ups: list[Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of tokens (B, L, C) and those of texts (B, C); a head has a use for one of them.

        Args:
            head_weight, head_bias: (C, D) and (C,).
            downs, ups: N matrices (r, I) and N matrices (O, r), the latter times alpha / r.
        """
        self._now.update(zip(self.layers, zip(downs, ups, strict=True), strict=True))
        rows = Rows(input_ids, token_type_ids, mask)
        states = self.bert.encoder(self.bert.embed(rows), attention_mask(rows)).sequence  # (B, L, D)
        pooled = self.bert.pool(states[:, 0])  # (B, D)
        self._now.clear()
        return functional.linear(states, head_weight, head_bias), functional.linear(pooled, head_weight, head_bias)

    def example(self) -> tuple[Tensor | list[Tensor], ...]:
        linear = [_linear(self.bert, name) for name in self.layers]
        head = torch.zeros(_LABELS, self.bert.config.hidden_size), torch.zeros(_LABELS)
        downs = [torch.zeros(_RANK, layer.in_features) for layer in linear]
        ups = [torch.zeros(layer.out_features, _RANK) for layer in linear]
        return *_texts(), *head, downs, ups

    def axes(self) -> tuple[Axes | list[Axes], ...]:
        labels, rank = torch.export.Dim("labels"), torch.export.Dim("rank")
        downs: list[Axes] = [{0: rank} for _ in self.layers]
        ups: list[Axes] = [{1: rank} for _ in self.layers]
        return *_axes_of_texts(self.bert.config.max_position_embeddings), {0: labels}, {0: labels}, downs, ups


class _GivenAdapter(nn.Linear):
    """A linear layer whose adapter is given with each call, in a dictionary that all such layers share."""

    def __init__(self, linear: nn.Linear, name: str, now: dict[str, tuple[Tensor, Tensor]]) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.name, self.now = name, now

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O)."""
        down, up = self.now[self.name]
        return super().forward(x) + functional.linear(functional.linear(x, down), up)


def layers_with_adapters(models: Iterable[BertWithHead]) -> list[str]:
    """Return the names of the layers that have an adapter in one of the models, in the order of the encoder."""
    models = list(models)
    adapted = {name for model in models for name in adapted_layers(model)}
    return [name for name, _ in models[0].bert.named_modules() if name in adapted]


def adapter_inputs(model: BertWithHead, layers: Sequence[str]) -> dict[str, np.ndarray]:
    """Return what a model adds to the shared encoder: the inputs of :class:`SharedTexts` by name.

    Args:
        model: with adapters, which may be beside fewer layers: the others get zeros.
        layers: those of the graph.
    """
    own = adapted_layers(model)
    rank = next(iter(own.values())).down.shape[0]
    tensors = dict(zip(HEAD, (model.classifier.weight, model.classifier.bias), strict=True))
    for name in layers:
        layer = own.get(name)
        linear = _linear(model.bert, name)
        tensors[f"{name}.down"] = layer.down if layer else torch.zeros(rank, linear.in_features)
        tensors[f"{name}.up"] = layer.scale * layer.up if layer else torch.zeros(linear.out_features, rank)
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def _linear(bert: BertModel, name: str) -> nn.Linear:
    layer = bert.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    return layer


def _texts() -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, mask and segments (B, L) for the exporter to follow."""
    ones = torch.ones(_BATCH, _LENGTH, dtype=torch.int64)
    return ones.clone(), ones.clone(), ones * 0


def _axes_of_texts(positions: int) -> tuple[Axes, Axes, Axes]:
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=positions)
    return {0: batch, 1: length}, {0: batch, 1: length}, {0: batch, 1: length}
