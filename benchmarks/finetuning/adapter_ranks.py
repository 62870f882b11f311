"""Adapters of ranks 1 to 16 on a set of sentences, of pairs and of tags: what does a small rank cost?

Splits, learning rate and epochs are those of ``benchmarks/finetuning/adapters.py`` for every rank, and so is alpha,
which LoRA divides by the rank. Nothing is tuned for a rank. Beside them stands full fine-tuning: the stored seeds of
each set, with the rate and the epochs of its own plan. Each run is kept: the same command goes on where it was stopped.

    python -m benchmarks.finetuning.adapter_ranks    # needs D2LBERT_DATA; 45 runs of about five minutes on one core
    python -m benchmarks.finetuning.adapter_ranks --ranks 2 8 --add    # these ranks beside those of the stored result
"""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import asdict
from typing import Any

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.finetuning.adapters import EPOCHS, RATE, parts_of, plan_of, settings_of, train
from benchmarks.record import Record, kept, spread
from d2lbert import notebook
from d2lbert.config.adapters import AdapterConfig

RANKS = (1, 2, 4, 8, 16)
SETS = ("sst2", "sick", "wnut17")
RESULT = "finetuning/adapter_ranks"


def kept_or_train(name: str, rank: int, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return what an earlier call has kept of this run, or train and keep it."""
    settings = dataclasses.replace(settings_of(name, options.precision), seed=seed)
    adapter = AdapterConfig(rank=rank)
    out = options.runs / f"{name}-{rank}-{seed}"
    found: dict[str, Any] = kept(
        out.with_suffix(".json"),
        {"training": asdict(settings), "adapter": asdict(adapter), "size": options.size},
        lambda: train(name, [part[: options.size] for part in parts_of(name)], settings, out, adapter),
    )
    print(f"{name}, rank {rank}, seed {seed}: {found['scores']}", flush=True)
    return found


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return, for each rank on one set, the scores over the seeds; and those of full fine-tuning."""
    score, ranks = plan_of(name).score, {}
    for rank in options.ranks:
        runs = [kept_or_train(name, rank, seed, options) for seed in options.seeds]
        ranks[str(rank)] = {
            "score": spread([run["scores"][score] for run in runs]),
            "last loss": spread([run["history"][-1]["loss"] for run in runs]),
            "numbers": runs[0]["numbers"],
        }
    stored = notebook.results(f"finetuning/{name}")
    full = {"score": stored["metrics"][score], "epochs": stored["plan"]["epochs"]}
    return {"name of the score": score, "examples": runs[0]["examples"], "ranks": ranks, "full": full}


def add_stored(metrics: dict[str, Any], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Add the ranks of the stored result to those that were measured; return which calls had measured them.

    Raises:
        SystemExit: they were measured with other settings.
    """
    stored = notebook.results(RESULT)
    other = [name for name, value in settings.items() if stored[name] != value]
    other += [
        f"choice of {name}"
        for name, found in metrics.items()
        if stored["metrics"][name]["examples"] != found["examples"]
    ]
    if other:
        raise SystemExit(f"the stored ranks have another {', '.join(other)}: measure all ranks again, without --add")
    for name, found in metrics.items():
        ranks = stored["metrics"][name]["ranks"] | found["ranks"]
        found["ranks"] = {rank: ranks[rank] for rank in sorted(ranks, key=int)}
    last = {key: stored[key] for key in ("command", "date", "commit", "device")}
    return [*stored.get("earlier", []), last]


def main() -> None:
    """Train what is not there yet and write ``results/finetuning/adapter_ranks.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    parser.add_argument("--add", action="store_true", help="keep the ranks of the stored result, and add these")
    add_seeds(parser)
    add_precision(parser)
    add_runs(parser, "finetuning/adapter_ranks")
    options = parser.parse_args()
    packages = ["torch", "d2lbert", "scikit-learn", "scipy"]
    record = Record(RESULT, packages, options.seeds, data_sets=options.sets, size=options.size)
    metrics = {name: measure(name, options) for name in options.sets}
    epochs = {name: EPOCHS[name] for name in options.sets}
    settings = {"learning_rate": RATE, "alpha": AdapterConfig().alpha, "epochs": epochs, "precision": options.precision}
    if options.add:
        settings["earlier"] = add_stored(metrics, settings | {"seeds": options.seeds})
    record.write(metrics, **settings)


if __name__ == "__main__":
    main()
