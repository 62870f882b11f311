"""BERT with the two heads it is pretrained with (Devlin et al. 2019, section 3.1): masked words and next sentence.

Shape legend: B rows of a batch, L length of a row, D hidden size, V vocabulary, N texts (pairs), P masked tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.config.bert import BertConfig
from d2lbert.data.pretraining.batches import PretrainingBatch
from d2lbert.torch.bert import BertModel, first_places
from d2lbert.torch.encoder import ACTIVATIONS, initialize
from d2lbert.torch.runtime import to_device, to_tensors
from d2lbert.torch.training.losses import mean_cross_entropy
from d2lbert.torch.training.pretraining import Pretrainable
from d2lbert.weights.folder import CONFIG_FILE, read_tensors, select, write_folder
from d2lbert.zoo.folders import locate

# Our name on the left, Hugging Face's on the right. The weight of the decoder is that of the word embeddings.
_HEAD_NAMES = {
    "dense.weight": "cls.predictions.transform.dense.weight",
    "dense.bias": "cls.predictions.transform.dense.bias",
    "norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "decoder_bias": "cls.predictions.bias",
    "next_sentence.weight": "cls.seq_relationship.weight",
    "next_sentence.bias": "cls.seq_relationship.bias",
}
_DECODER_BIAS = "cls.predictions.decoder.bias"  # another name of the same numbers; a file may hold either


@dataclass
class PretrainingOutput:
    """What :class:`BertForPretraining` returns.

    Fields:
        token_logits: (P, V) at the masked positions; (B, L, V) where no positions were given.
        next_logits: (N, 2), for "B follows A" and for "B is of another document".
    """

    token_logits: Tensor
    next_logits: Tensor


@dataclass
class PretrainingLosses:
    """Two losses, each the mean over what it counts, and zero where there is nothing to count.

    Fields:
        masked: cross-entropy of the masked tokens, in nats.
        next_sentence: cross-entropy of the pairs that have a label, in nats.
    """

    masked: Tensor
    next_sentence: Tensor

    @property
    def total(self) -> Tensor:
        """Their sum, which the paper minimises."""
        return self.masked + self.next_sentence


class BertForPretraining(Pretrainable):
    """BERT with a head for masked words and one for the next sentence.

    The first is a dense layer, the activation, LayerNorm, and the transposed word embeddings with a bias. It is
    computed at the masked positions alone, and so is the last block: nobody asks for the other 85 %.

    Args:
        config: the sizes.
    """

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
        token_ids: Tensor,
        segment_ids: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        starts: Tensor | None = None,
        masked_positions: Tensor | None = None,
    ) -> PretrainingOutput:
        """Return the logits of both heads. Packed rows are welcome.

        Args:
            masked_positions: (P,) row times L plus column of each token to predict; all tokens by default.
            The others are those of :meth:`BertModel.forward`.
        """
        rows = {"position_ids": position_ids, "sequence_ids": sequence_ids, "starts": starts}
        if masked_positions is None:
            output = self.bert(token_ids, segment_ids, mask, **rows)
            return PretrainingOutput(self.token_logits(output.sequence), self.next_sentence(output.pooled))
        wanted = torch.cat([masked_positions, first_places(token_ids, starts)])  # (P + N,)
        states = self.bert.forward_at(token_ids, segment_ids, mask, wanted, position_ids, sequence_ids)  # (P + N, D)
        count = len(masked_positions)
        pooled = torch.tanh(self.bert.pooler(states[count:]))  # (N, D)
        return PretrainingOutput(self.token_logits(states[:count]), self.next_sentence(pooled))

    def answer(self, batch: PretrainingBatch) -> dict[str, Tensor]:
        """Return the logits (P, V) of the masked tokens and (N, 2) of the pairs, for the pretraining loop."""
        device = self.decoder_bias.device
        masked = to_device(batch.masked_positions, device)
        output = self(**to_tensors(batch.rows, device), masked_positions=masked)
        return {"masked": output.token_logits, "next_sentence": output.next_logits}

    def token_logits(self, states: Tensor) -> Tensor:
        """Map hidden states (..., D) to scores of every piece (..., V)."""
        hidden = self.norm(self.activation(self.dense(states)))
        return functional.linear(hidden, self.bert.embeddings.word.weight, self.decoder_bias)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> BertForPretraining:
        """Load a folder that :meth:`save_pretrained` or ``transformers.BertForPreTraining`` has written.

        Raises:
            UserError: a file is missing or damaged, the weights have no such heads, or they do not fit.
        """
        path = locate(folder)
        model = cls(BertConfig.from_json(path / CONFIG_FILE))
        model.load_tensors(read_tensors(path), path)
        return model.eval()

    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Take over NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""
        if _DECODER_BIAS in tensors:
            tensors = {_HEAD_NAMES["decoder_bias"]: tensors[_DECODER_BIAS], **tensors}
        self.bert.load_tensors(tensors, origin)
        state = self.state_dict()
        chosen = select(tensors, _HEAD_NAMES, {name: tuple(state[name].shape) for name in _HEAD_NAMES}, origin)
        self.load_state_dict({name: torch.from_numpy(array) for name, array in chosen.items()}, strict=False)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under Hugging Face's names."""
        tensors = {f"bert.{name}": array for name, array in self.bert.tensors().items()}
        state = self.state_dict()
        heads = {theirs: state[ours].detach().float().cpu().numpy() for ours, theirs in _HEAD_NAMES.items()}
        return tensors | heads

    def save_pretrained(self, folder: str | Path, half: bool = False) -> None:
        """Write a folder that ``transformers.BertForPreTraining`` loads; ``half`` stores 16 bits a number."""
        fields = {"architectures": ["BertForPreTraining"], "tie_word_embeddings": True}
        tensors = self.tensors()
        if half:
            tensors = {name: array.astype(np.float16) for name, array in tensors.items()}
        write_folder(folder, self.config, tensors, fields)


def pretraining_losses(output: PretrainingOutput, masked_ids: Tensor, next_labels: Tensor) -> PretrainingLosses:
    """Return both losses.

    Each loss leaves out its own: the first counts masked tokens only, the second pairs with a label. One shared
    "ignore 0" would be wrong for both, for 0 is the label of true pairs.

    Args:
        output: logits (P, V) and (N, 2).
        masked_ids: (P,) the tokens that were there.
        next_labels: (N,) 0, 1, or -100 for a single text.
    """
    return PretrainingLosses(
        mean_cross_entropy(output.token_logits, masked_ids), mean_cross_entropy(output.next_logits, next_labels)
    )
