"""The value of pretraining: the same network fine-tuned from a checkpoint and from random weights, on six sets.

Splits and scores are those of ``benchmarks/plans.py``. Each start gets the learning rate that suits it best, by the
examples that choose the epoch; then every seed is trained with it, and scored on examples that chose nothing. The
pooler always starts anew: pretraining made it tell pairs apart, and what lies nearest to the old task serves a new one
least (Zhang et al. 2021). Each set is kept as it ends, so that a stopped benchmark goes on where it was.

    python -m benchmarks.pretraining.value --model DIR    # needs D2LBERT_DATA for the real sets
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.plans import SENTENCES, read
from benchmarks.record import Record, kept, spread
from d2lbert import get_model
from d2lbert.storage.files import sha256_of
from d2lbert.tasks.table import named_task
from d2lbert.torch.encoder import initialize
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.evaluation import evaluate
from d2lbert.torch.training.finetuning import Training, fine_tune
from d2lbert.weights.folder import WEIGHTS_FILE

LEARNING_RATES = (3e-4, 1e-3, 2e-3)


def run(
    task: Any, model_folder: Path, pretrained: bool, train: list[Any], held_out: list[Any], settings: Training
) -> tuple[Any, Any, float]:
    """Train once; return the model, its tokenizer, and the best score on what was held out."""
    seed_everything(settings.seed)
    encoder, tokenizer = get_model("checkpoint", path=model_folder, pretrained=pretrained)
    initialize(encoder.pooler, encoder.config.initializer_range)
    model = BertForSequenceClassification(encoder, task.labels)
    history = fine_tune(model, task, tokenizer, train, held_out, settings, best_device(), progress=False)
    return model, tokenizer, max(record[settings.best_by] for record in history)


def measure(name: str, options: argparse.Namespace, pretrained: bool) -> dict[str, Any]:
    """Choose the learning rate of one set and one start, then train and score every seed."""
    plan = SENTENCES[name]
    train, choice, scored = read(name, plan)
    task = named_task(plan.task).of_examples(train)
    settings = Training(epochs=options.epochs, best_by=plan.score, precision=options.precision)
    found: dict[float, float] = {}
    for rate in LEARNING_RATES:
        tried = dataclasses.replace(settings, learning_rate=rate, seed=options.seeds[0])
        found[rate] = run(task, options.model, pretrained, train, choice, tried)[2]
    best = max(found, key=lambda rate: found[rate])
    scores = []
    for seed in options.seeds:
        tried = dataclasses.replace(settings, learning_rate=best, seed=seed)
        model, tokenizer, _ = run(task, options.model, pretrained, train, choice, tried)
        scores.append(evaluate(model, task, tokenizer, scored, device=best_device())[0][plan.score])
    print(name, "pretrained" if pretrained else "random", best, scores, flush=True)
    return {"learning_rate": best, "choice": found, "scores": spread(scores), "examples": len(scored)}


def kept_or_measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what an earlier call has kept of this set, or measure both starts and keep them."""

    def work() -> dict[str, Any]:
        found = {start: measure(name, options, start == "pretrained") for start in ("random", "pretrained")}
        return {"score": SENTENCES[name].score, **found}

    settings = {"weights": sha256_of(options.model / WEIGHTS_FILE), "plan": dataclasses.asdict(SENTENCES[name])}
    settings |= {"rates": LEARNING_RATES, "epochs": options.epochs, "seeds": options.seeds}
    found: dict[str, Any] = kept(options.runs / f"{name}.json", settings | {"precision": options.precision}, work)
    return found


def main() -> None:
    """Measure all and write ``results/pretraining/value.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--model", type=Path, required=True)
    add_seeds(parser)
    parser.add_argument("--epochs", type=int, default=5)
    add_precision(parser)
    parser.add_argument("--sets", nargs="+", default=list(SENTENCES), choices=list(SENTENCES))
    add_runs(parser, "pretraining/value")
    options = parser.parse_args()
    record = Record("pretraining/value", ["torch", "d2lbert", "scikit-learn"], options.seeds, data_sets=options.sets)
    metrics = {name: kept_or_measured(name, options) for name in options.sets}
    record.write(metrics, model=options.model.name, epochs=options.epochs, precision=options.precision)


if __name__ == "__main__":
    main()
