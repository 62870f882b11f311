"""Which layer knows what? Linear probes for parts of speech (Brown) and types of entities (CoNLL-2003), with controls.

For every layer of several BERTs: the share of test words whose label a linear probe finds, and the same for random
labels of words (the control task of Hewitt and Liang 2019). Beside them the most frequent label, and each word's most
frequent label in training. The BERTs: MiniLM as it comes, with random weights, and after fine-tuning on SST-2; and the
checkpoint that comes with the book. Of the fine-tuned one also: how far its vectors have moved, layer by layer.

    python benchmarks/probing.py            # needs D2LBERT_DATA for the real sets
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from record import Record

from d2lbert import UserError, data, get_model
from d2lbert.data.readers.tag_schemes import split_tag
from d2lbert.tasks.classification import Classification
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.probing import control_labels, probe_accuracy, word_vectors
from d2lbert.torch.runtime import PRECISIONS, best_device, seed_everything
from d2lbert.torch.training.finetuning import Training, fine_tune

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


def without_context(train: Words, test: Words) -> dict[str, float]:
    """Return how often the most frequent label is right, and how often each word's most frequent one is."""
    by_word: dict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(*train.asked(), strict=True):
        by_word[word][label] += 1
    common = Counter(train.asked()[1]).most_common(1)[0][0]
    words, labels = test.asked()
    remembered = [by_word[word].most_common(1)[0][0] if word in by_word else common for word in words]
    return {
        "most frequent label": float(np.mean([label == common for label in labels])),
        "most frequent label of the word": float(np.mean(np.array(remembered) == np.array(labels))),
    }


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


def fine_tuned(precision: str) -> tuple[BertModel, WordPiece]:
    """Return MiniLM after one epoch of SST-2."""
    seed_everything(0)
    encoder, tokenizer = get_model("minilm")
    train, dev = data.load("sst2", "train"), data.load("sst2", "dev")
    task = Classification.of(train)
    model = BertForSequenceClassification(encoder, task.labels)
    fine_tune(model, task, tokenizer, train, dev, Training(epochs=1, precision=precision), best_device())
    return encoder.cpu(), tokenizer


def moved(before: np.ndarray, after: np.ndarray) -> list[float]:
    """Return for every layer the mean cosine of the same word's vectors before and after."""
    sizes = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
    return ((before * after).sum(-1) / sizes).mean(-1).tolist()


def models(precision: str) -> dict[str, tuple[BertModel, WordPiece]]:
    """Return the BERTs by name; without our own checkpoint where it is not there."""
    seed_everything(0)
    found = {
        "MiniLM": get_model("minilm"),
        "random weights": get_model("minilm", pretrained=False),
        "fine-tuned on SST-2": fine_tuned(precision),
    }
    try:
        found["d2lbert-tiny"] = get_model("d2lbert-tiny")
    except UserError as error:
        print(error)
    return found


def main() -> None:
    """Probe every model and write ``results/bert/probing.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs=2, default=[8000, 4000], help="of training and test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--precision", default="auto", choices=PRECISIONS, help="of the fine-tuning")
    options = parser.parse_args()
    record = Record("bert/probing", ["torch", "scikit-learn", "d2lbert"], [options.seed])
    all_models = models(options.precision)
    metrics: dict[str, Any] = {}
    for kind, name in SETS.items():
        parts = [
            read(kind, split, count, options.seed) for split, count in zip(("train", "dev"), options.words, strict=True)
        ]
        metrics[kind] = {"data": name, "words": [len(part.asked()[0]) for part in parts]}
        metrics[kind] |= {"without context": without_context(*parts), "layers": {}}
        for title, (model, tokenizer) in all_models.items():
            metrics[kind]["layers"][title] = probe(model, tokenizer, parts)
            print(kind, title, metrics[kind]["layers"][title], flush=True)
        before, after = (vectors(*all_models[title], parts[1]) for title in ("MiniLM", "fine-tuned on SST-2"))
        metrics[kind]["cosine before and after fine-tuning"] = moved(before, after)
    record.write(metrics, sample={name: data.is_sample(name) for name in [*SETS.values(), "sst2"]})


if __name__ == "__main__":
    main()
