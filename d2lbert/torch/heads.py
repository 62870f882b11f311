"""Heads: small networks that turn an encoder's vectors into logits. The encoder knows no task.

Shape legend: B rows of a batch, L length of a row, N texts, D hidden size, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from d2lbert import weights
from d2lbert.config import BertConfig, read_json
from d2lbert.errors import UserError
from d2lbert.tasks.multiple_choice import MultipleChoice
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.torch.bert import BertModel
from d2lbert.torch.transformer import initialize
from d2lbert.zoo import locate


class _BertWithHead(nn.Module):
    """What the heads share: an encoder, dropout, one linear layer, and folders that ``transformers`` reads.

    Args:
        bert: the encoder, pretrained or not.
        labels: the names of the C outputs, in the order of the logits.
    """

    layer_name: ClassVar[str] = "classifier"  # of the linear layer in a file

    def __init__(self, bert: BertModel, labels: Sequence[str]) -> None:
        super().__init__()
        self.bert = bert
        self.labels = tuple(labels)
        self.dropout: nn.Module = nn.Dropout(bert.config.hidden_dropout_prob)
        self.classifier = nn.Linear(bert.config.hidden_size, len(self.labels))
        initialize(self.classifier, bert.config.initializer_range)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load a folder that :meth:`save_pretrained` or ``transformers`` has written.

        Raises:
            UserError: no label names in ``config.json``, another head, none in the weights, or they do not fit.
        """
        path = locate(folder)
        config = BertConfig.from_json(path / weights.CONFIG_FILE)
        labels = cls._read_labels(path / weights.CONFIG_FILE)
        tensors = weights.read_tensors(path)
        model = cls(BertModel(config), labels)
        for name, array in model._optional_tensors().items():
            tensors.setdefault(name, array)
        model.bert.load_tensors(tensors, path)
        names = {name: f"{cls.layer_name}.{name}" for name in ("weight", "bias")}
        shapes = {name: tuple(value.shape) for name, value in model.classifier.state_dict().items()}
        head = weights.select(tensors, names, shapes, path)
        model.classifier.load_state_dict({name: torch.from_numpy(array) for name, array in head.items()})
        return model.eval()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that the class of the same name in ``transformers`` loads.

        Raises:
            UserError: the encoder is another than BERT's, such as ALBERT's.
        """
        if self.bert.config.model_type != "bert":
            raise UserError(f"a head on an {self.bert.config.architecture} has no folder: save the encoder alone")
        tensors: dict[str, np.ndarray] = {f"bert.{name}": array for name, array in self.bert.tensors().items()}
        for name, value in self.classifier.state_dict().items():
            tensors[f"{self.layer_name}.{name}"] = value.detach().float().cpu().numpy()
        fields = {
            "architectures": [type(self).__name__],
            "id2label": {str(index): label for index, label in enumerate(self.labels)},
            "label2id": {label: index for index, label in enumerate(self.labels)},
        }
        weights.write_folder(folder, self.bert.config, tensors, {**fields, **self._more_fields()})

    @classmethod
    def _read_labels(cls, path: Path) -> list[str]:
        """Return the label names of a ``config.json``, in the order of the logits."""
        names = _check_head(path, cls.__name__).get("id2label")
        if not isinstance(names, dict) or sorted(names, key=str) != sorted(map(str, range(len(names))), key=str):
            raise UserError(
                f"{path} names no labels (id2label): the model has no classification head; fine-tune it first"
            )
        return [str(names[str(index)]) for index in range(len(names))]

    def _optional_tensors(self) -> dict[str, np.ndarray]:
        """Return tensors that a file may lack, with the values to take then."""
        return {}

    def _more_fields(self) -> dict[str, object]:
        """Return fields of ``config.json`` beside the label names."""
        return {}


class _BertWithPooledHead(_BertWithHead):
    """A head on the pooled vector of each text."""

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


class BertForSequenceClassification(_BertWithPooledHead):
    """BERT with dropout and one linear layer on the pooled vector (Devlin et al. 2019, section 4.1).

    Args:
        bert: the encoder, pretrained or not.
        labels: the names of the C labels, in the order of the logits. One name alone makes a regression: the one
            output is a number, and ``transformers`` takes it for one as well.
    """

    def _more_fields(self) -> dict[str, object]:
        return {"problem_type": "regression"} if len(self.labels) == 1 else {}


class _BertWithTokenHead(_BertWithHead):
    """A head on every token. It needs no pooler, and ``transformers`` saves none."""

    def _optional_tensors(self) -> dict[str, np.ndarray]:
        return {name: array for name, array in self.bert.tensors().items() if name.startswith("pooler.")}

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
        """Return logits (B, L, C). Arguments are those of :meth:`BertModel.forward`; packed rows are welcome."""
        encoded = self.bert(
            token_ids, segment_ids, mask, position_ids=position_ids, sequence_ids=sequence_ids, starts=starts
        )
        return self.classifier(self.dropout(encoded.sequence))


class BertForTokenClassification(_BertWithTokenHead):
    """BERT with dropout and one linear layer on the vector of every token (Devlin et al. 2019, section 5.3).

    Args:
        bert: the encoder, pretrained or not.
        labels: the names of the C labels of a token, in the order of the logits.
    """


class BertForQuestionAnswering(_BertWithTokenHead):
    """BERT with one linear layer on the vector of every token: two logits, for an answer's first and last token.

    There is no dropout before the layer, as in the released code (Devlin et al. 2019, section 4.2).

    Args:
        bert: the encoder, pretrained or not.
        labels: the names of the two logits.

    Attributes:
        null_threshold: of :class:`d2lbert.tasks.question_answering.QuestionAnswering`; kept in ``config.json``.
    """

    layer_name = "qa_outputs"

    def __init__(self, bert: BertModel, labels: Sequence[str] = QuestionAnswering.labels) -> None:
        super().__init__(bert, labels)
        self.dropout = nn.Identity()
        self.null_threshold: float | None = None

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load a folder that :meth:`save_pretrained` or ``transformers`` has written.

        Raises:
            UserError: as for the other heads, or ``null_threshold`` is no number.
        """
        model, path = super().from_pretrained(folder), locate(folder) / weights.CONFIG_FILE
        threshold = read_json(path).get("null_threshold")
        if not isinstance(threshold, float | int | None):
            raise UserError(f"{path}: null_threshold is {threshold!r}; give a number, or null for none")
        model.null_threshold = threshold
        return model

    @classmethod
    def _read_labels(cls, path: Path) -> list[str]:
        _check_head(path, cls.__name__)
        return list(QuestionAnswering.labels)

    def _more_fields(self) -> dict[str, object]:
        return {"null_threshold": self.null_threshold}


class BertForMultipleChoice(_BertWithPooledHead):
    """BERT with dropout and one number for each text, on its pooled vector (Devlin et al. 2019, section 4.4).

    A text is a premise with one of its choices. Which texts belong together the loss knows, not the model: in
    ``transformers`` they are a dimension of the input, here they follow each other, and a question may have any number.

    Args:
        bert: the encoder, pretrained or not.
        labels: the name of the one output.
    """

    def __init__(self, bert: BertModel, labels: Sequence[str] = MultipleChoice.labels) -> None:
        super().__init__(bert, labels)

    @classmethod
    def _read_labels(cls, path: Path) -> list[str]:
        if cls.__name__ not in (_check_head(path, cls.__name__).get("architectures") or []):
            raise UserError(f"{path} is not of a {cls.__name__}: the model has no head for choices; fine-tune it first")
        return list(MultipleChoice.labels)


def _check_head(path: Path, head: str) -> dict[str, Any]:
    """Return the content of a ``config.json``; refuse one that names another head."""
    config = read_json(path)
    found = config.get("architectures") or [head]
    if found[0].startswith("BertFor") and found[0] != head:
        raise UserError(f"{path} is of a {found[0]}, not of a {head}: use the task that it was fine-tuned for")
    return config
