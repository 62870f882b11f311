"""A part of speech for every word: tags that stand each for itself, without beginnings and ends of spans."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from d2lbert import metrics
from d2lbert.data.examples import TaggedSentence
from d2lbert.data.readers.universal_tags import UNIVERSAL_TAGS
from d2lbert.errors import UserError
from d2lbert.tasks.base import Input, label_indices
from d2lbert.tasks.tagging import Tagging, tags_of


class PartsOfSpeech(Tagging):
    """Tag words with one of ``labels`` each; their order is the order of the logits.

    Inputs, targets and loss are those of :class:`~d2lbert.tasks.tagging.Tagging`: the first piece of a word carries its
    tag. A word that the tokenizer drops gets the tag ``X`` where there is one, else the first.
    """

    def __init__(self, labels: Iterable[str]) -> None:
        self.labels = tuple(labels)
        if len(set(self.labels)) < 2:
            raise UserError(f"tagging needs two tags, but there are only {self.labels}: check the tag column")
        self.outside = "X" if "X" in self.labels else self.labels[0]

    @classmethod
    def of(cls, examples: Sequence[TaggedSentence]) -> PartsOfSpeech:
        """Return the task whose tags are those of the examples, in alphabetical order."""
        return cls(sorted({tag for example in examples for tag in example.tags or ()}))

    def score(
        self, examples: Sequence[TaggedSentence], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return accuracy, macro F1 and Matthews' correlation over all words.

        Raises:
            UserError: a sentence has no tags, or scikit-learn is not installed.
        """
        tags, _ = self.likeliest(examples, inputs, outputs)
        gold = [tag for example in examples for tag in tags_of(example)]
        found = [tag for sentence in tags for tag in sentence]
        return metrics.classification(label_indices(self.labels, gold), label_indices(self.labels, found))

    def predictions(
        self, examples: Sequence[TaggedSentence], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return the tag of every word and its probability."""
        tags, probabilities = self.likeliest(examples, inputs, outputs)
        return [{"tags": found, "probabilities": sure} for found, sure in zip(tags, probabilities, strict=True)]


def tagging_with(labels: Iterable[str]) -> Tagging:
    """Return the task of a model's tags: parts of speech where all of them are universal ones, else entities."""
    labels = tuple(labels)
    return PartsOfSpeech(labels) if are_parts_of_speech(labels) else Tagging(labels)


def tagging_of(examples: Sequence[TaggedSentence]) -> Tagging:
    """Return the task of the examples' tags: parts of speech where all of them are universal ones, else entities."""
    tags = {tag for example in examples for tag in example.tags or ()}
    return PartsOfSpeech.of(examples) if are_parts_of_speech(tags) else Tagging.of(examples)


def are_parts_of_speech(tags: Collection[str]) -> bool:
    """Whether there are tags and all of them are universal parts of speech, none of which is a tag of entities."""
    return bool(tags) and set(tags) <= set(UNIVERSAL_TAGS)
