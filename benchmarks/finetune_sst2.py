"""Fine-tune the 6-layer MiniLM on the 6,920 sentences of SST-2, beside a bag of GloVe vectors. Three seeds each.

The bag of vectors is the CBOW baseline of GLUE: the mean of the words' GloVe vectors, then one hidden layer.

    python benchmarks/finetune_sst2.py              # needs D2LBERT_DATA for the real sentences
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from record import Record, spread
from sklearn.neural_network import MLPClassifier

from d2lbert import data
from d2lbert.data.vectors import WordVectors, glove
from d2lbert.tasks.classification import Classification
from d2lbert.text import split_words
from d2lbert.torch.finetuning import Training, fine_tune
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.zoo import get_model


def fine_tuned(task: Classification, train: list[Any], dev: list[Any], settings: Training) -> dict[str, float]:
    """Return the scores of the best epoch, and what the run took."""
    seed_everything(settings.seed)
    encoder, tokenizer = get_model("minilm")
    model = BertForSequenceClassification(encoder, task.labels)
    history = fine_tune(model, task, tokenizer, train, dev, settings, best_device())
    best = max(history, key=lambda record: record["accuracy"])
    return {**best, "training_seconds": sum(record["seconds"] for record in history)}


def mean_vectors(examples: list[Any]) -> np.ndarray:
    """The mean GloVe vector of each text, (N, 50)."""
    vectors = WordVectors(*glove())
    rows = []
    for example in examples:
        known = [vectors[word] for word in split_words(example.text) if word in vectors]
        rows.append(np.mean(known, axis=0) if known else np.zeros(vectors.matrix.shape[1]))
    return np.array(rows)


def bag_of_vectors(task: Classification, train: list[Any], dev: list[Any], seeds: list[int]) -> list[dict[str, float]]:
    """Return the scores of the baseline for each seed."""
    train_x, dev_x = mean_vectors(train), mean_vectors(dev)
    scores = []
    for seed in seeds:
        began = time.perf_counter()
        network = MLPClassifier((256,), activation="tanh", early_stopping=True, random_state=seed)
        network.fit(train_x, task.targets(train))
        found = task.metrics(task.targets(dev), network.predict_proba(dev_x))
        scores.append({**found, "training_seconds": time.perf_counter() - began})
    return scores


def main() -> None:
    """Measure both and write ``results/finetuning/sst2.json``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=Training.epochs)
    arguments = parser.parse_args()
    record = Record("finetuning/sst2", ["torch", "d2lbert", "scikit-learn"], arguments.seeds)
    train, dev = data.load("sst2", "train"), data.load("sst2", "dev")
    task = Classification.of(train)
    runs: dict[str, list[dict[str, float]]] = {"fine-tuned": []}
    for seed in arguments.seeds:
        settings = Training(seed=seed, epochs=arguments.epochs)
        runs["fine-tuned"].append(fine_tuned(task, train, dev, settings))
        print(seed, runs["fine-tuned"][-1], flush=True)
    runs["bag of vectors"] = bag_of_vectors(task, train, dev, arguments.seeds)
    metrics = {
        name: {key: spread([run[key] for run in found]) for key in found[0] if key != "epoch"}
        for name, found in runs.items()
    }
    record.write(
        metrics,
        data=f"sst2, {'sample' if data.is_sample('sst2') else 'whole'}: {len(train)} train, {len(dev)} dev",
        settings=vars(Training(epochs=arguments.epochs)),
        paper={"BERT-base, test set, trained on phrases (Devlin et al. 2019, table 1)": 0.935},
    )


if __name__ == "__main__":
    main()
