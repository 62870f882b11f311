"""Heads: small networks that turn an encoder's vectors into logits. The encoder knows no task.

Shape legend: B rows of a batch, L length of a row, N texts, D hidden size, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from mxnet.gluon import nn

from d2lbert.mxnet.attention import Tensor
from d2lbert.mxnet.bert import BertModel
from d2lbert.mxnet.blocks import Block
from d2lbert.mxnet.encoder import initialize
from d2lbert.mxnet.folder import load_named, named_arrays
from d2lbert.outputs import Rows
from d2lbert.weights.heads import (
    CHOICE_LABELS,
    SPAN_LABELS,
    HeadInFolder,
    check_head,
    check_head_is_named,
    named_head,
    read_null_threshold,
)


class BertWithHead(HeadInFolder, Block):
    """What the heads share: an encoder, dropout, one dense layer, and folders that both editions read.

    ``hybridize()`` makes graphs of the encoder's parts; what joins them stays Python.

    Args:
        bert: the encoder, pretrained or not.
        labels: the names of the C outputs, in the order of the logits.
    """

    bert: BertModel

    def __init__(self, bert: BertModel, labels: Sequence[str]) -> None:
        super().__init__()
        self.bert = bert
        self.labels = tuple(labels)
        self.dropout = nn.Dropout(bert.config.hidden_dropout_prob)
        self.classifier = nn.Dense(len(self.labels), flatten=False, in_units=bert.config.hidden_size)
        initialize(self.classifier, bert.config.initializer_range)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load a folder that :meth:`save_pretrained` of either edition or ``transformers`` has written.

        A folder of low-rank adapters is loaded with its encoder, and the adapters are merged into it.

        Raises:
            UserError: ``config.json`` names another head or has damaged label names, a damaged threshold or length, or
                the weights have no head, do not fit, or are those of a relative of BERT, which this edition does not
                have.
        """
        from d2lbert.weights.adapters import is_adapter_folder
        from d2lbert.weights.folder import CONFIG_FILE
        from d2lbert.zoo.folders import locate

        path = locate(folder)
        model = cls._with_adapters(path) if is_adapter_folder(path) else cls._whole(path)
        model.read_fields(path / CONFIG_FILE)
        return model

    @classmethod
    def _whole(cls, path: Path) -> Self:
        """Return the encoder and the head of a model folder."""
        from d2lbert.weights.folder import CONFIG_FILE, read_tensors
        from d2lbert.weights.header import read_header

        config = BertModel.config_class.from_json(path / CONFIG_FILE)
        BertModel.check_file(read_header(path), config, path)
        tensors = read_tensors(path)
        model = cls(BertModel(config), cls.read_labels(path / CONFIG_FILE, tensors))
        for name, array in model._optional_tensors().items():
            tensors.setdefault(name, array)
        model.bert.load_tensors(tensors, path)
        load_named(model, model.head_names(), tensors, path)
        return model

    @classmethod
    def _with_adapters(cls, path: Path) -> Self:
        """Return the encoder of a folder of adapters with these merged into it, and the folder's head."""
        from d2lbert.weights.adapters import merge_into, read_adapters
        from d2lbert.weights.folder import CONFIG_FILE

        content = read_adapters(path)
        encoder = BertModel.from_pretrained(content.base)
        model = cls(encoder, cls.read_labels(path / CONFIG_FILE, content.tensors))
        load_named(model, model.head_names(), content.tensors, path)
        encoder.load_tensors(merge_into(encoder.tensors(), content, path), path)
        return model

    def logits_of(self, vectors: Tensor) -> Tensor:
        """Return logits (..., C) of the vectors (..., D) that the head reads: pooled ones, or those of tokens."""
        return self.classifier(self.dropout(vectors))

    def head_names(self) -> dict[str, str]:
        """Return the table from our names of the head's parameters to those in a file."""
        return {f"classifier.{kind}": f"{self.layer_name}.{kind}" for kind in ("weight", "bias")}

    def head_arrays(self) -> dict[str, np.ndarray]:
        return named_arrays(self, self.head_names())


