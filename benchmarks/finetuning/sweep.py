"""Choose settings of ``benchmarks/plans.py`` by the examples that choose, never by those scored.

Tried are learning rates, epochs, and what the encoder is fine-tuned on before ("nothing" for nothing).

    python -m benchmarks.finetuning.sweep --tasks mrpc --rates 5e-5 1e-4 2e-4 --seeds 0 1    # needs D2LBERT_DATA
    python -m benchmarks.finetuning.sweep --tasks mrpc --first nothing mnli_dev_matched
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
from typing import Any

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.plans import PLANS, Plan, train
from benchmarks.record import Record, kept, spread

NOTHING = "nothing"


def kept_or_trained(name: str, plan: Plan, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the best epoch of a run on the examples that choose; read it where an earlier call has kept it."""

    def best_epoch() -> dict[str, float]:
        return max(train(name, plan, seed, options.precision)[3], key=lambda record: record[plan.score])

    settings = {"plan": dataclasses.asdict(plan), "precision": options.precision}
    file = f"{name}-{plan.learning_rate}-{plan.epochs}-{plan.first or NOTHING}-{seed}.json"
    found: dict[str, Any] = kept(options.runs / file, settings, best_epoch)
    return found


def main() -> None:
    """Try every setting and write ``results/finetuning/sweep.json``; what it holds of other sets and settings stays."""
    parser = command_line(__doc__)
    parser.add_argument("--tasks", nargs="+", required=True, choices=list(PLANS))
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-5, 1e-4, 2e-4])
    parser.add_argument("--epochs", type=int, nargs="+", default=[4])
    parser.add_argument("--first", nargs="+", help="sets of pairs to fine-tune on before; default the plan's")
    add_seeds(parser, [0, 1])
    add_precision(parser)
    add_runs(parser, "finetuning/sweep")
    options = parser.parse_args()
    record = Record("finetuning/sweep", ["torch", "d2lbert"], options.seeds, data_sets=options.tasks)
    before = json.loads(record.path.read_text(encoding="utf-8"))["metrics"] if record.path.is_file() else {}
    for name in options.tasks:
        found = {}
        for rate, epochs, first in itertools.product(
            options.rates, options.epochs, options.first or [PLANS[name].first]
        ):
            first = first if first != NOTHING else ""
            plan = dataclasses.replace(PLANS[name], learning_rate=rate, epochs=epochs, first=first)
            runs = [kept_or_trained(name, plan, seed, options) for seed in options.seeds]
            found[f"rate {rate}, {epochs} epochs, {first or NOTHING} before"] = spread(
                [run[plan.score] for run in runs]
            )
        tried = before.get(name, {}).get("tried", {}) | found
        before[name] = {"score": PLANS[name].score, "tried": tried}
        print(name, {setting: one["values"] for setting, one in found.items()}, flush=True)
    record.write(before, precision=options.precision)


if __name__ == "__main__":
    main()
