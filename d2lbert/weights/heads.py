"""A head in a model folder: what ``config.json`` says of it, and the names of its weights. No framework is needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from d2lbert.config.bert import BertConfig
from d2lbert.errors import UserError
from d2lbert.storage.files import read_json

# The names of the outputs where the task leaves no choice.
SPAN_LABELS = ("start", "end")
CHOICE_LABELS = ("choice",)
# What follows the encoder's name in ``architectures``.
HEADS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")


class HeadInFolder(ABC):
    """What a model with a head says of itself in its folder. The heads of both editions inherit it.

    Fields:
        layer_name: of the dense layer in a file of weights.
        uses_pooler: whether the head reads the pooled vector of a text.
        bert: the encoder.
        labels: the names of the C outputs, in the order of the logits.
        trained_length: the longest input of its training in tokens, kept in ``config.json``; None where it is unknown.
            Where a user names no length, no more is read.
    """

    layer_name: ClassVar[str] = "classifier"
    uses_pooler: ClassVar[bool] = True
    bert: Any
    labels: tuple[str, ...]
    trained_length: int | None = None

    @property
    def config(self) -> BertConfig:
        """The configuration of the encoder."""
        config: BertConfig = self.bert.config
        return config

    @abstractmethod
    def head_arrays(self) -> dict[str, np.ndarray]:
        """Return the parameters of the head, under their names in a file."""

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that both editions load, and the class of the same name in ``transformers``."""
        from d2lbert.weights.folder import write_folder

        encoder = {f"{self.config.model_type}.{name}": array for name, array in self.bert.tensors().items()}
        write_folder(folder, self.config, encoder | self.head_arrays(), self.config_fields())

    def config_fields(self) -> dict[str, Any]:
        """Return the fields of ``config.json`` besides the encoder's sizes."""
        length = {} if self.trained_length is None else {"trained_length": self.trained_length}
        fields = head_fields(self.config.architecture, type(self).__name__, self.labels)
        return {**fields, **length, **self._more_fields()}

    @classmethod
    def read_labels(cls, path: Path, tensors: Mapping[str, np.ndarray]) -> list[str]:
        """Return the label names in a ``config.json``, in the order of the logits.

        Args:
            path: of the ``config.json``.
            tensors: of the file of weights; the head's layer tells how many labels there are, if they have no names.
        """
        return read_label_names(path, cls.__name__, tensors.get(f"{cls.layer_name}.weight"))

    def _optional_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors that a file may lack, with the values to use instead: a pooler that nobody reads."""
        if self.uses_pooler:
            return {}
        return {name: array for name, array in self.bert.tensors().items() if name.startswith("pooler.")}

    def _more_fields(self) -> dict[str, object]:
        """Return more fields of ``config.json``, besides the label names and the length."""
        return {}

    def read_fields(self, path: Path) -> None:
        """Take over the fields of a ``config.json`` that :meth:`config_fields` writes and building the model did not.

        Raises:
            UserError: one is damaged.
        """
        self.trained_length = read_trained_length(path)


def head_of(architecture: str) -> str:
    """Return what follows the encoder's name, such as ``ForTokenClassification``; "" for an encoder without a head."""
    return architecture[architecture.find("For") :] if "For" in architecture else ""


def named_head(path: Path) -> str:
    """Return the head that a ``config.json`` names, one of :data:`HEADS`.

    Raises:
        UserError: it names none, or another.
    """
    names = _architectures(_content(path), path)
    if len(names) != 1 or head_of(names[0]) not in HEADS:
        raise UserError(
            f"{path} names no head that is known here (architectures): name one of Bert{', Bert'.join(HEADS)}"
        )
    return head_of(names[0])


def check_head(path: Path, head: str) -> dict[str, Any]:
    """Return the content of a ``config.json``; refuse one that names another head.

    Args:
        head: the name of a class, such as ``BertForQuestionAnswering``.

    Raises:
        UserError: it names another.
    """
    config = _content(path)
    architecture = (_architectures(config, path) or [head])[0]
    if head_of(architecture) and head_of(architecture) != head_of(head):
        expected = architecture.removesuffix(head_of(architecture)) + head_of(head)
        raise UserError(f"{path} is of {architecture}, not of {expected}: use the task that it was fine-tuned for")
    return config


