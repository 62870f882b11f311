"""The Transformer as a whole (Vaswani et al. 2017): embeddings, encoder, decoder and output layer.

Shape legend: B batch, M length of the source, L length of the target, D hidden size, V vocabulary of the target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from d2lbert.config.translation import TransformerConfig
from d2lbert.errors import UserError
from d2lbert.outputs import DecoderOutput, EncoderOutput, TransformerOutput
from d2lbert.torch.decoder import BlockCache, TransformerDecoder
from d2lbert.torch.encoder import Embedding, SinusoidalPositions, TransformerEncoder
from d2lbert.torch.folder import load_model, save_model


@dataclass
class TransformerState:
    """The state of decoding between two steps.

    Fields:
        caches: one for each block.
        source_mask: (B, M), True = keep.
        last: (B,), the token to start the first step from.
    """

    caches: list[BlockCache]
    source_mask: Tensor | None
    last: Tensor

    def select(self, rows: Tensor) -> None:
        """Keep some rows of the batch, in a new order; a row may be repeated."""
        for cache in self.caches:
            cache.select(rows)
        self.last = self.last.index_select(0, rows)
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, rows)


class Transformer(nn.Module):
    """An encoder-decoder: from the tokens of a source to logits for the tokens of a target.

    Differs from the paper in that the projections of attention have biases, as in BERT and in torch.nn.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.target_embedding = Embedding(config.target_vocab_size, config.hidden_size)
        self.source_embedding = self.target_embedding
        if not config.share_embeddings:
            self.source_embedding = Embedding(config.source_vocab_size, config.hidden_size)
        self.positions = SinusoidalPositions(
            config.hidden_size, config.max_position_embeddings, config.hidden_dropout_prob
        )
        self.encoder = TransformerEncoder(config.block, config.num_encoder_layers)
        self.decoder = TransformerDecoder(config.block, config.num_decoder_layers)
        self.output = nn.Linear(config.hidden_size, config.target_vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.output.weight = self.target_embedding.weight
        self.apply(_initialize)

    def forward(
        self,
        source_ids: Tensor,
        target_ids: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        *,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> TransformerOutput[Tensor]:
        """Compute the logits of all positions of known targets at once (teacher forcing).

        Args:
            source_ids: (B, M).  target_ids: (B, L), each begins with the begin token.
            source_mask: (B, M).  target_mask: (B, L). 1 for a token and 0 for padding; all 1 by default.

        Raises:
            UserError: a sequence is longer than the table of positions, or (on a CPU) an id is outside its vocabulary.
        """
        encoded = self.encode(source_ids, source_mask, output_hidden_states, output_attentions)
        state = self._state(encoded.sequence, source_ids, source_mask)
        decoded = self._decode(target_ids, state, target_mask, output_attentions)
        return TransformerOutput(self.output(decoded.sequence), encoded, decoded)

    def encode(
        self,
        source_ids: Tensor,
        source_mask: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> EncoderOutput[Tensor]:
        """Encode sources (B, M) into a memory, ``sequence`` (B, M, D)."""
        x = self._embed(self.source_embedding, source_ids)
        return self.encoder(x, _keep(source_mask), output_hidden_states, output_attentions)  # sequence (B, M, D)

    def start(self, source_ids: Tensor, source_mask: Tensor | None = None) -> TransformerState:
        """Encode sources (B, M) and return the state in which no token of the target is known yet."""
        return self._state(self.encode(source_ids, source_mask).sequence, source_ids, source_mask)

    def step(self, token_ids: Tensor, state: TransformerState) -> Tensor:
        """Return logits (B, V) of the token that follows ``token_ids`` (B,), the last known; ``state`` advances."""
        return self.output(self._decode(token_ids.unsqueeze(1), state).sequence[:, 0])

    def _state(self, memory: Tensor, source_ids: Tensor, source_mask: Tensor | None) -> TransformerState:
        last = torch.full_like(source_ids[:, 0], self.config.bos_token_id)
        return TransformerState(self.decoder.start(memory), _keep(source_mask), last)

    def _decode(
        self,
        target_ids: Tensor,
        state: TransformerState,
        target_mask: Tensor | None = None,
        output_attentions: bool = False,
    ) -> DecoderOutput[Tensor]:
        """Decode ids (B, L) that follow those in the state."""
        x = self._embed(self.target_embedding, target_ids, state.caches[0].keys.shape[2])
        return self.decoder(x, state.caches, _keep(target_mask), state.source_mask, output_attentions)

    def _embed(self, embedding: Embedding, token_ids: Tensor, first: int = 0) -> Tensor:
        """Embed ids (B, L) at positions from ``first`` on: (B, L, D)."""
        length, longest = first + token_ids.shape[1], self.config.max_position_embeddings
        if length > longest:
            raise UserError(f"a sequence of {length} tokens, but the model has {longest} positions: shorten the text")
        # A sinusoid has a root mean square of 0.7. The factor lifts embeddings of variance 1 / D to that size
        # (section 3.4).
        return self.positions(embedding(token_ids) * math.sqrt(self.config.hidden_size), first)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Transformer:
        """Load a folder that :meth:`save_pretrained` wrote.

        Raises:
            UserError: a file is missing or damaged, or configuration and weights do not fit.
        """
        from d2lbert.weights.shapes import transformer_shapes

        return load_model(cls, TransformerConfig, folder, transformer_shapes)

    def save_pretrained(self, folder: str | Path, half: bool = False) -> None:
        """Write ``config.json`` and ``model.safetensors``; ``half`` stores 16 bits a number, half the size."""
        save_model(self, folder, half)


def _keep(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask.bool()


def _initialize(module: nn.Module) -> None:
    """Xavier's weights for linear layers; embeddings of variance 1 / D, since they are multiplied by sqrt(D)."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
