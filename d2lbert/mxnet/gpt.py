"""GPT (Radford et al. 2018, 2019): a Transformer that sees only what stands before, and so can write.

The sizes, the order of the layers and the weights are those of GPT-2. This edition scores whole texts; the cache of the
PyTorch edition, which grows with every step, has no place in a recorded graph, and a text is read anew for each token.

Shape legend: B rows of a batch, L length of a row, D hidden size, H heads, V vocabulary, P positions
where a token is to be predicted, N texts that are being written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from mxnet import init, nd
from mxnet.gluon import nn

from d2lbert.config.gpt import GptConfig, Sampling
from d2lbert.errors import UserError
from d2lbert.mxnet.attention import Tensor, causal_mask, same_sequence
from d2lbert.mxnet.blocks import Block, Embedding, shared_names
from d2lbert.mxnet.encoder import TransformerEncoder, initialize
from d2lbert.mxnet.folder import HuggingFaceFolder
from d2lbert.mxnet.generation import next_token_distribution
from d2lbert.outputs import GptOutput, Hypothesis, Rows

if TYPE_CHECKING:
    from d2lbert.weights.header import TensorInfo


class GptEmbeddings(Block):
    """The sum of word and position embeddings, then dropout. BERT has segments and LayerNorm here as well."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.word = Embedding(config.vocab_size, config.n_embd)
        self.position = Embedding(config.n_positions, config.n_embd)
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
        *,
        positions: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> GptOutput[Tensor]:
        """Score what follows every token of a batch; packed rows are welcome.

        Args:
            token_ids: (B, L), integers below V; or all arrays of a batch, which may be packed, as
                :class:`~d2lbert.outputs.Rows`.
            mask: (B, L), 1 for a token and 0 for padding; all 1 by default.
            positions: (P,) row times L plus column of each token whose successor is predicted; all by default.

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
        states = encoded.sequence
        if positions is not None:
            states = states.reshape((-3, 0)).take(positions)  # (B, L, D) -> (B L, D) -> (P, D)
        return GptOutput(self._score(states), encoded.sequence, encoded.hidden_states, encoded.attentions)

    def _score(self, states: Tensor) -> Tensor:
        """Map last hidden states (..., D) to scores of every token (..., V)."""
        words = self.embeddings.word.weight.data(states.context)  # (V, D)
        return nd.FullyConnected(states, words, no_bias=True, num_hidden=self.config.vocab_size, flatten=False)

    def _check_length(self, length: int) -> None:
        longest = self.config.n_positions
        if length > longest:
            raise UserError(f"a text of {length} tokens, but the model has {longest} positions: shorten the text")

    @classmethod
    def check_file(cls, header: Mapping[str, TensorInfo], config: GptConfig, origin: Path) -> None:
        """Refuse a file whose header does not fit the configuration."""
        from d2lbert.weights.gpt import check_gpt_header

        check_gpt_header(header, config, origin)

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

    def generate(
        self, prompts: Sequence[Sequence[int]], max_length: int = 64, sampling: Sampling | None = None
    ) -> list[Hypothesis]:
        """Continue prompts of any lengths, together.

        Args:
            prompts: the token ids of each, at least one.
            max_length: the most new tokens of each, its end token included.
            sampling: how tokens are drawn; the most probable one by default.

        Returns:
            A hypothesis for each prompt: its new tokens, their log probability, and whether it came to an end.

        Raises:
            UserError: a prompt is empty, or prompt and new tokens exceed the positions of the model.
        """
        self._check_length(max(map(len, prompts), default=0) + max_length - 1)
        if not prompts or not all(map(len, prompts)):
            raise UserError("a prompt must end in a token: give at least one")
        settings = sampling or Sampling(temperature=0)
        generator = np.random.default_rng(settings.seed)
        hypotheses = [Hypothesis(score=0.0) for _ in prompts]
        for _ in range(max_length):
            unfinished = [index for index, hypothesis in enumerate(hypotheses) if not hypothesis.ended]
            if not unfinished:
                break
            steps = self._next_token([[*prompts[index], *hypotheses[index].ids] for index in unfinished])  # (N, V)
            for index, step, row in zip(unfinished, steps, next_token_distribution(steps, settings), strict=True):
                token = int(generator.choice(len(row), p=row))
                hypotheses[index].score += float(step[token])
                hypotheses[index].ended = token == self.config.eos_token_id
                if not hypotheses[index].ended:
                    hypotheses[index].ids.append(token)
        return hypotheses

    def _next_token(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log probabilities (N, V) of the token that follows each of N texts."""
        longest = max(map(len, texts))
        ids = np.full((len(texts), longest), self.config.pad_token_id)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
        # Padding stands after a text, where the text cannot see it.
        last = [row * longest + len(text) - 1 for row, text in enumerate(texts)]
        device = self.embeddings.word.weight.list_ctx()[0]
        token_ids, positions = (nd.array(values, ctx=device, dtype="int32") for values in (ids, last))
        log_probabilities: np.ndarray = nd.log_softmax(self(token_ids, positions=positions).logits).asnumpy()
        return log_probabilities
