"""Prune MiniLM, fine-tuned on SST-2, train what is left for two more epochs, and score it on dev.

Zeros stay zero. The tenth of the training set that chose the adapter's epoch chooses the epoch here, too; the learning
rate was not tuned. "nothing" is the whole model, trained as much. The choices of ``compression/pruning`` are taken from
its result. The file is written after each model anew. What is finished is kept, and each epoch has a checkpoint: the
same command goes on where it was stopped.

    python -m benchmarks.compression.pruning_retrained --precision bfloat16    # forty minutes on one core
    python -m benchmarks.compression.pruning_retrained --size 60 --runs FOLDER
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.command_line import add_precision, add_runs, command_line
from benchmarks.pruned import MAX_LENGTH, Change, Whole, smaller_models
from benchmarks.record import Record, kept
from d2lbert.config.training import Training
from d2lbert.torch.compression import keep_zeros, sparsity
from d2lbert.torch.training.finetuning import fine_tune


def retrained(whole: Whole, change: Change, settings: Training, checkpoint: Path) -> dict[str, Any]:
    """Return the dev score after a change and some epochs of training."""
    model = whole.after(change)
    keep_zeros(model)
    train, choice = whole.parts["train"], whole.parts["choice"]
    # On a processor the backward pass of the fused attention is slower than the formula.
    with sdpa_kernel(SDPBackend.MATH):
        history = fine_tune(model, whole.task, whole.tokenizer, train, choice, settings, "cpu", False, checkpoint)
    return {**whole.score(model, "dev"), "share_of_zeros": sparsity(model), "history": history}


def kept_or_retrained(whole: Whole, change: Change, settings: Training, path: Path) -> dict[str, Any]:
    """Return what an earlier call has kept in ``path.json``, or train and keep it; ``path`` holds the checkpoint."""
    dependence = {"examples": whole.notes(), "training": asdict(settings)}
    found: dict[str, Any] = kept(
        path.with_name(f"{path.name}.json"), dependence, lambda: retrained(whole, change, settings, path)
    )
    return found


def main() -> None:
    """Train what is not there yet and write ``results/compression/pruning_retrained.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    parser.add_argument("--result", default="compression/pruning_retrained", help="results/<this>.json")
    add_precision(parser)
    add_runs(parser, "compression/pruning_retrained")
    options = parser.parse_args()
    settings = Training(
        epochs=2, learning_rate=5e-5, best_by="accuracy", precision=options.precision, max_length=MAX_LENGTH
    )
    record = Record(options.result, ["torch", "d2lbert"], [settings.seed], data_sets=["sst2"], size=options.size)
    torch.set_num_threads(1)
    whole = Whole(options.size)
    metrics: dict[str, Any] = {}
    for name, change in smaller_models(whole).items():
        path = options.runs / name.replace("%", " percent").replace(" ", "-")
        metrics[name] = kept_or_retrained(whole, change, settings, path)
        print(name, {key: value for key, value in metrics[name].items() if key != "history"}, flush=True)
        record.write({"removed": metrics}, training=asdict(settings), **whole.notes())


if __name__ == "__main__":
    main()
