"""The value of pretraining: the same network fine-tuned from a checkpoint and from random weights, on three tasks.

SST-2 (accuracy), CoLA (Matthews' correlation), MRPC (F1). Each start gets the learning rate that suits it best, chosen
on a tenth of the training examples that was held out; then every seed is trained anew on the rest and scored on dev.

    python benchmarks/pretraining_value.py --model DIR            # needs D2LBERT_DATA for the real sets
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from record import Record, spread

from d2lbert import data
from d2lbert.tasks.named import named_task
from d2lbert.torch.finetuning import Training, evaluate, fine_tune
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.zoo import get_model

# Data set -> what the command line calls the task, and the score.
TASKS = {"sst2": ("classification", "accuracy"), "cola": ("classification", "matthews"), "mrpc": ("pair", "f1")}
LEARNING_RATES = (1e-4, 3e-4, 1e-3)
EVERY = 10  # one training example of so many is held out for the choice


def run(
    task: Any, model_folder: Path, pretrained: bool, train: list[Any], held_out: list[Any], settings: Training
) -> tuple[Any, Any, float]:
    """Train once; return the model, its tokenizer, and the best score on what was held out."""
    seed_everything(settings.seed)
    encoder, tokenizer = get_model("checkpoint", path=model_folder, pretrained=pretrained)
    model = BertForSequenceClassification(encoder, task.labels)
    history = fine_tune(model, task, tokenizer, train, held_out, settings, best_device(), progress=False)
    return model, tokenizer, max(record[settings.best_by] for record in history)


def measure(name: str, options: argparse.Namespace, pretrained: bool) -> dict[str, Any]:
    """Choose the learning rate of one task and one start, then train and score every seed."""
    kind, score = TASKS[name]
    examples, dev = data.load(name, "train"), data.load(name, "dev")
    train = [example for number, example in enumerate(examples) if number % EVERY]
    held_out, task = examples[::EVERY], named_task(kind).of_examples(examples)
    found: dict[float, float] = {}
    for rate in LEARNING_RATES:
        settings = Training(epochs=options.epochs, learning_rate=rate, seed=options.seeds[0], best_by=score)
        found[rate] = run(task, options.model, pretrained, train, held_out, settings)[2]
    best = max(found, key=lambda rate: found[rate])
    scores = []
    for seed in options.seeds:
        settings = Training(epochs=options.epochs, learning_rate=best, seed=seed, best_by=score)
        model, tokenizer, _ = run(task, options.model, pretrained, train, held_out, settings)
        scores.append(evaluate(model, task, tokenizer, dev, device=best_device())[0][score])
    print(name, "pretrained" if pretrained else "random", best, scores, flush=True)
    return {"score": score, "learning_rate": best, "choice": found, "dev": spread(scores), "examples": len(dev)}


def main() -> None:
    """Measure all and write ``results/pretraining/value.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    options = parser.parse_args()
    record = Record("pretraining/value", ["torch", "d2lbert", "scikit-learn"], options.seeds)
    metrics = {
        name: {start: measure(name, options, start == "pretrained") for start in ("random", "pretrained")}
        for name in options.tasks
    }
    record.write(
        metrics, model=options.model.name, epochs=options.epochs, sample={name: data.is_sample(name) for name in TASKS}
    )


if __name__ == "__main__":
    main()
