"""Heads: small networks that turn an encoder's vectors into logits. The encoder knows no task.

Shape legend: B rows of a batch, N texts, D hidden size, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from d2lbert import weights
from d2lbert.config import BertConfig, read_json
from d2lbert.errors import UserError
from d2lbert.torch.bert import BertModel
from d2lbert.torch.transformer import initialize
from d2lbert.zoo import locate


class BertForSequenceClassification(nn.Module):
    """BERT with dropout and one linear layer on the pooled vector (Devlin et al. 2019, section 4.1).

    Args:
        bert: the encoder, pretrained or not.
        labels: the names of the C labels, in the order of the logits.
    """

    def __init__(self, bert: BertModel, labels: Sequence[str]) -> None:
        super().__init__()
        self.bert = bert
        self.labels = tuple(labels)
        self.dropout = nn.Dropout(bert.config.hidden_dropout_prob)
        self.classifier = nn.Linear(bert.config.hidden_size, len(self.labels))
        initialize(self.classifier, bert.config.initializer_range)

    def forward(
        self,
        token_ids: Tensor,
        segment_ids: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        starts: Tensor | None = None,
    ) -> Tensor:
        """Return logits (N, C). Arguments are those of :meth:`BertModel.forward`; packed rows are welcome."""
        pooled = self.bert.forward_pooled(
            token_ids, segment_ids, mask, position_ids=position_ids, sequence_ids=sequence_ids, starts=starts
        )
        return self.classifier(self.dropout(pooled))

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> BertForSequenceClassification:
        """Load a folder that :meth:`save_pretrained` or ``transformers`` has written.

        Raises:
            UserError: no label names in ``config.json``, no head in the weights, or they do not fit.
        """
        path = locate(folder)
        config = BertConfig.from_json(path / weights.CONFIG_FILE)
        labels = _read_labels(path / weights.CONFIG_FILE)
        tensors = weights.read_tensors(path)
        model = cls(BertModel(config), labels)
        model.bert.load_tensors(tensors, path)
        names = {"weight": "classifier.weight", "bias": "classifier.bias"}
        shapes = {name: tuple(value.shape) for name, value in model.classifier.state_dict().items()}
        head = weights.select(tensors, names, shapes, path)
        model.classifier.load_state_dict({name: torch.from_numpy(array) for name, array in head.items()})
        return model.eval()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that ``transformers.BertForSequenceClassification`` loads."""
        tensors: dict[str, np.ndarray] = {f"bert.{name}": array for name, array in self.bert.tensors().items()}
        for name, value in self.classifier.state_dict().items():
            tensors[f"classifier.{name}"] = value.detach().float().cpu().numpy()
        fields = {
            "architectures": ["BertForSequenceClassification"],
            "id2label": {str(index): label for index, label in enumerate(self.labels)},
            "label2id": {label: index for index, label in enumerate(self.labels)},
        }
        weights.write_folder(folder, self.bert.config, tensors, fields)


def _read_labels(path: Path) -> list[str]:
    """Return the label names of a ``config.json``, in the order of the logits."""
    names = read_json(path).get("id2label")
    if not isinstance(names, dict) or sorted(names, key=str) != sorted(map(str, range(len(names)))):
        raise UserError(f"{path} names no labels (id2label): the model has no classification head; fine-tune it first")
    return [str(names[str(index)]) for index in range(len(names))]
