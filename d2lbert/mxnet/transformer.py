"""The Transformer as a whole (Vaswani et al. 2017): embeddings, encoder, decoder, output layer.

Shape legend: B batch, M length of the source, L length of the target, D hidden size, V vocabulary of the target.
"""

from __future__ import annotations

import math
from pathlib import Path

from mxnet import gluon, init
from mxnet.gluon import nn

from d2lbert.config.translation import TransformerConfig
from d2lbert.errors import UserError
from d2lbert.mxnet.attention import Tensor
from d2lbert.mxnet.blocks import Block, Embedding
from d2lbert.mxnet.decoder import TransformerDecoder
from d2lbert.mxnet.encoder import SinusoidalPositions, TransformerEncoder
from d2lbert.mxnet.folder import load_model, save_model
from d2lbert.outputs import EncoderOutput, TransformerOutput


class Transformer(Block):
    """From the tokens of a source to scores for the tokens of a target.

    Differs from the paper in that the projections of attention have biases, as in BERT and in torch.nn.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.target_embedding = Embedding(config.target_vocab_size, config.hidden_size)
        if config.share_embeddings:
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = Embedding(config.source_vocab_size, config.hidden_size)
        self.positions = SinusoidalPositions(
            config.hidden_size, config.max_position_embeddings, config.hidden_dropout_prob
        )
        self.encoder = TransformerEncoder(config.block, config.num_encoder_layers)
        self.decoder = TransformerDecoder(config.block, config.num_decoder_layers)
        # Two layers with one dictionary of parameters share the one that both call "weight".
        tied = self.target_embedding.params if config.tie_word_embeddings else None
        self.output = nn.Dense(
            config.target_vocab_size, use_bias=False, flatten=False, in_units=config.hidden_size, params=tied
        )
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
        """Score every position of known targets at once (teacher forcing).

        Args:
            source_ids: (B, M).  target_ids: (B, L), each begins with the begin token.
            source_mask: (B, M).  target_mask: (B, L). 1 for a token and 0 for padding; all 1 by default.

        Raises:
            UserError: a sequence is longer than the table of positions.
        """
        encoded = self.encode(source_ids, source_mask, output_hidden_states, output_attentions)
        x = self._embed(self.target_embedding, target_ids)
        decoded = self.decoder(x, encoded.sequence, target_mask, source_mask, output_attentions)
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
        return self.encoder(x, source_mask, output_hidden_states, output_attentions)

    def _embed(self, embedding: Embedding, token_ids: Tensor) -> Tensor:
        """Embed (B, L) ids at positions 0, 1, 2, ...: (B, L, D)."""
        length, longest = token_ids.shape[1], self.config.max_position_embeddings
        if length > longest:
            raise UserError(f"a sequence of {length} tokens, but the model has {longest} positions: shorten the text")
        # A sinusoid has a root mean square of 0.7. The factor lifts embeddings of variance 1 / D to that size
        # (section 3.4).
        return self.positions(embedding(token_ids) * math.sqrt(self.config.hidden_size))

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Transformer:
        """Load a folder that :meth:`save_pretrained` of either edition wrote.

        Raises:
            UserError: a file is missing or damaged, or configuration and weights do not fit.
        """
        from d2lbert.weights.shapes import transformer_shapes

        model: Transformer = load_model(cls, TransformerConfig, folder, transformer_shapes)
        return model

    def save_pretrained(self, folder: str | Path, half: bool = False) -> None:
        """Write ``config.json`` and ``model.safetensors``; ``half`` stores 16 bits a number, half the size."""
        save_model(self, folder, half)


def _initialize(module: gluon.Block) -> None:
    """Xavier's weights for dense layers; embeddings of variance 1 / D, since they are multiplied by sqrt(D)."""
    if isinstance(module, nn.Dense):
        module.weight.initialize(init.Xavier("uniform", "avg", 3), force_reinit=True)
        if module.bias is not None:
            module.bias.initialize(init.Zero(), force_reinit=True)
    if isinstance(module, nn.Embedding):
        module.weight.initialize(init.Normal(module.weight.shape[1] ** -0.5), force_reinit=True)
    if isinstance(module, nn.LayerNorm):
        module.gamma.initialize(init.One(), force_reinit=True)
        module.beta.initialize(init.Zero(), force_reinit=True)
    if isinstance(module, SinusoidalPositions):
        module.table.initialize()
