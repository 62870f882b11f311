"""BERT with its two pretraining heads, for masked words and the next sentence (Devlin et al. 2019, section 3.1).

Shape legend: B rows of a batch, L length of a row, D hidden size, V vocabulary, N texts (pairs), P masked tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.config.bert import BertConfig
from d2lbert.outputs import PretrainingOutput, Rows
from d2lbert.torch.bert import BertModel, first_positions
from d2lbert.torch.encoder import ACTIVATIONS, initialize
from d2lbert.torch.folder import HuggingFaceFolder, load_named, named_arrays
from d2lbert.weights.bert import PRETRAINING_FIELDS, PRETRAINING_HEADS, refuse_untied_output, with_decoder_bias

if TYPE_CHECKING:
    from d2lbert.weights.header import TensorInfo


class BertForPretraining(HuggingFaceFolder):
    """BERT with a head for masked words and one for the next sentence.

    The first is a dense layer, the activation, LayerNorm, and the transposed word embeddings with a bias. It is
    computed only at the masked positions, and so is the last block: the other 85 % are not needed.

    Args:
        config: the sizes.
    """

    config_class = BertConfig
    config: BertConfig

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.next_sentence = nn.Linear(config.hidden_size, 2)
        for module in (self.dense, self.norm, self.next_sentence):
            initialize(module, config.initializer_range)

    def forward(
        self,
        token_ids: Tensor | Rows[Tensor],
        segment_ids: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        masked_positions: Tensor | None = None,
    ) -> PretrainingOutput[Tensor]:
        """Return the logits of both heads. Rows may be packed; the first arguments are those of ``BertModel.forward``.

        Args:
            masked_positions: (P,), row times L plus column of each token to predict; all tokens by default.
        """
        rows = Rows.of(token_ids, segment_ids, mask)
        if masked_positions is None:
            output = self.bert(rows)
            return PretrainingOutput(self.token_logits(output.sequence), self.next_sentence(output.pooled))
        positions = torch.cat([masked_positions, first_positions(rows)])  # (P + N,)
        states = self.bert.forward_at(rows, positions)  # (P + N, D)
        masked, first = states.split([len(masked_positions), len(positions) - len(masked_positions)])  # (P, D), (N, D)
        return PretrainingOutput(self.token_logits(masked), self.next_sentence(self.bert.pool(first)))

    def objectives(self, rows: Rows[Tensor], positions: Tensor) -> dict[str, Tensor]:
        """Return the logits of each pretraining objective: (P, V) of the masked tokens, (N, 2) of the pairs."""
        return self(rows, masked_positions=positions).objectives

    def token_logits(self, states: Tensor) -> Tensor:
        """Map hidden states (..., D) to logits over the vocabulary, (..., V)."""
        hidden = self.norm(self.activation(self.dense(states)))
        return functional.linear(hidden, self.bert.embeddings.word.weight, self.decoder_bias)

    @classmethod
    def check_file(cls, header: Mapping[str, TensorInfo], config: BertConfig, origin: Path) -> None:
        """Refuse a file whose header does not fit the configuration, or whose output layer has a matrix of its own."""
        from d2lbert.weights.folder import CONFIG_FILE

        refuse_untied_output(origin / CONFIG_FILE)
        BertModel.check_file(header, config, origin)

    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Load NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""
        self.bert.load_tensors(tensors, origin)
        load_named(self, PRETRAINING_HEADS, with_decoder_bias(tensors), origin)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under Hugging Face's names."""
        encoder = {f"bert.{name}": array for name, array in self.bert.tensors().items()}
        return encoder | named_arrays(self, PRETRAINING_HEADS)

    def folder_fields(self) -> dict[str, Any]:
        """Return the fields of ``config.json`` besides the sizes."""
        return dict(PRETRAINING_FIELDS)

    def save_pretrained(self, folder: str | Path, half: bool = False) -> None:
        """Write a folder that ``transformers.BertForPreTraining`` loads; ``half`` stores numbers in 16 bits."""
        from d2lbert.weights.folder import in_half, write_folder

        tensors = in_half(self.tensors()) if half else self.tensors()
        write_folder(folder, self.config, tensors, self.folder_fields())
