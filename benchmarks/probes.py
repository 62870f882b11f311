"""Linear probes of a BERT's layers: which words are asked for, their vectors, and how often a probe finds the label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from d2lbert import data
from d2lbert.data.readers.tag_schemes import split_tag
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.probing import control_labels, probe_accuracy, word_vectors
from d2lbert.torch.runtime import best_device

SETS = {"part of speech": "brown", "entity type": "conll2003"}
LONGEST = 60  # words of a sentence


class Words(NamedTuple):
    """Sentences, and which of their words have a label.

    Fields:
        sentences: the words of each.
        labels: for each sentence a label a word, or None where the word is not asked for.
    """

    sentences: list[tuple[str, ...]]
    labels: list[list[str | None]]

    def asked(self) -> tuple[list[str], list[str]]:
        """Return the words that have a label, and their labels."""
        pairs = [
            (word, label)
            for words, labels in zip(self.sentences, self.labels, strict=True)
            for word, label in zip(words, labels, strict=True)
            if label is not None
        ]
        return [word for word, _ in pairs], [label for _, label in pairs]


def read(kind: str, split: str, words: int, seed: int) -> Words:
    """Return random sentences of a set until so many of their words have a label."""
    examples = [one for one in data.load(SETS[kind], split) if len(one.words) <= LONGEST]
    chosen, labels, found = [], [], 0
    for place in np.random.default_rng(seed).permutation(len(examples)):
        example = examples[place]
        kinds: list[str | None] = list(example.tags)
        if kind == "entity type":
            kinds = [split_tag(tag)[1] if tag != "O" else None for tag in example.tags]
        asked = sum(label is not None for label in kinds)
        if not asked:
            continue
        chosen.append(example.words)
        labels.append(kinds)
        found += asked
        if found >= words:
            break
    return Words(chosen, labels)


def vectors(model: BertModel, tokenizer: WordPiece, part: Words) -> np.ndarray:
    """Return the vectors of the words that have a label: (layers + 1, N, D)."""
    found = word_vectors(model, tokenizer, part.sentences, best_device())
    kept = [array[:, [label is not None for label in labels]] for array, labels in zip(found, part.labels, strict=True)]
    return np.concatenate(kept, axis=1)


def probe(model: BertModel, tokenizer: WordPiece, parts: Sequence[Words]) -> dict[str, list[float]]:
    """Return the accuracy of a probe after every layer, on the labels and on the control's."""
    (train_words, train_labels), (test_words, test_labels) = (part.asked() for part in parts)
    control = control_labels([*train_words, *test_words], train_labels)
    train, test = (vectors(model, tokenizer, part) for part in parts)
    kinds = {
        "accuracy": (train_labels, test_labels),
        "control": ([control[word] for word in train_words], [control[word] for word in test_words]),
    }
    return {
        name: [probe_accuracy((a, labels[0]), (b, labels[1])) for a, b in zip(train, test, strict=True)]
        for name, labels in kinds.items()
    }
