"""Fine-tune MiniLM in the MXNet edition as PyTorch's results were made, and set the scores beside each other.

Data, settings and choice of the epoch are those of ``benchmarks.finetuning.sst2``, ``conll2003`` and
``question_answering`` (its first part, questions with an answer). PyTorch's scores are read from their result files.
MXNet trains in float32; the PyTorch runs were in bfloat16. Each run is kept as it ends, and each epoch has a
checkpoint: the same command goes on where it was stopped.

    python -m benchmarks.finetuning.mxnet    # needs D2LBERT_DATA and MXNet; three hours on one core
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.command_line import add_runs, command_line
from benchmarks.plans import PLANS, read
from benchmarks.questions import DATA_SETS, SPANS, read_parts
from benchmarks.record import ROOT, Record, kept, spread
from d2lbert import get_model
from d2lbert.commands.editions import named_edition
from d2lbert.config.training import Training
from d2lbert.mxnet.bert import BertModel
from d2lbert.mxnet.blocks import shared_names
from d2lbert.tasks.table import named_task

QUESTIONS = "question_answering"
SEEDS = {"sst2": [0, 1, 2], "conll2003": [0], QUESTIONS: [0]}


class Lesson(NamedTuple):
    """What one run learns.

    Fields:
        name: of the task.
        train, choice, scored: it learns from the first, the second chooses the epoch, the third is scored once.
        settings: of the run.
        dropout: whether the encoder keeps its dropout.
    """

    name: str
    train: Sequence[Any]
    choice: Sequence[Any]
    scored: Sequence[Any]
    settings: Training
    dropout: bool = True


def lesson(name: str, seed: int, size: int | None) -> Lesson:
    """Return what is learnt of a data set; ``size`` cuts each part short, to try the script out."""
    if name == QUESTIONS:
        parts = read_parts(get_model("minilm", pretrained=False)[1], size)
        settings = dataclasses.replace(SPANS, seed=seed)
        return Lesson(name, parts["train"], parts["dev"], parts["xquad"], settings, dropout=False)
    plan = PLANS[name]
    return Lesson(plan.task, *(examples[:size] for examples in read(name, plan)), plan.settings(seed))


def run(name: str, seed: int, checkpoint: Path, size: int | None) -> dict[str, Any]:
    """Train with one seed; return the scores, the history of the epochs, and how many examples each part has."""
    edition, (task_name, train, choice, scored, settings, dropout) = named_edition("mxnet"), lesson(name, seed, size)
    task = named_task(task_name).of_examples(train)
    edition.seed(seed)
    encoder, tokenizer = get_model("minilm", edition="mxnet")
    model = edition.head_of(task_name)(encoder if dropout else without_dropout(encoder), task.labels)
    history = edition.fine_tune(model, task, tokenizer, (train, choice), settings, checkpoint, lambda: False)
    scores, _ = edition.evaluate(model, task, tokenizer, scored, settings.max_length)
    counts = {"train": len(train), "choice": len(choice), "scored": len(scored)}
    return {"scores": scores, "history": list(history), "examples": counts}


def without_dropout(encoder: BertModel) -> BertModel:
    """Return the same encoder without dropout, as question answering was measured."""
    sizes = encoder.config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    copy = BertModel(sizes)
    weights = shared_names(encoder)
    for name, parameter in shared_names(copy).items():
        parameter.set_data(weights[name].data())
    return copy


def score_of(name: str) -> str:
    """Return the name of the score that is reported of a data set."""
    return "f1" if name == QUESTIONS else PLANS[name].score


def beside_torch(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Return the scores of both editions.

    Returns:
        the score's name; means, deviations and values; the difference of the means, and in ``error`` the standard error
        of that difference over seeds. A single seed is taken to vary as PyTorch's do.
    """
    key = score_of(name)
    stored = json.loads((ROOT / "results" / "finetuning" / f"{name}.json").read_text(encoding="utf-8"))["metrics"]
    torch = (stored["xquad"] if name == QUESTIONS else stored)[key]
    difference = statistics.mean(values) - torch["mean"]
    deviation = statistics.stdev(values) if len(values) > 1 else torch["std"]
    return {
        "score": key,
        "mxnet": spread(values),
        "torch": torch,
        "difference": difference,
        "error": math.hypot(deviation / math.sqrt(len(values)), torch["std"] / math.sqrt(torch["n"])),
    }


def main() -> None:
    """Measure, and write ``results/finetuning/mxnet.json`` after each data set anew."""
    parser = command_line(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SEEDS), choices=SEEDS, help="data sets; default all")
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    add_runs(parser, "finetuning/mxnet")
    options = parser.parse_args()
    names = [one for name in options.sets for one in (DATA_SETS if name == QUESTIONS else (name,))]
    seeds = sorted({seed for name in options.sets for seed in SEEDS[name]})
    record = Record("finetuning/mxnet", ["mxnet", "numpy", "d2lbert"], seeds, data_sets=names, size=options.size)
    found: dict[str, Any] = {}
    runs: dict[str, Any] = {}
    for name in options.sets:
        runs[name] = []
        for seed in SEEDS[name]:
            stem = options.runs / f"{name}-{seed}"
            work = partial(run, name, seed, stem, options.size)
            settings = {"size": options.size, "settings": asdict(lesson(name, seed, options.size).settings)}
            runs[name].append(kept(stem.with_suffix(".json"), settings, work))
            print(name, seed, runs[name][-1]["scores"], flush=True)
        found[name] = beside_torch(name, [one["scores"][score_of(name)] for one in runs[name]])
        record.write(found, runs=runs)


if __name__ == "__main__":
    main()
