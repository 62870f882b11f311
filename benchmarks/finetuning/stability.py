"""Which fine-tuning runs fail on a few examples: MiniLM on a small part of SST-2, several settings with many seeds.

BERT's authors restarted runs that failed on small data sets and kept the best (Devlin et al. 2019, section 4.1). The
usual suspects are an Adam without bias correction, no warm-up, and few steps (Mosbach et al. 2021, Zhang et al. 2021).
A seed changes the order, dropout and the head's first weights; the examples are the same in all runs. A run has failed
if its last epoch is no better on dev than the commonest answer. Each run is kept as it ends, so that a stopped
benchmark goes on where it was.

    python -m benchmarks.finetuning.stability    # needs D2LBERT_DATA for the real set
    python -m benchmarks.finetuning.stability --settings raw --seeds 0 1 --precision bfloat16
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.record import Record, kept, spread
from d2lbert import data, get_model
from d2lbert.tasks.base import Task
from d2lbert.tasks.table import named_task
from d2lbert.torch.bert import BertModel
from d2lbert.torch.encoder import initialize
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.finetuning import Training, fine_tune

DATA = {"sst2": "classification", "mrpc": "pair", "rte": "pair"}
RAW = Training(epochs=3, batch_size=16, learning_rate=3e-4, warmup=0.0, bias_correction=False, max_length=96)


@dataclass(frozen=True)
class Setting:
    """One way to fine-tune.

    Fields:
        training: the settings of the loop, but for seed and precision.
        new_blocks: so many top blocks, and the pooler, start from random weights (Zhang et al. 2021, section 5).
    """

    training: Training
    new_blocks: int = 0


CORRECTED = replace(RAW, bias_correction=True)
CURED = replace(CORRECTED, warmup=0.1)
SETTINGS = {
    "raw": Setting(RAW),
    "warm-up": Setting(replace(RAW, warmup=0.1)),
    "bias correction": Setting(CORRECTED),
    "both": Setting(CURED),
    "both, layer-wise decay": Setting(replace(CURED, layer_decay=0.8)),
    "both, new top block": Setting(CURED, new_blocks=1),
    "both, twice as long": Setting(replace(CURED, epochs=2 * RAW.epochs)),
}


def read(name: str, train: int, dev: int) -> tuple[list[Any], list[Any]]:
    """Return the first examples of each split in a fixed random order."""
    found = []
    for split, count in (("train", train), ("dev", dev)):
        examples = list(data.load(name, split))
        np.random.default_rng(0).shuffle(examples)
        found.append(examples[:count])
    return found[0], found[1]


def renew(encoder: BertModel, blocks: int) -> None:
    """Give the top blocks and the pooler new random weights."""
    for module in [*encoder.encoder.blocks[len(encoder.encoder.blocks) - blocks :], encoder.pooler]:
        module.apply(lambda one: initialize(one, encoder.config.initializer_range))


def run(setting: Setting, seed: int, precision: str, task: Task, train: list[Any], dev: list[Any]) -> dict[str, Any]:
    """Train with one seed and return the history."""
    seed_everything(seed)
    encoder, tokenizer = get_model("minilm")
    if setting.new_blocks:
        renew(encoder, setting.new_blocks)
    model = BertForSequenceClassification(encoder, task.labels)
    training = replace(setting.training, seed=seed, precision=precision)
    return {"history": fine_tune(model, task, tokenizer, train, dev, training, best_device(), progress=False)}


def kept_or_run(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return what an earlier call has kept of this run, or run it and keep it."""
    folder = options.runs / f"{options.data}-{options.train}-{options.dev}"
    path = folder / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}.json"

    def work() -> dict[str, Any]:
        train, dev = read(options.data, options.train, options.dev)
        task = named_task(DATA[options.data]).of_examples(train)
        return run(SETTINGS[name], seed, options.precision, task, train, dev)

    settings = {"setting": asdict(SETTINGS[name]), "precision": options.precision}
    found: dict[str, Any] = kept(path, settings, work)
    last = found["history"][-1]
    print(f"{name}, seed {seed}: accuracy {last['accuracy']:.3f}, training loss {last['loss']:.3f}", flush=True)
    return found


def summary(histories: list[list[dict[str, float]]], majority: float) -> dict[str, Any]:
    """Return the accuracies after the last epoch, their spread, and how many are no better than the majority."""
    accuracies = [history[-1]["accuracy"] for history in histories]
    return {
        **spread(accuracies),
        "best": max(accuracies),
        "failed": sum(accuracy <= majority for accuracy in accuracies),
        "training_loss": spread([history[-1]["loss"] for history in histories])["mean"],
    }


def main() -> None:
    """Run every setting and write ``results/finetuning/stability.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--data", default=next(iter(DATA)), choices=list(DATA))
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    add_seeds(parser, range(10))
    parser.add_argument("--train", type=int, default=320, help="training examples")
    parser.add_argument("--dev", type=int, default=200, help="examples to score")
    add_precision(parser)
    add_runs(parser, "finetuning/stability")
    options = parser.parse_args()
    record = Record("finetuning/stability", ["torch", "d2lbert"], options.seeds, data_sets=[options.data])
    train, dev = read(options.data, options.train, options.dev)
    majority = max(Counter(example.label for example in dev).values()) / len(dev)
    metrics = {}
    for name in options.settings:
        histories = [kept_or_run(name, seed, options)["history"] for seed in options.seeds]
        metrics[name] = summary(histories, majority)
        print(f"{name}: {metrics[name]['failed']} of {len(histories)} failed, best {metrics[name]['best']:.3f}")
    record.write(
        metrics,
        data=options.data,
        model="minilm",
        examples={"train": len(train), "dev": len(dev)},
        majority=majority,
        precision=options.precision,
        settings={name: asdict(SETTINGS[name]) for name in options.settings},
    )


if __name__ == "__main__":
    main()
