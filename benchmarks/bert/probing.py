"""Which layer knows what? Linear probes for parts of speech (Brown) and types of entities (CoNLL-2003), with controls.

For every layer of several BERTs: the share of test words whose label a linear probe finds, and the same for random
labels of words (the control task of Hewitt and Liang 2019). Beside them the most frequent label, and each word's most
frequent label in training. The BERTs: MiniLM as it comes, with random weights, and after fine-tuning on SST-2; and the
checkpoint that comes with the book. Of the fine-tuned one also: how far its vectors have moved, layer by layer.

    python -m benchmarks.bert.probing    # needs D2LBERT_DATA for the real sets
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from benchmarks.command_line import add_precision, command_line
from benchmarks.probes import SETS, Words, probe, read, vectors
from benchmarks.record import Record
from d2lbert import UserError, data, get_model
from d2lbert.tasks.classification import Classification
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.finetuning import Training, fine_tune


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
    parser = command_line(__doc__)
    parser.add_argument("--words", type=int, nargs=2, default=[8000, 4000], help="of training and test")
    parser.add_argument("--seed", type=int, default=0)
    add_precision(parser)
    options = parser.parse_args()
    record = Record(
        "bert/probing", ["torch", "scikit-learn", "d2lbert"], [options.seed], data_sets=[*SETS.values(), "sst2"]
    )
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
    record.write(metrics)


if __name__ == "__main__":
    main()
