"""Prune MiniLM, fine-tuned on SST-2, without training it further: accuracy against what is left.

Single weights become zero, the smallest first; heads and neurons are removed, the least important first, and in random
orders. A tenth of the training set chooses how weights are ranked, and whether the importance of heads is compared
layer by layer. Each model is scored once on dev, against the labels of the whole model. What is finished is kept: the
same command goes on where it was stopped.

    python -m benchmarks.compression.pruning    # needs D2LBERT_DATA for the real set; ten minutes on one core
    python -m benchmarks.compression.pruning --size 60 --runs FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.command_line import add_runs, add_seeds, command_line
from benchmarks.pruned import HALF_OF_HEADS, NEURONS_LEFT, Change, Whole, in_each_layer, without, zeros
from benchmarks.record import Record, kept
from d2lbert.torch.compression import most_important

SHARES = tuple(round(0.1 * tenth, 1) for tenth in range(10))  # of weights that are zero
HEADS_LEFT = (60, 48, HALF_OF_HEADS, 24, 12, 6)


class Scores:
    """Scores pruned models, and keeps each score.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.whole, self.runs, self.settings = Whole(options.size), options.runs, {"size": options.size}

    def dev(self, name: str, change: Change) -> dict[str, Any]:
        """Return the dev score after a change."""
        found: dict[str, Any] = kept(
            self.runs / f"{name}.json", self.settings, lambda: self.whole.score(self.whole.after(change), "dev")
        )
        print(name, found, flush=True)
        return found

    def choice(self, name: str, changes: Sequence[Change]) -> float:
        """Return the mean accuracy after each of some changes, on the examples that choose."""

        def work() -> float:
            scores = [self.whole.score(self.whole.after(change), "choice") for change in changes]
            return float(np.mean([score["accuracy"] for score in scores]))

        return float(kept(self.runs / f"choice-{name}.json", self.settings, work))


def random_order(importance: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Return numbers that say nothing, in place of an importance."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(len(own), generator=generator) for own in importance]


def with_random(importance: list[Tensor], seeds: Sequence[int]) -> dict[str, list[Tensor]]:
    """Return an order by importance and random ones, by name."""
    return {"importance": importance} | {f"random-{seed}": random_order(importance, seed) for seed in seeds}


def weights(scores: Scores) -> dict[str, Any]:
    """Prune single weights."""
    tried = {
        name: scores.choice(name.replace(" ", "-"), [zeros(share, together) for share in SHARES[1:]])
        for name, together in (("each matrix", False), ("all together", True))
    }
    together = tried["all together"] > tried["each matrix"]
    return {
        "ranked": "all together" if together else "each matrix",
        "accuracy_on_choice": tried,
        "dev": {str(share): scores.dev(f"zeros-{share}", zeros(share, together)) for share in SHARES},
    }


def heads(scores: Scores, seeds: Sequence[int]) -> dict[str, Any]:
    """Remove heads; return the importance, too."""
    orders = scores.whole.orders
    tried = {
        name: scores.choice(
            f"heads-{name}".replace(" ", "-"), [without(most_important(order, left)) for left in HEADS_LEFT]
        )
        for name, order in orders.items()
    }
    best = max(tried, key=lambda name: tried[name])
    return {
        "compared": best,
        "accuracy_on_choice": tried,
        "importance": [own.tolist() for own in scores.whole.heads],
        "dev": {
            name: {
                str(left): scores.dev(f"heads-{name}-{left}", without(most_important(order, left)))
                for left in HEADS_LEFT
            }
            for name, order in with_random(orders[best], seeds).items()
        },
    }


def neurons(scores: Scores, seeds: Sequence[int]) -> dict[str, Any]:
    """Remove the same share of neurons from each layer."""
    return {
        "dev": {
            name: {
                str(left): scores.dev(f"neurons-{name}-{left}", without(neurons=in_each_layer(order, left)))
                for left in NEURONS_LEFT
            }
            for name, order in with_random(scores.whole.neurons, seeds).items()
        }
    }


def both(scores: Scores, order: Sequence[Tensor]) -> dict[str, Any]:
    """Remove half of the heads and half of the neurons."""
    change = without(most_important(order, HALF_OF_HEADS), in_each_layer(scores.whole.neurons, 0.5))
    return {"dev": scores.dev("both", change)}


def main() -> None:
    """Prune, score, and write ``results/compression/pruning.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    parser.add_argument("--result", default="compression/pruning", help="results/<this>.json")
    add_seeds(parser)
    add_runs(parser, "compression/pruning")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert"], options.seeds, data_sets=["sst2"], size=options.size)
    torch.set_num_threads(1)
    scores = Scores(options)
    metrics = {
        "weights": weights(scores),
        "heads": heads(scores, options.seeds),
        "neurons": neurons(scores, options.seeds),
    }
    metrics["half of heads and neurons"] = both(scores, scores.whole.orders[metrics["heads"]["compared"]])
    record.write(metrics, **scores.whole.notes())


if __name__ == "__main__":
    main()
