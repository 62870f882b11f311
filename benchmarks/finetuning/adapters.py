"""Low-rank adapters of the 6-layer MiniLM: one for each of six tasks, beside full fine-tuning, and what they cost.

The splits are those of full fine-tuning (``benchmarks/plans.py``, ``benchmarks/questions.py``): training examples that
are set aside choose the epoch, and what is reported was not looked at before. Rank, alpha and learning rate are the
same for all sets and were not tuned; epochs are at most those of full fine-tuning. Each adapter is written in float16,
loaded from its file, merged, and then scored. What is finished is kept: the same command goes on where it was stopped.

    python -m benchmarks.finetuning.adapters    # needs D2LBERT_DATA; an hour and a half on one core
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.command_line import add_precision, add_runs, command_line
from benchmarks.finetuning.question_answering import without_dropout
from benchmarks.plans import PLANS, Plan, read
from benchmarks.questions import DATA_SETS, read_parts
from benchmarks.record import Record, kept
from d2lbert import get_model, notebook
from d2lbert.config.adapters import AdapterConfig
from d2lbert.config.training import Training
from d2lbert.tasks.base import Task
from d2lbert.tasks.table import named_task
from d2lbert.torch import heads
from d2lbert.torch.adapters import add_adapters, save_adapters
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.evaluation import evaluate
from d2lbert.torch.training.finetuning import fine_tune

RATE = 1e-3  # ten times that of full fine-tuning: far fewer numbers learn
SQUAD = "squad"  # the questions of benchmarks/questions.py
# Set -> epochs.
EPOCHS = {"sst2": 2, "mrpc": 2, "stsb_en": 2, "sick": 2, "wnut17": 3, SQUAD: 2}
_QUESTIONS = Plan("question_answering", "f1", "xquad", epochs=1)


def parts_of(name: str) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what an adapter learns from, what chooses its epoch, and what is scored."""
    if name == SQUAD:
        parts = read_parts(get_model("minilm")[1], None)
        return parts["train"], parts["dev"], parts["xquad"]
    return read(name, PLANS[name])


def plan_of(name: str) -> Plan:
    """Return the plan of full fine-tuning for a set."""
    return _QUESTIONS if name == SQUAD else PLANS[name]


def settings_of(name: str, precision: str) -> Training:
    """Return the settings of an adapter's training."""
    settings = Training(epochs=EPOCHS[name], learning_rate=RATE, best_by=plan_of(name).score, precision=precision)
    return dataclasses.replace(settings, batch_size=8, max_length=256) if name == SQUAD else settings


def train(
    name: str, parts: Sequence[list[Any]], settings: Training, out: Path, adapter: AdapterConfig
) -> dict[str, Any]:
    """Train an adapter, write it to ``out``, and score what was written."""
    seed_everything(settings.seed)
    plan = plan_of(name)
    task: Task = named_task(plan.task).of_examples(parts[0])
    encoder, tokenizer = get_model("minilm")
    head = getattr(heads, named_task(plan.task).head)
    model = head(without_dropout(encoder), task.labels)
    add_adapters(model, adapter)
    numbers = count_parameters(model)
    began = time.perf_counter()
    # On a processor the backward pass of the fused attention is slower than the formula, in bfloat16 several times.
    with sdpa_kernel(SDPBackend.MATH):
        history = fine_tune(model, task, tokenizer, parts[0], parts[1], settings, best_device(), progress=False)
    seconds = time.perf_counter() - began
    save_adapters(model.cpu(), out, "minilm", half=True)
    shipped = head.from_pretrained(out)
    scores, _ = evaluate(shipped.to(best_device()), task, tokenizer, parts[2], settings.max_length, best_device())
    sizes = dict(zip(("train", "choice", "scored"), map(len, parts), strict=True))
    return {"scores": scores, "history": history, "examples": sizes, "seconds": seconds, "numbers": numbers}


def full_scores(name: str) -> dict[str, float]:
    """Return the mean, over seeds, of the scores of full fine-tuning that are stored."""
    metrics = notebook.results(f"finetuning/{'question_answering' if name == SQUAD else name}")["metrics"]
    scores = metrics["xquad"] if name == SQUAD else metrics
    return {key: value["mean"] for key, value in scores.items()}


def kept_or_train(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what an earlier call has kept of this set, or train and keep it."""
    settings, adapter = settings_of(name, options.precision), AdapterConfig()
    out = options.runs / f"minilm-{name}"
    found: dict[str, Any] = kept(
        options.runs / f"{name}.json",
        {"training": asdict(settings), "adapter": asdict(adapter)},
        lambda: train(name, [part[: options.size] for part in parts_of(name)], settings, out, adapter),
    )
    size = (out / "adapter_model.safetensors").stat().st_size
    print(name, found["scores"], flush=True)
    return {**found, "bytes": size, "score": plan_of(name).score, "full": full_scores(name)}


def main() -> None:
    """Train what is not there yet and write ``results/finetuning/adapters.json``, after each set anew."""
    parser = command_line(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(EPOCHS), choices=list(EPOCHS))
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    add_precision(parser)
    add_runs(parser, "finetuning/adapters")
    options = parser.parse_args()
    names = [one for name in options.sets for one in (DATA_SETS if name == SQUAD else (name,))]
    record = Record(
        "finetuning/adapters", ["torch", "d2lbert", "scikit-learn", "scipy"], [0], data_sets=names, size=options.size
    )
    sets: dict[str, Any] = {}
    for name in options.sets:
        sets[name] = kept_or_train(name, options)
        notes = {"adapter": asdict(AdapterConfig()), "learning_rate": RATE, "epochs": EPOCHS}
        record.write({"sets": sets}, **notes)


if __name__ == "__main__":
    main()