def check_head_is_named(path: Path, head: str) -> None:
    """Refuse a ``config.json`` that does not name this head of choices: it has no labels that would tell.

    Raises:
        UserError: it names another head, or none.
    """
    architectures = _architectures(check_head(path, head), path) or [""]
    if head_of(architectures[0]) != head_of(head):
        raise UserError(f"{path} is not of a {head}: the model has no head for choices; fine-tune it first")


def read_label_names(path: Path, head: str, layer: np.ndarray | None) -> list[str]:
    """Return the label names in a ``config.json``, in the order of the logits.

    ``transformers`` leaves them out if they are the default ones, LABEL_0 and LABEL_1. Then the size of the layer in
    the file tells how many there are.

    Args:
        head: the name of the head's class.
        layer: the weight of its last layer, (C, D); None where the file has none.

    Raises:
        UserError: the head is another one, there are no names, or damaged ones, or the outputs are not the
            probabilities of one label.
    """
    content = check_head(path, head)
    names = content.get("id2label")
    if names is None:
        if layer is None or layer.ndim != 2:
            raise UserError(
                f"{path} names no labels (id2label): the model has no classification head; fine-tune it first"
            )
        names = {str(index): f"LABEL_{index}" for index in range(len(layer))}
    if not isinstance(names, dict) or set(names) != {str(index) for index in range(len(names))}:
        raise UserError(f"{path}: id2label is no table from the numbers 0, 1, ... to label names: correct it")
    if head_of(head) == "ForSequenceClassification":  # transformers reads the field for this head alone
        _check_problem(path, content.get("problem_type"), len(names))
    return [str(names[str(index)]) for index in range(len(names))]


def _check_problem(path: Path, problem: Any, outputs: int) -> None:
    """Refuse a model that gives a text several labels, or several numbers."""
    known = (
        (None, "single_label_classification", "regression") if outputs == 1 else (None, "single_label_classification")
    )
    if problem not in known:
        raise UserError(
            f"{path}: problem_type is {problem!r} with {outputs} outputs, and d2lbert gives a text one label or one "
            "number; use a model of single_label_classification, or of regression with one output"
        )


def read_null_threshold(path: Path) -> float | None:
    """Return the threshold for "no answer" in a ``config.json``, None where it has none.

    Raises:
        UserError: it is not a number.
    """
    threshold = _content(path).get("null_threshold")
    if not isinstance(threshold, float | int | None):
        raise UserError(f"{path}: null_threshold is {threshold!r}; give a number, or null for none")
    return threshold


def read_trained_length(path: Path) -> int | None:
    """Return the longest input of a model's training in a ``config.json``, in tokens; None where it has none.

    Raises:
        UserError: it is not a number of tokens that an input can have.
    """
    length = _content(path).get("trained_length")
    if length is not None and (type(length) is not int or length < 3):
        raise UserError(f"{path}: trained_length is {length!r}; give a number of tokens, 3 or more, or leave it out")
    return length


def head_fields(encoder: str, head: str, labels: Sequence[str]) -> dict[str, Any]:
    """Return the fields of ``config.json`` that name a head and its labels.

    Args:
        encoder: the name of the encoder's class in ``transformers``, such as ``BertModel``.
        head: the name of the head's class.
    """
    return {
        "architectures": [encoder.removesuffix("Model") + head_of(head)],
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def _content(path: Path) -> dict[str, Any]:
    """Return the content of a ``config.json``; nothing where there is none, as beside the adapters of ``peft``."""
    return read_json(path) if path.is_file() else {}


def _architectures(config: Mapping[str, Any], path: Path) -> list[str]:
    """Return the names of the classes that a ``config.json`` is of, usually one; none where it does not say."""
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{path}: architectures is {names!r}; give a list with one name, or leave it out")
    return names
