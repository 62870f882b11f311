"""Does a lower rate save the runs that fail without Adam's bias correction? As ``stability``, with other rates.

The runs of ``stability`` without correction all failed at one rate. Here the same loop, without correction and without
warm-up, takes lower rates, and the corrected one takes them beside it. Each run is kept as it ends, so that a stopped
benchmark goes on where it was.

    python -m benchmarks.finetuning.stability_rates --precision bfloat16    # needs D2LBERT_DATA for the real set
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.finetuning.stability import CORRECTED, RAW, Setting, read, run, summary
from benchmarks.record import Record, kept
from d2lbert import data
from d2lbert.tasks.table import named_task

DATA, TRAIN, DEV = "sst2", 320, 200  # as in stability


def main() -> None:
    """Run every rate, without and with correction, and write ``results/finetuning/stability_rates.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4, 3e-5])
    add_seeds(parser, range(5))
    add_precision(parser)
    add_runs(parser, "finetuning/stability_rates")
    options = parser.parse_args()
    record = Record("finetuning/stability_rates", ["torch", "d2lbert"], options.seeds)
    train, dev = read(DATA, TRAIN, DEV)
    task = named_task("classification").of_examples(train)
    majority = max(Counter(example.label for example in dev).values()) / len(dev)
    metrics: dict[str, Any] = {}
    for rate in options.rates:
        for name, training in (("raw", RAW), ("bias correction", CORRECTED)):
            setting = Setting(replace(training, learning_rate=rate))
            histories = []
            for seed in options.seeds:
                settings = {"setting": asdict(setting), "precision": options.precision}
                path = options.runs / f"{name.replace(' ', '-')}-{rate:g}-{seed}.json"

                def work(setting: Setting = setting, seed: int = seed) -> dict[str, Any]:
                    return run(setting, seed, options.precision, task, train, dev)

                histories.append(kept(path, settings, work)["history"])
                print(f"{name}, rate {rate:g}, seed {seed}: accuracy {histories[-1][-1]['accuracy']:.3f}", flush=True)
            metrics[f"{name}, rate {rate:g}"] = {"rate": rate, **summary(histories, majority)}
    about = {"data": DATA, "sample": data.is_sample(DATA), "examples": {"train": TRAIN, "dev": DEV}}
    record.write(metrics, **about, majority=majority, precision=options.precision)


if __name__ == "__main__":
    main()
