"""Choose settings of finetune_tasks.py: learning rates and epochs, by the examples that choose, never by those scored.

python benchmarks/finetune_sweep.py --tasks mrpc --rates 5e-5 1e-4 2e-4 --seeds 0 1     # needs D2LBERT_DATA
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from finetune_tasks import PLANS, train
from record import ROOT, Record, kept, spread

from d2lbert.torch.runtime import PRECISIONS


def kept_or_trained(name: str, rate: float, epochs: int, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the best epoch of a run on the examples that choose; read it where an earlier call has kept it."""
    plan = dataclasses.replace(PLANS[name], learning_rate=rate, epochs=epochs)

    def best_epoch() -> dict[str, float]:
        return max(train(name, plan, seed, options.precision)[3], key=lambda record: record[plan.score])

    settings = {"plan": dataclasses.asdict(plan), "precision": options.precision}
    found: dict[str, Any] = kept(options.runs / f"{name}-{rate}-{epochs}-{seed}.json", settings, best_epoch)
    return found


def main() -> None:
    """Try every setting and write ``results/finetuning/sweep.json``; what it holds of other sets stays."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", required=True, choices=list(PLANS))
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-5, 1e-4, 2e-4])
    parser.add_argument("--epochs", type=int, nargs="+", default=[4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--precision", default="auto", choices=PRECISIONS)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "finetune_sweep", help="where runs are kept")
    options = parser.parse_args()
    record = Record("finetuning/sweep", ["torch", "d2lbert"], options.seeds)
    before = json.loads(record.path.read_text(encoding="utf-8"))["metrics"] if record.path.is_file() else {}
    for name in options.tasks:
        found = {}
        for rate in options.rates:
            for epochs in options.epochs:
                runs = [kept_or_trained(name, rate, epochs, seed, options) for seed in options.seeds]
                found[f"rate {rate}, {epochs} epochs"] = spread([run[PLANS[name].score] for run in runs])
        before[name] = {"score": PLANS[name].score, "tried": found}
        print(name, {setting: one["values"] for setting, one in found.items()}, flush=True)
    record.write(before, precision=options.precision)


if __name__ == "__main__":
    main()
