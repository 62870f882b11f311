"""GPT (Radford et al. 2018, 2019): a Transformer that sees only what stands before, and so can write.

The sizes, the order of the layers and the weights are those of GPT-2: pre-LN blocks with a last LayerNorm, learned
positions, GELU by the tanh formula, and the word embeddings once more as the output layer. A block of GPT is a block of
the encoder with a causal mask; the decoder of 2017 without its attention to a source is the same thing.

Shape legend: B rows of a batch, L length of a row, T tokens read before, D hidden size, H heads, V vocabulary,
P positions at which a token is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.config.gpt import GptConfig, Sampling
from d2lbert.errors import UserError
from d2lbert.outputs import GptOutput, Hypothesis, Rows
from d2lbert.torch.attention import KeyValueCache, causal_mask, same_sequence
from d2lbert.torch.encoder import Embedding, TransformerEncoder, initialize
from d2lbert.torch.folder import HuggingFaceFolder, shapes_of, to_arrays
from d2lbert.torch.generation import sample

if TYPE_CHECKING:
    from d2lbert.text import WordPiece
    from d2lbert.weights.header import TensorInfo


@dataclass
class GptState:
    """Where writing stands.

    Fields:
        caches: keys and values of the T tokens read so far, one for each block.
        mask: (B, T), False for padding.
        last: (B,), the last token of each prompt, which the first step is given.
    """

    caches: list[KeyValueCache]
    mask: Tensor
    last: Tensor

    def select(self, rows: Tensor) -> None:
        """Keep some rows of the batch, in a new order; a row may come more than once."""
        for cache in self.caches:
            cache.select(rows)
        self.mask, self.last = self.mask.index_select(0, rows), self.last.index_select(0, rows)


class GptEmbeddings(nn.Module):
    """The sum of word and position embeddings, then dropout. BERT has segments and LayerNorm here as well."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.word = Embedding(config.vocab_size, config.n_embd)
        self.position = nn.Embedding(config.n_positions, config.n_embd)
        self.dropout = nn.Dropout(config.embd_pdrop)

    def forward(self, token_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D)."""
        return self.dropout(self.word(token_ids) + self.position(position_ids))


class Gpt(HuggingFaceFolder):
    """From the tokens of a text to scores of the token that follows each.

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
        for name, parameter in self.named_parameters():
            if name.endswith(("attention.output.weight", "feed_forward.project.weight")):
                nn.init.normal_(parameter, std=config.initializer_range / math.sqrt(2 * config.n_layer))

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
            token_ids: (B, L), integers below V; or all tensors of a batch, which may be packed, as
                :class:`~d2lbert.outputs.Rows`.
            mask: (B, L), 1 for a token and 0 for padding; all 1 by default.
            positions: (P,) row times L plus column of each token whose successor is predicted; all by default.

        Raises:
            UserError: a row is longer than the position embeddings, or (on a CPU) an id is not below V.
        """
        rows = Rows.of(token_ids, mask=mask)
        length, device = rows.token_ids.shape[1], rows.token_ids.device
        position_ids = rows.position_ids
        if position_ids is None:
            self._check_length(length)
            position_ids = torch.arange(length, device=device).unsqueeze(0)  # (1, L)
        sees = causal_mask(length, device)  # (1, L, L)
        if rows.sequence_ids is not None:
            sees = sees & same_sequence(rows.sequence_ids)  # (B, L, L)
        x = self.embeddings(rows.token_ids, position_ids)  # (B, L, D)
        encoded = self.encoder(x, _keep(sees, rows.mask), output_hidden_states, output_attentions)
        states = encoded.sequence if positions is None else encoded.sequence.flatten(0, 1)[positions]  # (P, D)
        return GptOutput(self._score(states), encoded.sequence, encoded.hidden_states, encoded.attentions)

    def objectives(self, rows: Rows[Tensor], positions: Tensor) -> dict[str, Tensor]:
        """Return the logits (P, V) of the one pretraining objective, the next token."""
        return {"next_token": self(rows, positions=positions).logits}

    def start(self, source_ids: Tensor, source_mask: Tensor | None = None) -> GptState:
        """Read prompts (B, L) but for their last tokens, and return the state from which :meth:`step` goes on.

        Args:
            source_mask: (B, L), 1 = keep. Prompts of unequal length are padded on the left, so that all end together.

        Raises:
            UserError: a prompt is empty, or padded on the right.
        """
        mask = torch.ones_like(source_ids, dtype=torch.bool) if source_mask is None else source_mask.bool()
        if not source_ids.shape[1] or not mask[:, -1].all():
            raise UserError("a prompt must end in a token: give at least one, and put padding on the left")
        nothing = self.embeddings.word.weight.new_zeros(len(source_ids), 0, self.config.n_embd)
        state = GptState(self.encoder.start(nothing), mask[:, :0], source_ids[:, -1])
        self._read(source_ids[:, :-1], mask[:, :-1], state)
        return state

    def step(self, token_ids: Tensor, state: GptState) -> Tensor:
        """Return scores (B, V) of the token that follows ``token_ids`` (B,), the last known; ``state`` moves on."""
        tokens = token_ids.unsqueeze(1)  # (B, 1)
        return self._score(self._read(tokens, torch.ones_like(tokens, dtype=torch.bool), state)[:, 0])

    def _read(self, token_ids: Tensor, mask: Tensor, state: GptState) -> Tensor:
        """Read L more tokens of every row, and return their last hidden states (B, L, D)."""
        state.mask = torch.cat([state.mask, mask], dim=1)  # (B, T + L)
        length, end = token_ids.shape[1], state.mask.shape[1]
        self._check_length(int(state.mask.sum(dim=1).max()) if end else 0)
        positions = (state.mask.cumsum(dim=1) - 1).clamp(min=0)[:, end - length :]  # counted without padding
        sees = causal_mask(end, token_ids.device)[:, end - length :]  # (1, L, T + L)
        x = self.embeddings(token_ids, positions)
        return self.encoder.extend(x, _keep(sees, state.mask), state.caches)  # (B, L, D)

    def _score(self, states: Tensor) -> Tensor:
        """Map last hidden states (..., D) to scores of every token (..., V)."""
        return functional.linear(states, self.embeddings.word.weight)

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

        parameters = from_hugging_face(tensors, shapes_of(self.state_dict()), self.config.n_layer, origin)
        self.load_state_dict(
            {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in parameters.items()}
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under the names of ``transformers.GPT2LMHeadModel``."""
        from d2lbert.weights.gpt import to_hugging_face

        return to_hugging_face(to_arrays(self.state_dict()), self.config.n_layer)

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
        ids, mask = _pad_left(prompts, self.config.pad_token_id)
        device = self.embeddings.word.weight.device
        return sample(self, ids.to(device), mask.to(device), max_length, sampling or Sampling(temperature=0))


