"""Does a lower rate save the runs that fail without Adam's bias correction? As ``stability``, at a third of its rate.

The runs of ``stability`` without correction and without warm-up all failed at a rate of 3e-4. Here the same runs take a
lower one. Each run is kept as it ends, so that a stopped benchmark goes on where it was.

    python -m benchmarks.finetuning.stability_rates --precision bfloat16    # needs D2LBERT_DATA for the real set
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.finetuning.stability import RAW, Setting, read, run, summary
from benchmarks.record import Record, kept
from d2lbert.tasks.table import named_task

DATA, TRAIN, DEV = "sst2", 320, 200  # as in stability


def main() -> None:
    """Run every rate and write ``results/finetuning/stability_rates.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4])
    add_seeds(parser, range(4))
    add_precision(parser)
    add_runs(parser, "finetuning/stability_rates")
    options = parser.parse_args()
    record = Record("finetuning/stability_rates", ["torch", "d2lbert"], options.seeds, data_sets=[DATA])
    train, dev = read(DATA, TRAIN, DEV)
    task = named_task("classification").of_examples(train)
    majority = max(Counter(example.label for example in dev).values()) / len(dev)
    metrics: dict[str, Any] = {}
    for rate in options.rates:
        setting = Setting(replace(RAW, learning_rate=rate))
        settings = {"setting": asdict(setting), "precision": options.precision}
        histories = []
        for seed in options.seeds:

            def work(setting: Setting = setting, seed: int = seed) -> dict[str, Any]:
                return run(setting, seed, options.precision, task, train, dev)

            path = options.runs / f"raw-{rate:g}-{seed}.json"
            histories.append(kept(path, settings, work)["history"])
            print(f"rate {rate:g}, seed {seed}: accuracy {histories[-1][-1]['accuracy']:.3f}", flush=True)
        metrics[f"raw, rate {rate:g}"] = {"rate": rate, **summary(histories, majority)}
    about = {"data": DATA, "examples": {"train": TRAIN, "dev": DEV}}
    record.write(metrics, **about, majority=majority, precision=options.precision)


if __name__ == "__main__":
    main()
