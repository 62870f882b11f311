"""Settings for small sets: epochs, batch size and learning rate on 60 to 2,000 examples, for two encoders.

The rule of ``d2lbert.config.training.suited_settings``, from which the command takes what its user leaves out, was
chosen by this: each size of SST-2 (the mood of a sentence) and of TREC's training questions (what kind of answer they
ask for), accuracy on 200 examples that are not trained on. No test set is looked at. A seed draws the examples and
starts the head. Each run is kept as it ends.

    python -m benchmarks.finetuning.small_sets    # needs D2LBERT_DATA for the real sets
    python -m benchmarks.finetuning.small_sets --models d2lbert-tiny --sizes 60 --seeds 0
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.record import Record, kept, spread
from d2lbert import data, get_model
from d2lbert.config.training import Training, suited_settings
from d2lbert.data import Sentence
from d2lbert.data.readers import sentences
from d2lbert.tasks.classification import Classification
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.finetuning import fine_tune

DATA = ("sst2", "trec")
WIDTHS = {"minilm": 384, "d2lbert-tiny": 128}  # of the encoders
DEV = 200  # examples that are scored
DEFAULTS, RULE = "defaults", "rule"


def settings_of(name: str, size: int, model: str) -> Training:
    """Return the settings that a name stands for: ``defaults``, ``rule``, or ``EPOCHSxBATCHxRATE``."""
    if name == DEFAULTS:
        return Training()
    if name == RULE:
        return suited_settings(size, WIDTHS[model])
    epochs, batch, rate = name.split("x")
    return Training(epochs=int(epochs), batch_size=int(batch), learning_rate=float(rate))


def read(name: str) -> tuple[list[Sentence], list[Sentence]]:
    """Return all examples to draw from, and those that are scored."""
    if name == "trec":
        examples = trec()
        return examples[DEV:], examples[:DEV]
    dev = data.load(name, "dev")
    return data.load(name, "train"), [dev[index] for index in np.random.default_rng(0).permutation(len(dev))[:DEV]]


def trec() -> list[Sentence]:
    """Return the training questions of TREC with their six coarse labels (Li and Roth 2002), in a fixed random order.

    Raises:
        UserError: the set is not to be had; its sample is too small to choose by.
    """
    examples = list(sentences.trec(data.fetch("trec") / "qc.zip" / "qc" / "train.txt"))
    return [examples[index] for index in np.random.default_rng(0).permutation(len(examples))]


def run(model: str, name: str, size: int, settings: Training, seed: int) -> dict[str, Any]:
    """Train with one seed; return the history and the share of the commonest label of dev."""
    pool, dev = read(name)
    train = [pool[index] for index in np.random.default_rng(seed).permutation(len(pool))[:size]]
    task = Classification.of(pool)
    seed_everything(seed)
    encoder, tokenizer = get_model(model)
    head = BertForSequenceClassification(encoder, task.labels)
    history = fine_tune(head, task, tokenizer, train, dev, settings, best_device(), progress=False)
    majority = max(Counter(example.label for example in dev).values()) / len(dev)
    return {"history": history, "majority": majority}


def kept_or_run(model: str, name: str, size: int, setting: str, seed: int, options: argparse.Namespace) -> Any:
    """Return what an earlier call has kept of this run, or run it and keep it."""
    settings = settings_of(setting, size, model)
    shape = f"{settings.epochs}x{settings.batch_size}x{settings.learning_rate:g}"
    path = options.runs / f"{model}-{name}-{size}-{shape}-{seed}.json"
    found = kept(path, {"training": asdict(settings)}, lambda: run(model, name, size, settings, seed))
    last = found["history"][-1]
    print(f"{model}, {name}, {size}, {setting} ({shape}), seed {seed}: {last['accuracy']:.3f}", flush=True)
    return found


def summary(runs: list[dict[str, Any]], settings: Training) -> dict[str, Any]:
    """Return the accuracies after the last epoch, and how many runs are no better than the commonest label."""
    last = [one["history"][-1]["accuracy"] for one in runs]
    failed = sum(accuracy <= one["majority"] for accuracy, one in zip(last, runs, strict=True))
    shape = {"epochs": settings.epochs, "batch_size": settings.batch_size, "learning_rate": settings.learning_rate}
    return {"settings": shape, "accuracy": spread(last), "at chance": failed, "majority": runs[0]["majority"]}


def main() -> None:
    """Try every setting and write ``results/finetuning/small_sets.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--models", nargs="+", default=list(WIDTHS), choices=list(WIDTHS))
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--sizes", type=int, nargs="+", default=[60, 200, 600, 2000])
    parser.add_argument("--settings", nargs="+", default=[DEFAULTS, RULE], help="defaults, rule or EPOCHSxBATCHxRATE")
    add_seeds(parser, (0, 1))
    add_precision(parser)
    add_runs(parser, "finetuning/small_sets")
    options = parser.parse_args()
    record = Record(
        "finetuning/small_sets", ["torch", "d2lbert", "scikit-learn"], options.seeds, data_sets=options.data
    )
    metrics: dict[str, Any] = {}
    for model in options.models:
        for name in options.data:
            for size in options.sizes:
                for setting in options.settings:
                    runs = [kept_or_run(model, name, size, setting, seed, options) for seed in options.seeds]
                    by_size = metrics.setdefault(model, {}).setdefault(name, {}).setdefault(str(size), {})
                    by_size[setting] = summary(runs, settings_of(setting, size, model))
    record.write(metrics, dev=DEV)


if __name__ == "__main__":
    main()