def continue_texts(
    model: Gpt, tokenizer: WordPiece, texts: Sequence[str], max_length: int = 64, sampling: Sampling | None = None
) -> list[str]:
    """Return a continuation of each text, by a GPT that was trained with this tokenizer.

    Arguments are those of :meth:`Gpt.generate`. A text may be empty: then the model writes one from its beginning.
    """
    end = model.config.eos_token_id  # a tokenizer of BERT ends every text with it
    prompts = [[index for index in encoding.ids if index != end] for encoding in tokenizer.encode_batch(texts)]
    return [tokenizer.decode(hypothesis.ids) for hypothesis in model.generate(prompts, max_length, sampling)]


def _pad_left(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Return ids and mask, each (B, L), with padding before the shorter prompts."""
    longest = max(map(len, prompts), default=0)
    ids = torch.full((len(prompts), longest), pad_id)
    mask = torch.zeros(len(prompts), longest, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt, dtype=torch.long)
        mask[row, longest - len(prompt) :] = True
    return ids, mask


def _keep(sees: Tensor, mask: Tensor | None) -> Tensor:
    """Take padding (B, T + L) out of what the last L positions see, (B or 1, L, T + L).

    Every position goes on seeing itself, padding too, so that no row of attention is empty.
    """
    if mask is None:
        return sees
    length, end = sees.shape[1:]
    itself = torch.ones(end, end, dtype=torch.bool, device=sees.device).triu().tril()[end - length :]  # the diagonal
    return sees & (mask.bool().unsqueeze(1) | itself)
