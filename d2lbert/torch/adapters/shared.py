"""One encoder in memory for many adapters, whose texts share a batch.

The product W x + b is computed once for all tokens of a batch. What an adapter adds, (alpha / r) B A x, is computed for
the tokens of its own texts. So ten models of one encoder cost the memory of one, and a batch need not wait until there
are enough texts for one of them (Chen et al. 2024, "Punica", do so on GPUs).

Shape legend: R rows, L length of a row, N texts, D hidden size, I inputs of a layer, O its outputs, r rank, C labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.errors import UserError
from d2lbert.torch.adapters.layer import adapted_layers
from d2lbert.torch.bert import attention_mask
from d2lbert.torch.runtime import place, to_device, to_tensors

if TYPE_CHECKING:
    from d2lbert.data.batching import Batch
    from d2lbert.torch.bert import BertModel
    from d2lbert.torch.heads import BertWithHead


@dataclass
class _Routes:
    """Whose vectors a layer gets next: for each head the positions of its vectors, None for all of them."""

    groups: list[tuple[nn.Module, Tensor | None]] = field(default_factory=list)


class SharedLinear(nn.Linear):
    """A linear layer of the encoder, and the updates that several adapters make to it.

    An update belongs to a head and goes when the head goes.
    """

    def __init__(self, linear: nn.Linear, routes: _Routes) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.routes = routes
        self.updates: WeakKeyDictionary[nn.Module, tuple[Tensor, Tensor]] = WeakKeyDictionary()

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O), each vector with the adapter of its text."""
        y = super().forward(x)
        inputs, outputs = x.flatten(0, -2), y.flatten(0, -2)  # (..., I) -> (T, I), (..., O) -> (T, O), the same memory
        for head, positions in self.routes.groups:
            update = self.updates.get(head)
            if update is None:
                continue
            down, up = update  # (r, I), (O, r)
            own = inputs if positions is None else inputs[positions]
            change = functional.linear(functional.linear(own, down), up)
            if positions is None:
                outputs += change
            else:
                outputs.index_add_(0, positions, change)
        return y


class SharedEncoder:
    """An encoder that computes batches of texts of several heads at once. For inference alone; it changes the encoder.

    Args:
        bert: the encoder as it is without adapters.
    """

    packed = True  # it takes rows of several texts

    def __init__(self, bert: BertModel) -> None:
        self.bert = bert.eval()
        self.bert.requires_grad_(False)
        self._routes = _Routes()

    def add(self, head: BertWithHead) -> None:
        """Take in a head and its adapters, if it has any; from now on the head uses this encoder.

        Raises:
            UserError: its encoder is another.
        """
        layers = adapted_layers(head)
        for name, layer in layers.items():
            ours = self.bert.get_submodule(name)
            same = isinstance(ours, nn.Linear) and torch.equal(ours.weight, layer.weight)
            if not same:
                raise UserError(f"the adapters were trained beside another encoder: {name} differs; serve it apart")
        for name, layer in layers.items():
            if not isinstance(self.bert.get_submodule(name), SharedLinear):
                linear = cast(nn.Linear, self.bert.get_submodule(name))
                self.bert.set_submodule(name, SharedLinear(linear, self._routes))
            shared = cast(SharedLinear, self.bert.get_submodule(name))
            shared.updates[head] = layer.down.detach(), layer.scale * layer.up.detach()
        head.bert = self.bert
        head.eval().requires_grad_(False)

    @torch.inference_mode()
    def logits(self, batch: Batch, heads: Sequence[BertWithHead]) -> list[np.ndarray]:
        """Return the logits of each text, (C,) or, from a head on tokens, (length, C).

        Args:
            batch: N texts, packed or padded.
            heads: N, the head of each text; each has been added.
        """
        device = place(self.bert)
        rows = to_tensors(batch, device)
        distinct = list(dict.fromkeys(heads))
        owners = np.array([distinct.index(head) for head in heads])  # (N,)
        self._routes.groups = _groups(distinct, _owner_of_tokens(batch, owners).ravel(), device)
        sequence = self.bert.encoder(self.bert.embed(rows), attention_mask(rows)).sequence  # (R, L, D)
        flat = sequence.flatten(0, 1)  # (R L, D)
        found: dict[int, np.ndarray] = {}
        for index, head in enumerate(distinct):
            texts = np.flatnonzero(owners == index)
            self._routes.groups = [(head, None)]
            found |= zip(texts.tolist(), self._logits_of_head(head, flat, batch, texts), strict=True)
        return [found[text] for text in range(len(heads))]

    def _logits_of_head(
        self, head: BertWithHead, flat: Tensor, batch: Batch, texts: np.ndarray
    ) -> Iterable[np.ndarray]:
        """Return the logits of some texts of a batch, all of one head, from the vectors (R L, D) of all tokens."""
        starts = batch.starts[texts] @ [batch.token_ids.shape[1], 1]  # row times L plus column
        if head.uses_pooler:
            pooled = self.bert.pool(flat[to_device(starts, flat.device)])  # (n, D) of n texts
            return head.logits_of(pooled).float().cpu().numpy()
        lengths = batch.lengths[texts]
        positions = np.concatenate([np.arange(*span) for span in zip(starts, starts + lengths, strict=True)])
        tokens = head.logits_of(flat[to_device(positions, flat.device)])  # (tokens, C)
        return np.split(tokens.float().cpu().numpy(), np.cumsum(lengths)[:-1])


def _owner_of_tokens(batch: Batch, owners: np.ndarray) -> np.ndarray:
    """Return the index of the head of each token, (R, L); -1 for padding."""
    rows, columns = batch.starts.T
    table = np.full((len(batch.token_ids), batch.sequence_ids.max() + 1), -1)
    table[rows, batch.sequence_ids[rows, columns]] = owners
    return np.take_along_axis(table, batch.sequence_ids, axis=1)


def _groups(
    heads: Sequence[nn.Module], owners: np.ndarray, device: torch.device
) -> list[tuple[nn.Module, Tensor | None]]:
    """Return for each head the positions of its tokens, from the index of the head of every token."""
    if len(heads) == 1:  # padding gets the update too: nobody reads it
        return [(heads[0], None)]
    return [(head, to_device(np.flatnonzero(owners == index), device)) for index, head in enumerate(heads)]
