"""The encoder half of the Transformer (Vaswani et al. 2017), which BERT is made of.

The decoder half is in ``decoder.py``, the whole model in ``transformer.py``.

Shape legend: B batch, L length, D hidden size, H heads, F width inside the feed-forward network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.config.base import BlockSizes
from d2lbert.errors import UserError
from d2lbert.outputs import EncoderOutput
from d2lbert.torch.attention import KeyValueCache, MultiHeadAttention

# BERT's paper and checkpoints use the exact GELU, x Phi(x) with the error function; GPT-2 uses the tanh formula.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_new": partial(functional.gelu, approximate="tanh"),
}
_IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": torch.ops.aten.gelu_,
    "gelu_new": partial(torch.ops.aten.gelu_, approximate="tanh"),
}

FOREIGN_TOKENIZER = "encode the text with the tokenizer of this model"


class Embedding(nn.Embedding):
    """The vectors of tokens, one row for each id; an id outside is named, where PyTorch says "out of range in self"."""

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids of any shape to their vectors, with one dimension more.

        Raises:
            UserError: on a processor, an id is outside the table. A GPU does not say so.
        """
        try:
            return super().forward(ids)
        except IndexError:
            check_ids("token id", ids, self.num_embeddings, FOREIGN_TOKENIZER)
            raise


def check_ids(name: str, ids: Tensor, rows: int, advice: str) -> None:
    """Name the id that is outside its table of embeddings.

    To look at every id costs time, so this is for a look-up that has failed.

    Args:
        name: what the ids are, such as ``"token id"``.
        ids: of any shape.
        rows: of the table.
        advice: what to do.

    Raises:
        UserError: there is such an id.
    """
    for number in (int(ids.min()), int(ids.max())):
        if not 0 <= number < rows:
            raise UserError(f"{name} {number} is not from 0 to {rows - 1}, the rows of its embeddings: {advice}")


class SinusoidalPositions(nn.Module):
    """Add fixed waves to the embeddings, so that order matters (Vaswani et al. 2017, section 3.5).

    P[i, 2j] = sin(i / 10000^(2j / D)) and P[i, 2j + 1] = cos(i / 10000^(2j / D)): column pair j turns with a
    wavelength of 2 pi 10000^(2j / D) positions.
    """

    table: Tensor

    def __init__(self, hidden_size: int, max_length: int = 1000, dropout: float = 0.0) -> None:
        super().__init__()
        positions = torch.arange(max_length, dtype=torch.float32).unsqueeze(1)  # (max_length, 1)
        exponents = torch.arange(0, hidden_size, 2, dtype=torch.float32) / hidden_size  # 2j / D
        angles = positions / 10000**exponents  # (max_length, ceil(D / 2))
        table = torch.zeros(max_length, hidden_size)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles[:, : hidden_size // 2].cos()
        # Computed, not learned: it follows the module to its device and stays out of checkpoints.
        self.register_buffer("table", table, persistent=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        """Add the encodings of L positions, from ``first`` on, to x (B, L, D).

        Raises:
            ValueError: the table has too few positions.
        """
        end = first + x.shape[1]
        if end > len(self.table):
            raise ValueError(f"input of length {end} is longer than the table of {len(self.table)} positions")
        return self.dropout(x + self.table[first:end])


class FeedForward(nn.Module):
    """The position-wise network (Vaswani et al. 2017, section 3.3): expand to F, activate, project back to D.

    The same two layers act on each position separately, so they are two convolutions of width one.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str = "relu") -> None:
        super().__init__()
        self.expand = nn.Linear(hidden_size, intermediate_size)
        self.project = nn.Linear(intermediate_size, hidden_size)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, L, D) to (B, L, D)."""
        return self.project(self._activate(self.expand(x)))  # (B, L, D) -> (B, L, F) -> (B, L, D)

    def _activate(self, hidden: Tensor) -> Tensor:
        # Without gradients the input of the activation is not needed again: overwriting it saves the largest array of
        # the block, which is 5 % of the time of BERT-base.
        return (ACTIVATIONS if torch.is_grad_enabled() else _IN_PLACE)[self.activation](hidden)


class TransformerEncoderBlock(nn.Module):
    """Attention and a feed-forward network, each in a residual connection with LayerNorm after it (post-LN).

    x = LayerNorm(x + MultiHead(x, x, x)), then x = LayerNorm(x + FFN(x)), as in the 2017 paper (section 3.1) and in
    BERT. Dropout acts on the output of each of the two, before it is added.
    """

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            sizes.hidden_size, sizes.num_heads, sizes.attention_dropout, head_size=sizes.head_size
        )
        self.attention_norm = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)
        self.feed_forward = FeedForward(sizes.hidden_size, sizes.intermediate_size, sizes.activation)
        self.feed_forward_norm = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        memory: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the new hidden states (B, L, D) and, on request, the attention weights (B, H, L, M).

        Args:
            x: (B, L, D).  mask: (B, M) or (B, L, M), True = keep.
            memory: (B, M, D), what x attends to; x itself by default.
            cache: positions that precede those of memory, see :meth:`MultiHeadAttention.forward`.
        """
        memory = x if memory is None else memory
        attended, weights = self.attention(x, memory, memory, mask, need_weights, cache)  # (B, L, D), (B, H, L, M)
        x = self.attention_norm(x + self.dropout(attended))
        x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x, weights


class PreNormEncoderBlock(TransformerEncoderBlock):
    """The same block with LayerNorm before each of the two parts (pre-LN), as in GPT-2, and none on the residual path.

    x = x + MultiHead(n, n, n) with n = LayerNorm(x), then x = x + FFN(LayerNorm(x)) (Xiong et al. 2020).
    """

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        memory: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the new hidden states and the weights; the arguments are those of the post-LN block."""
        queries = self.attention_norm(x)
        memory = queries if memory is None else self.attention_norm(memory)
        attended, weights = self.attention(queries, memory, memory, mask, need_weights, cache)
        x = x + self.dropout(attended)
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x, weights


