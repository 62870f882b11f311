"""BERT with its two pretraining heads, for masked words and the next sentence (Devlin et al. 2019, section 3.1).

Shape legend: B rows of a batch, L length of a row, D hidden size, V vocabulary, N texts (pairs), P masked tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from mxnet import nd
from mxnet.gluon import nn

from d2lbert.config.bert import BertConfig
from d2lbert.mxnet.attention import Tensor
from d2lbert.mxnet.bert import BertModel, first_positions
from d2lbert.mxnet.encoder import ACTIVATIONS, initialize
from d2lbert.mxnet.folder import HuggingFaceFolder, load_named, named_arrays
from d2lbert.outputs import PretrainingOutput, Rows

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
        self.dense = nn.Dense(config.hidden_size, flatten=False, in_units=config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.norm = nn.LayerNorm(epsilon=config.layer_norm_eps, in_channels=config.hidden_size)
        self.decoder_bias = self.params.get("decoder_bias", shape=(config.vocab_size,), init="zeros")
        self.next_sentence = nn.Dense(2, flatten=False, in_units=config.hidden_size)
        for module in (self.dense, self.norm, self.next_sentence):
            initialize(module, config.initializer_range)
        self.decoder_bias.initialize()

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
        firsts = first_positions(rows)  # (N,)
        positions = nd.concat(masked_positions.astype("int32"), firsts, dim=0)  # (P + N,)
        states = self.bert.forward_at(rows, positions)  # (P + N, D)
        masked, first = states[: -len(firsts)], states[-len(firsts) :]  # (P, D), (N, D)
        return PretrainingOutput(self.token_logits(masked), self.next_sentence(self.bert.pool(first)))

    def objectives(self, rows: Rows[Tensor], positions: Tensor) -> dict[str, Tensor]:
        """Return the logits of each pretraining objective: (P, V) of the masked tokens, (N, 2) of the pairs."""
        return self(rows, masked_positions=positions).objectives

    def token_logits(self, states: Tensor) -> Tensor:
        """Map hidden states (..., D) to logits over the vocabulary, (..., V)."""
        hidden = self.norm(self.activation(self.dense(states)))
        words, bias = self.bert.embeddings.word.weight.data(states.context), self.decoder_bias.data(states.context)
        return nd.FullyConnected(hidden, words, bias, num_hidden=self.config.vocab_size, flatten=False)

    @classmethod
    def check_file(cls, header: Mapping[str, TensorInfo], config: BertConfig, origin: Path) -> None:
        """Refuse a file whose header does not fit the configuration, or whose output layer has a matrix of its own."""
        from d2lbert.weights.bert import refuse_untied_output
        from d2lbert.weights.folder import CONFIG_FILE

        refuse_untied_output(origin / CONFIG_FILE)
        BertModel.check_file(header, config, origin)

    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Take over NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""
        from d2lbert.weights.bert import PRETRAINING_HEADS, with_decoder_bias

        self.bert.load_tensors(tensors, origin)
        load_named(self, PRETRAINING_HEADS, with_decoder_bias(tensors), origin)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under Hugging Face's names."""
        from d2lbert.weights.bert import PRETRAINING_HEADS

        encoder = {f"bert.{name}": array for name, array in self.bert.tensors().items()}
        return encoder | named_arrays(self, PRETRAINING_HEADS)

    def folder_fields(self) -> dict[str, Any]:
        """Return the fields of ``config.json`` besides the sizes."""
        from d2lbert.weights.bert import PRETRAINING_FIELDS

        return dict(PRETRAINING_FIELDS)

    def save_pretrained(self, folder: str | Path, half: bool = False) -> None:
        """Write a folder that ``transformers.BertForPreTraining`` loads; ``half`` stores numbers in 16 bits."""
        from d2lbert.weights.folder import in_half, write_folder

        tensors = in_half(self.tensors()) if half else self.tensors()
        write_folder(folder, self.config, tensors, self.folder_fields())
