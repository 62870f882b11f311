"""Adapters of ranks 1 and 8 at three learning rates, on a few sentences: is a rank too small, or does its rate not fit?

The chapter on adapters trains for 75 steps on 200 sentences of SST-2, and rank 1 hardly learns there. Here the same
short training is repeated at a third of the rate and at three times the rate. What counts is the training loss of each
epoch: whether anything is learned at all. A seed draws the sentences and starts the adapters. Each run is kept.

    python -m benchmarks.finetuning.adapter_rates    # needs D2LBERT_DATA for the real set; six minutes on one core
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.command_line import add_runs, add_seeds, command_line
from benchmarks.record import Record, kept, spread
from d2lbert import data, get_model
from d2lbert.config.adapters import AdapterConfig
from d2lbert.config.training import Training
from d2lbert.data import Sentence
from d2lbert.tasks.classification import Classification
from d2lbert.torch.adapters import add_adapters
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.finetuning import fine_tune

TRAIN = 200  # sentences, as in the chapter
RANKS = (1, 8)
RATES = (7e-4, 2e-3, 6e-3)  # the second is the chapter's


def run(rank: int, settings: Training, pool: list[Sentence]) -> list[float]:
    """Train adapters of one rank at one rate; return the mean training loss of each epoch."""
    train = [pool[index] for index in np.random.default_rng(settings.seed).permutation(len(pool))[:TRAIN]]
    seed_everything(settings.seed)
    encoder, tokenizer = get_model("minilm")
    task = Classification.of(pool)
    model = BertForSequenceClassification(encoder, task.labels)
    add_adapters(model, AdapterConfig(rank=rank))
    # Nothing is chosen by a score, so a few training sentences may stand for a dev set.
    history = fine_tune(model, task, tokenizer, train, train[:8], settings, best_device(), progress=False)
    return [epoch["loss"] for epoch in history]


def main() -> None:
    """Run every rank at every rate and write ``results/finetuning/adapter_rates.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    add_seeds(parser)
    add_runs(parser, "finetuning/adapter_rates")
    options = parser.parse_args()
    record = Record("finetuning/adapter_rates", ["torch", "d2lbert"], options.seeds, data_sets=["sst2"])
    pool = data.load("sst2", "train")
    metrics: dict[str, dict[str, Any]] = {f"rank {rank}": {} for rank in RANKS}
    for seed in options.seeds:
        for rank in RANKS:
            for rate in options.rates:
                settings = Training(3, batch_size=8, learning_rate=rate, max_length=80, seed=seed, best_by="epoch")

                def work(rank: int = rank, settings: Training = settings) -> list[float]:
                    return run(rank, settings, pool)

                path = options.runs / f"rank-{rank}-{rate:g}-{seed}.json"
                losses = kept(path, {"training": asdict(settings), "rank": rank, "train": TRAIN}, work)
                metrics[f"rank {rank}"].setdefault(f"{rate:g}", []).append(losses)
                print(f"rank {rank}, rate {rate:g}, seed {seed}: {losses}", flush=True)
    shown = {
        rank: {rate: {"losses": runs, "last loss": spread([one[-1] for one in runs])} for rate, runs in by_rate.items()}
        for rank, by_rate in metrics.items()
    }
    record.write(shown, train=TRAIN, guess=math.log(2))


if __name__ == "__main__":
    main()