class TransformerEncoder(nn.Module):
    """A stack of encoder blocks. Vectors in, vectors out: the caller does the embedding.

    Args:
        sizes: of every block.
        num_layers: how many blocks.
    """

    def __init__(self, sizes: BlockSizes, num_layers: int) -> None:
        super().__init__()
        block = PreNormEncoderBlock if sizes.norm_first else TransformerEncoderBlock
        self.blocks = nn.ModuleList(block(sizes) for _ in range(num_layers))
        # A pre-LN stack ends in a sum that is not normalised, so it needs one more LayerNorm.
        self.norm = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps) if sizes.norm_first else nn.Identity()

    def layers(self) -> list[TransformerEncoderBlock]:
        """Return the blocks in the order in which the vectors pass through them."""
        return [cast(TransformerEncoderBlock, block) for block in self.blocks]

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> EncoderOutput[Tensor]:
        """Run x (B, L, D) through every block; ``mask`` is (B, L) or (B, L, L), True = keep."""
        hidden_states, attentions = [x], []
        for block in self.layers():
            x, weights = block(x, mask, output_attentions)
            if output_hidden_states:
                hidden_states.append(x)
            attentions.append(weights)
        return EncoderOutput(
            self.norm(x),
            tuple(hidden_states) if output_hidden_states else None,
            tuple(attentions) if output_attentions else None,
        )

    def forward_at(self, x: Tensor, mask: Tensor | None, positions: Tensor) -> Tensor:
        """Return the last hidden states (B, S, D) of some positions; the last block is computed for no others.

        Args:
            x, mask: as for :meth:`forward`.
            positions: (B, S), the columns in each row.
        """
        *blocks, last = self.layers()
        for block in blocks:
            x, _ = block(x, mask)
        if mask is not None and mask.dim() == 3:
            mask = select_positions(mask, positions)  # (B, S, L)
        x, _ = last(select_positions(x, positions), mask, memory=x)
        return self.norm(x)

    def start(self, x: Tensor) -> list[KeyValueCache]:
        """Return an empty cache for every layer, for as many rows as x (B, L, D) has."""
        return [block.attention.empty_cache(x) for block in self.layers()]

    def extend(self, x: Tensor, mask: Tensor, caches: Sequence[KeyValueCache]) -> Tensor:
        """Return the last hidden states (B, L, D) of positions that follow those in the caches, which grow by them.

        Args:
            x: (B, L, D).  mask: (B, L, T + L), True = keep.  caches: from :meth:`start`, of T positions.
        """
        for block, cache in zip(self.layers(), caches, strict=True):
            x, _ = block(x, mask, cache=cache)
        return self.norm(x)


def select_positions(x: Tensor, positions: Tensor) -> Tensor:
    """Return the vectors of x (B, L, E) at positions (B, S): (B, S, E)."""
    return x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


def initialize(module: nn.Module, standard_deviation: float) -> None:
    """Give linear layers and embeddings normally distributed weights and zero biases; LayerNorm starts as the identity.

    Apply it with ``model.apply``; the standard deviation is 0.02 in BERT.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=standard_deviation)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable parameters; a shared tensor counts once."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
