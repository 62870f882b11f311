"""MiniLM, fine-tuned on SST-2, and what can be removed from it: shared by the benchmarks of pruning.

The examples that chose the adapter's epoch (a tenth of the training set) make every choice here, too. The importance of
heads and neurons is taken from others of the training set. The dev set chooses nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from benchmarks.int8_sides import in_pytorch
from benchmarks.labels import compared, labels_of
from benchmarks.plans import PLANS, read
from d2lbert import get_model, notebook
from d2lbert.tasks.classification import Classification
from d2lbert.torch.compression import (
    head_importance,
    most_important,
    neuron_importance,
    normalize_per_layer,
    prune_encoder,
    prune_smallest,
)
from d2lbert.torch.heads import BertForSequenceClassification

PARTS = ("train", "choice", "dev")
HALF_OF_HEADS = 36  # of 72
NEURONS_LEFT = (0.75, 0.5, 0.25)  # of each layer
WEIGHED_ON = 1000  # training examples that give the importance
MAX_LENGTH = 128  # tokens

Change = Callable[[BertForSequenceClassification], None]


class Whole:
    """The whole model, its examples, and how a pruned one is compared with it.

    Args:
        size: examples of each part, to try a script out; all by default.
    """

    def __init__(self, size: int | None = None) -> None:
        self.model, self.tokenizer = get_model("minilm", "sst2")
        self.task = Classification(self.model.labels)
        self.parts = {name: part[:size] for name, part in zip(PARTS, read("sst2", PLANS["sst2"]), strict=True)}
        self._exact: dict[str, np.ndarray] = {}

    @cached_property
    def heads(self) -> list[Tensor]:
        """The importance of the heads."""
        return head_importance(self.model, self.task, self.tokenizer, self.parts["train"][:WEIGHED_ON], MAX_LENGTH)

    @cached_property
    def neurons(self) -> list[Tensor]:
        """The importance of the neurons."""
        return neuron_importance(self.model, self.task, self.tokenizer, self.parts["train"][:WEIGHED_ON], MAX_LENGTH)

    @property
    def orders(self) -> dict[str, list[Tensor]]:
        """The ways to compare heads of different layers."""
        return {"as it is": self.heads, "layer by layer": normalize_per_layer(self.heads)}

    def after(self, change: Change) -> BertForSequenceClassification:
        """Return a copy of the model after a change."""
        model = copy.deepcopy(self.model)
        change(model)
        return model

    def encodings(self, part: str) -> list[Any]:
        """Return the tokens of the texts of a part."""
        return self.tokenizer.encode_batch([example.text for example in self.parts[part]], max_length=MAX_LENGTH)

    def score(self, model: BertForSequenceClassification, part: str) -> dict[str, float]:
        """Return the accuracy of a model on a part, and its difference to that of the whole model."""
        if part not in self._exact:
            self._exact[part] = self._labels(self.model, part)
        truth = np.array([self.model.labels.index(example.label) for example in self.parts[part]])
        return compared(self._labels(model, part), self._exact[part], truth)

    def notes(self) -> dict[str, Any]:
        """Return what a result says about the examples."""
        return {
            "data": "sst2",
            "examples": {name: len(part) for name, part in self.parts.items()},
            "weighed_on": min(WEIGHED_ON, len(self.parts["train"])),
        }

    def _labels(self, model: BertForSequenceClassification, part: str) -> np.ndarray:
        return labels_of(in_pytorch(model.eval()), self.encodings(part))


def zeros(share: float, together: bool) -> Change:
    """Set a share of the weights to zero."""
    return lambda model: prune_smallest(model, share, together)


def without(heads: list[list[int]] | None = None, neurons: list[list[int]] | None = None) -> Change:
    """Keep some heads and neurons alone."""

    def change(model: BertForSequenceClassification) -> None:
        model.bert = prune_encoder(model.bert, heads, neurons)

    return change


def in_each_layer(importance: Sequence[Tensor], share: float) -> list[list[int]]:
    """Return the indices of the most important parts, the same share of each layer."""
    return [most_important([own], round(share * len(own)))[0] for own in importance]


def smaller_models(whole: Whole) -> dict[str, Change]:
    """Return the models that are timed and trained further, by what is gone.

    How weights are ranked and heads are compared is what ``compression/pruning`` has chosen.
    """
    choices = notebook.results("compression/pruning")["metrics"]
    half_of_heads = most_important(whole.orders[choices["heads"]["compared"]], HALF_OF_HEADS)
    together = choices["weights"]["ranked"] == "all together"
    return {
        "nothing": zeros(0.0, together),
        "90% of the weights": zeros(0.9, together),
        "half of heads and neurons": without(half_of_heads, in_each_layer(whole.neurons, 0.5)),
        "half of the heads": without(half_of_heads),
        **{
            f"{1 - left:.0%} of the neurons": without(None, in_each_layer(whole.neurons, left)) for left in NEURONS_LEFT
        },
        **{f"{share:.0%} of the weights": zeros(share, together) for share in (0.5, 0.7, 0.8)},
    }