class _BertWithPooledHead(BertWithHead):
    """A head on the pooled vector of each text."""

    def forward(
        self, token_ids: Tensor | Rows[Tensor], segment_ids: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Return logits (N, C). The arguments are those of :meth:`BertModel.forward`; rows may be packed."""
        return self.logits_of(self.bert.forward_pooled(token_ids, segment_ids, mask))  # (N, D) -> (N, C)


class BertForSequenceClassification(_BertWithPooledHead):
    """BERT with dropout and one dense layer on the pooled vector (Devlin et al. 2019, section 4.1).

    Args:
        bert: the encoder, pretrained or not.
        labels: the names of the C labels, in the order of the logits. A single name makes it a regression, in all
            editions and in ``transformers``: the one output is a number.
    """

    def _more_fields(self) -> dict[str, object]:
        return {"problem_type": "regression"} if len(self.labels) == 1 else {}


class _BertWithTokenHead(BertWithHead):
    """A head on every token. It needs no pooler, and ``transformers`` saves none."""

    uses_pooler = False

    def forward(
        self, token_ids: Tensor | Rows[Tensor], segment_ids: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Return logits (B, L, C). The arguments are those of :meth:`BertModel.forward`; rows may be packed."""
        return self.logits_of(self.bert(token_ids, segment_ids, mask).sequence)  # (B, L, D) -> (B, L, C)


class BertForTokenClassification(_BertWithTokenHead):
    """BERT with dropout and one dense layer on the vector of every token (Devlin et al. 2019, section 5.3).

    Args:
        bert: the encoder, pretrained or not.
        labels: the names of the C labels of a token, in the order of the logits.
    """


class BertForQuestionAnswering(_BertWithTokenHead):
    """BERT with one dense layer on the vector of every token: two logits, for an answer's first and last token.

    There is no dropout before the layer, as in the released code (Devlin et al. 2019, section 4.2).

    Args:
        bert: the encoder, pretrained or not.
        labels: the names of the two logits.

    Attributes:
        null_threshold: of :class:`d2lbert.tasks.question_answering.QuestionAnswering`; kept in ``config.json``.
    """

    layer_name = "qa_outputs"

    def __init__(self, bert: BertModel, labels: Sequence[str] = SPAN_LABELS) -> None:
        super().__init__(bert, labels)
        self.dropout = nn.Dropout(0.0)
        self.null_threshold: float | None = None

    @classmethod
    def read_labels(cls, path: Path, tensors: Mapping[str, np.ndarray]) -> list[str]:
        check_head(path, cls.__name__)
        return list(SPAN_LABELS)

    def _more_fields(self) -> dict[str, object]:
        return {"null_threshold": self.null_threshold}

    def read_fields(self, path: Path) -> None:
        super().read_fields(path)
        self.null_threshold = read_null_threshold(path)


class BertForMultipleChoice(_BertWithPooledHead):
    """BERT with dropout and one score for each text, from its pooled vector (Devlin et al. 2019, section 4.4).

    A text is a premise with one of its choices. The loss, not the model, knows which texts belong together.

    Args:
        bert: the encoder, pretrained or not.
        labels: the name of the one output.
    """

    def __init__(self, bert: BertModel, labels: Sequence[str] = CHOICE_LABELS) -> None:
        super().__init__(bert, labels)

    @classmethod
    def read_labels(cls, path: Path, tensors: Mapping[str, np.ndarray]) -> list[str]:
        check_head_is_named(path, cls.__name__)
        return list(CHOICE_LABELS)


# What follows the encoder's name in ``architectures`` of a ``config.json`` -> the head's class.
HEADS: dict[str, type[BertWithHead]] = {
    "ForSequenceClassification": BertForSequenceClassification,
    "ForTokenClassification": BertForTokenClassification,
    "ForQuestionAnswering": BertForQuestionAnswering,
    "ForMultipleChoice": BertForMultipleChoice,
}


def head_class(path: Path) -> type[BertWithHead]:
    """Return the class of the head that a ``config.json`` names.

    Raises:
        UserError: it names none, or another.
    """
    return HEADS[named_head(path)]
