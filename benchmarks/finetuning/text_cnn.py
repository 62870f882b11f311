"""Convolutions over GloVe's word vectors on sets of questions, reviews and news, beside MiniLM and counted words.

Splits are those of ``benchmarks/plans.py``; the epoch is chosen as there. The settings are the defaults of
:class:`~d2lbert.torch.compression.CnnClassifier`, Kim's of 2014 but for the vectors (he had 300 numbers a word,
from 100 billion words) and the optimizer; nothing was tuned. Each run is kept as it ends.

    python -m benchmarks.finetuning.text_cnn    # needs D2LBERT_DATA for the real sets; ten minutes
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.command_line import add_runs, add_seeds, command_line
from benchmarks.plans import PLANS, read
from benchmarks.record import Record, kept, spread
from d2lbert.config.training import Training
from d2lbert.data.glove import glove
from d2lbert.tasks.classification import Classification
from d2lbert.torch.compression import CnnClassifier, word_tokenizer
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.evaluation import evaluate
from d2lbert.torch.training.finetuning import fine_tune

SETS = ("trec", "trec_fine", "sst2", "agnews")
WORDS = 50_000  # of GloVe, the most frequent first
SETTINGS = {"epochs": 10, "batch_size": 32, "learning_rate": 1e-3, "max_length": 128, "precision": "float32"}


def run(name: str, seed: int) -> dict[str, Any]:
    """Train on one set with one seed; return the scores and how the epochs went."""
    train, choice, scored = read(name, PLANS[name])
    task = Classification.of([*train, *choice])
    words, matrix = glove()
    tokenizer, vectors = word_tokenizer(words[:WORDS], matrix[:WORDS])
    seed_everything(seed)
    model = CnnClassifier(vectors, task.labels)
    settings = Training(seed=seed, packed=False, best_by="accuracy", **SETTINGS)
    history = fine_tune(model, task, tokenizer, train, choice, settings, best_device(), progress=False)
    scores, _ = evaluate(model, task, tokenizer, scored, device=best_device())
    return {"scores": scores, "history": list(history), "examples": {"train": len(train), "scored": len(scored)}}


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the scores of a set over seeds, and of how many texts."""
    runs = [
        kept(options.runs / f"{name}-{seed}.json", SETTINGS | {"words": WORDS}, lambda seed=seed: run(name, seed))
        for seed in options.seeds
    ]
    scores = {key: spread([one["scores"][key] for one in runs]) for key in ("accuracy", "f1_macro")}
    print(name, scores["accuracy"]["values"], flush=True)
    return {**scores, "examples": runs[0]["examples"], "histories": [one["history"] for one in runs]}


def main() -> None:
    """Train, score, and write ``results/finetuning/text_cnn.json``."""
    parser = command_line(__doc__)
    add_seeds(parser, [0, 1, 2])
    add_runs(parser, "finetuning/text_cnn")
    options = parser.parse_args()
    record = Record("finetuning/text_cnn", ["torch", "d2lbert"], options.seeds, data_sets=list(SETS))
    record.write({name: measure(name, options) for name in SETS}, settings=SETTINGS, words=WORDS)


if __name__ == "__main__":
    main()
