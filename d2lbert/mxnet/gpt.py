"""GPT (Radford et al. 2018, 2019): a Transformer that sees only what stands before, and so can write.

The sizes, the order of the layers and the weights are those of GPT-2. This edition scores whole texts; the cache of the
PyTorch edition, which grows with every step, has no place in a recorded graph, and a text is read anew for each token.

Shape legend: B rows of a batch, L length of a row, D hidden size, H heads, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
from mxnet import init, nd
from mxnet.gluon import nn

from d2lbert.config.gpt import GptConfig
from d2lbert.errors import UserError
from d2lbert.mxnet.attention import Tensor, causal_mask, same_sequence
from d2lbert.mxnet.blocks import Block, shared_names
from d2lbert.mxnet.encoder import TransformerEncoder, initialize
from d2lbert.mxnet.folder import HuggingFaceFolder
from d2lbert.outputs import GptOutput, Rows


class GptEmbeddings(Block):
    """The sum of word and position embeddings, then dropout. BERT has segments and LayerNorm here as well."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.n_embd)
        self.position = nn.Embedding(config.n_positions, config.n_embd)
        self.dropout = nn.Dropout(config.embd_pdrop)

    def hybrid_forward(self, F: ModuleType, token_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D)."""
        return self.dropout(F.broadcast_add(self.word(token_ids), self.position(position_ids)))


class Gpt(HuggingFaceFolder):
    """From the tokens of a text to scores of the token that follows each.

    ``hybridize()`` makes one graph of the embeddings and one of each block; what joins them stays Python.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    config_class = GptConfig
    config: GptConfig

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = GptEmbeddings(config)
        self.encoder = TransformerEncoder(config.block, config.n_layer)
        self.apply(lambda module: initialize(module, config.initializer_range))
        # Every block adds two numbers to each entry of a state; the factor keeps the sum from growing with the depth
        # (Radford et al. 2019, section 2.3).
        smaller = init.Normal(config.initializer_range / math.sqrt(2 * config.n_layer))
        for name, parameter in shared_names(self).items():
            if name.endswith(("attention.output.weight", "feed_forward.project.weight")):
                parameter.initialize(smaller, force_reinit=True)

    def forward(
        self,
        token_ids: Tensor | Rows[Tensor],
        mask: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> GptOutput[Tensor]:
        """Score what follows every token of a batch; packed rows are welcome.

        Args:
            token_ids: (B, L), integers below V; or all arrays of a batch, which may be packed, as
                :class:`~d2lbert.outputs.Rows`.
            mask: (B, L), 1 for a token and 0 for padding; all 1 by default.

        Raises:
            UserError: a row is longer than the position embeddings.
        """
        rows = Rows.of(token_ids, mask=mask)
        length, device = rows.token_ids.shape[1], rows.token_ids.context
        position_ids = rows.position_ids
        if position_ids is None:
            self._check_length(length)
            position_ids = nd.arange(length, ctx=device).expand_dims(0)  # (1, L)
        sees = causal_mask(length, device)  # (1, L, L)
        if rows.sequence_ids is not None:
            sees = nd.broadcast_mul(sees, same_sequence(rows.sequence_ids).astype("float32"))  # (B, L, L)
        if rows.mask is not None:
            # Every position goes on seeing itself, padding too, so that no row of attention is empty.
            itself = nd.eye(length, ctx=device).expand_dims(0)
            sees = nd.broadcast_mul(sees, nd.broadcast_maximum(rows.mask.astype("float32").expand_dims(1), itself))
        x = self.embeddings(rows.token_ids, position_ids)  # (B, L, D)
        encoded = self.encoder(x, sees, output_hidden_states, output_attentions)
        logits = nd.FullyConnected(
            encoded.sequence,
            self.embeddings.word.weight.data(device),
            no_bias=True,
            num_hidden=self.config.vocab_size,
            flatten=False,
        )
        return GptOutput(logits, encoded.sequence, encoded.hidden_states, encoded.attentions)

    def generate(self, prompt: Sequence[int], max_length: int = 64) -> list[int]:
        """Continue one prompt with the most probable token, again and again, and return the new tokens.

        Args:
            prompt: token ids, at least one.
            max_length: the most new tokens, the end token included.

        Raises:
            UserError: the prompt is empty, or prompt and new tokens exceed the positions of the model.
        """
        if not prompt:
            raise UserError("a prompt must end in a token: give at least one")
        self._check_length(len(prompt) + max_length - 1)
        written: list[int] = []
        for _ in range(max_length):
            token = int(self(nd.array([[*prompt, *written]])).logits[0, -1].argmax(axis=0).asscalar())
            if token == self.config.eos_token_id:
                break
            written.append(token)
        return written

    def _check_length(self, length: int) -> None:
        longest = self.config.n_positions
        if length > longest:
            raise UserError(f"a text of {length} tokens, but the model has {longest} positions: shorten the text")

    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Take over NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""
        from d2lbert.weights.gpt import from_hugging_face

        parameters = shared_names(self)
        shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
        for name, array in from_hugging_face(tensors, shapes, self.config.n_layer, origin).items():
            parameters[name].set_data(nd.array(array))

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under the names of ``transformers.GPT2LMHeadModel``."""
        from d2lbert.weights.gpt import to_hugging_face

        parameters = {name: parameter.data().asnumpy() for name, parameter in shared_names(self).items()}
        return to_hugging_face(parameters, self.config.n_layer)
