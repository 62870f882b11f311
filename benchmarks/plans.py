"""Fine-tune the 6-layer MiniLM on sentences, pairs, scores and tags: the plan of every set, and how it is measured.

Where a set has a test split, dev chooses the epoch and test is scored once; where it has none, a tenth of the training
examples chooses and dev is scored once. Each run is kept as it ends, so that a stopped benchmark goes on where it was.
Each set has a script of its own in ``benchmarks/finetuning``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.record import Record, kept, spread
from d2lbert import data, get_model
from d2lbert.tasks.table import fitting_examples, named_task
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification, BertForTokenClassification
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.evaluation import evaluate
from d2lbert.torch.training.finetuning import Training, fine_tune

EVERY = 10  # one training example of so many chooses the epoch, where there is no test split
FIRST_EPOCHS = 2  # on the set that comes before
MISTAKES = 12  # that a result file keeps, to be looked at


@dataclass(frozen=True)
class Plan:
    """How one set is measured.

    Fields:
        task: what the command line calls it.
        score: what is reported, and what chooses the epoch.
        split: what is scored in the end.
        epochs, learning_rate: the settings that are not the defaults.
        first: a set of pairs that the encoder is fine-tuned on before, where the set itself is small.
    """

    task: str
    score: str
    split: str
    epochs: int = 4
    learning_rate: float = 1e-4
    first: str = ""


PLANS = {
    "sst2": Plan("classification", "accuracy", "dev"),
    "mrpc": Plan("pair", "f1", "dev", learning_rate=5e-5),
    "stsb_en": Plan("pair", "spearman", "dev"),
    "cola": Plan("classification", "matthews", "dev"),
    "rte": Plan("pair", "accuracy", "test", first="mnli_dev_matched"),
    "sick": Plan("pair", "accuracy", "test"),
    "wnut17": Plan("tagging", "f1", "test", epochs=5, learning_rate=2e-4),
    "conll2003": Plan("tagging", "f1", "test", learning_rate=2e-4),
}

# Whole texts, without the sets of tagged words: what other benchmarks measure with the same splits.
SENTENCES = {name: plan for name, plan in PLANS.items() if plan.task != "tagging"}


def read(name: str, plan: Plan) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what to train on, what chooses the epoch, and what is scored."""
    train, dev = (fitting_examples(plan.task, name, data.load(name, split)) for split in ("train", "dev"))
    if plan.split == "test":
        return train, dev, fitting_examples(plan.task, name, data.load(name, "test"))
    return [example for number, example in enumerate(train) if number % EVERY], train[::EVERY], dev


def train(name: str, plan: Plan, seed: int, precision: str) -> tuple[Any, Any, Any, list[dict[str, float]]]:
    """Train with one seed; return the model, its task, its tokenizer and the history of the epochs."""
    examples, choice, _ = read(name, plan)
    task = named_task(plan.task).of_examples(examples)
    seed_everything(seed)
    encoder, tokenizer = get_model("minilm")
    settings = Training(seed=seed, precision=precision)
    if plan.first:
        learn_first(encoder, tokenizer, plan.first, dataclasses.replace(settings, epochs=FIRST_EPOCHS))
    head = BertForTokenClassification if plan.task == "tagging" else BertForSequenceClassification
    model = head(encoder, task.labels)
    settings = dataclasses.replace(settings, epochs=plan.epochs, learning_rate=plan.learning_rate, best_by=plan.score)
    return model, task, tokenizer, fine_tune(model, task, tokenizer, examples, choice, settings, best_device())


def learn_first(encoder: BertModel, tokenizer: WordPiece, name: str, settings: Training) -> None:
    """Fine-tune the encoder on another set of pairs; the head is thrown away (Phang et al. 2018)."""
    examples, dev = data.load(name, "train"), data.load(name, "dev")
    task = named_task("pair").of_examples(examples)
    model = BertForSequenceClassification(encoder, task.labels)
    fine_tune(model, task, tokenizer, examples, dev, settings, best_device())


def run(name: str, plan: Plan, seed: int, precision: str) -> dict[str, Any]:
    """Train with one seed; return the scores, the history and some of the mistakes."""
    model, task, tokenizer, history = train(name, plan, seed, precision)
    parts = read(name, plan)
    scores, answers = evaluate(model, task, tokenizer, parts[2], device=best_device())
    examples = dict(zip(("train", "choice", "scored"), map(len, parts), strict=True))
    return {"scores": scores, "history": history, "examples": examples, "mistakes": mistakes(plan, parts[2], answers)}


def mistakes(plan: Plan, examples: list[Any], answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first wrong answers, or, of scores, the most distant ones, each with its example."""
    pairs = [(asdict(example), answer) for example, answer in zip(examples, answers, strict=True)]
    if plan.score == "spearman":
        pairs.sort(key=lambda pair: -abs(pair[0]["score"] - pair[1]["score"]))
    else:
        key = "tags" if plan.task == "tagging" else "label"
        pairs = [(right, answer) for right, answer in pairs if list(right[key]) != list(answer[key])]
    return [{"example": right, "answer": answer} for right, answer in pairs[:MISTAKES]]


def kept_or_run(name: str, seed: int, precision: str, folder: Path) -> dict[str, Any]:
    """Return what an earlier call has kept of this run, or run it and keep it."""
    settings = {"plan": asdict(PLANS[name]), "precision": precision}
    found: dict[str, Any] = kept(
        folder / f"{name}-{seed}.json", settings, lambda: run(name, PLANS[name], seed, precision)
    )
    print(name, seed, found["scores"], flush=True)
    return found


def measure(name: str, doc: str) -> None:
    """Read the command line of a set's script, run its plan with every seed, write ``results/finetuning/<name>.json``.

    Args:
        name: of the set.
        doc: the script's docstring, for its help.
    """
    parser = command_line(doc)
    add_seeds(parser)
    add_precision(parser)
    add_runs(parser, f"finetuning/{name}")
    options = parser.parse_args()
    record = Record(f"finetuning/{name}", ["torch", "d2lbert", "scikit-learn", "scipy"], options.seeds)
    runs = [kept_or_run(name, seed, options.precision, options.runs) for seed in options.seeds]
    scores = {key: spread([one["scores"][key] for one in runs]) for key in runs[0]["scores"]}
    record.write(
        scores,
        data=name,
        sample=data.is_sample(name),
        plan=asdict(PLANS[name]),
        precision=options.precision,
        examples=runs[0]["examples"],
        histories=[one["history"] for one in runs],
        mistakes=runs[0]["mistakes"],
    )
