"""Give a student of three layers the relations of MiniLM's last layer, and see what fine-tuning makes of it.

The student begins as three of the six layers of MiniLM and reads Wikipedia: its relations of attention and of values
become those of the teacher, as MiniLM itself was made. No label is seen. Then it is fine-tuned on SST-2 and STS-B by
the plans of ``benchmarks/plans.py``, and so is the same student as it was at its start, with the same seeds. Scored on
dev. Of three choices of layers these have the lowest loss of relations at their start. The first part is run once, and
its rate was not tuned. What is finished is kept and the first part has a checkpoint: the same command goes on where it
was stopped.

    python -m benchmarks.compression.relations --precision bfloat16    # needs D2LBERT_DATA; two hours on one core
    python -m benchmarks.compression.relations --steps 2 --size 60 --seeds 0 --runs FOLDER
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.plans import PLANS, read
from benchmarks.record import Record, kept, spread
from benchmarks.standard_error import paired_difference
from benchmarks.students import learn
from d2lbert import data, get_model
from d2lbert.data.pretraining.batches import BEGINNING, PretrainingSettings
from d2lbert.data.pretraining.causal import CausalBatch, CausalData
from d2lbert.data.pretraining.corpus import corpus_files
from d2lbert.data.pretraining.shards import INDEX_FILE, Preparation, TokenShards, prepare
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.table import named_task
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.compression import copy_layers, last_projections, relation_losses
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import autocast, seed_everything, to_tensors
from d2lbert.torch.training.evaluation import evaluate
from d2lbert.torch.training.finetuning import fine_tune

LAYERS = (0, 2, 5)  # of the STARTS, the nearest to the teacher's relations
STARTS = ((0, 2, 4), (1, 3, 5), LAYERS)
SETS = ("sst2", "stsb_en")
LEARNING_RATE, BATCH_SIZE, MAX_LENGTH, HELD_OUT = 2e-4, 32, 128, 20


def corpus(folder: Path, tokenizer: WordPiece) -> TokenShards:
    """Open the prepared text, or prepare it with the teacher's vocabulary."""
    if not (folder / INDEX_FILE).is_file():
        prepare(corpus_files([str(data.fetch("wikipedia_en"))]), folder, tokenizer, Preparation())
    return TokenShards.open(folder)


class Relations:
    """The relations of a teacher, and how far a student's are from them.

    Args:
        precision: of the forward passes.
    """

    def __init__(self, teacher: BertModel, student: BertModel, precision: str) -> None:
        self.teacher, self.student, self.precision = teacher, student, precision

    def losses(self, batch: CausalBatch) -> dict[str, Tensor]:
        """Return both losses of a batch, in nats."""
        rows = to_tensors(batch.rows)
        with autocast("cpu", self.precision):
            with torch.no_grad():
                wanted = last_projections(self.teacher, rows)
            found = last_projections(self.student, rows)
        return relation_losses(found, wanted, rows)

    def loss(self, batch: CausalBatch) -> Tensor:
        """Return their sum, a scalar."""
        return torch.stack(list(self.losses(batch).values())).sum()

    @torch.no_grad()
    def held_out(self, dev: CausalData) -> dict[str, float]:
        """Return the mean of both losses over some batches of held-out documents."""
        found = [self.losses(batch) for batch, _ in itertools.islice(dev.epoch(0), HELD_OUT)]
        return {name: float(torch.stack([one[name] for one in found]).mean()) for name in found[0]}


def texts(shards: TokenShards, split: str) -> CausalData:
    """Return batches of whole texts in which nothing is hidden."""
    return CausalData(shards, PretrainingSettings(MAX_LENGTH, BATCH_SIZE, next_sentence=False), split)


def losses_at_start(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return how far students of several choices of layers are from the teacher's relations before any training."""
    teacher, tokenizer = get_model("minilm")
    teacher.eval()
    dev = texts(corpus(options.runs / "corpus", tokenizer), "dev")
    return {
        ", ".join(map(str, layers)): Relations(teacher, copy_layers(teacher, layers), options.precision).held_out(dev)
        for layers in STARTS
    }


def related(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train the student on the relations of its teacher, keep it in ``folder``, and return its losses."""
    teacher, tokenizer = get_model("minilm")
    teacher.eval()
    shards = corpus(options.runs / "corpus", tokenizer)
    student = copy_layers(teacher, LAYERS)  # without dropout: no text comes twice
    relations, dev = Relations(teacher, student, options.precision), texts(shards, "dev")
    before = relations.held_out(dev)
    batches: Iterator[CausalBatch] = (batch for batch, _ in texts(shards, "train").batches(BEGINNING))
    losses = learn(student, batches, relations.loss, options.steps, LEARNING_RATE, folder.with_suffix(".pt"))
    student.save_pretrained(folder)
    return {"before": before, "after": relations.held_out(dev), "losses": losses, "corpus": shards.digest()}


def fine_tuned(name: str, start: Path | None, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Fine-tune a student on one set; return its scores and its history.

    Args:
        start: the folder of a student; the teacher's layers as they are if None.
    """
    seed_everything(seed)
    teacher, tokenizer = get_model("minilm")
    encoder = copy_layers(teacher, LAYERS) if start is None else BertModel.from_pretrained(start)
    plan = PLANS[name]
    train, choice, scored = (part[: options.size] for part in read(name, plan))
    task = named_task(plan.task).of_examples(train)
    model = BertForSequenceClassification(encoder, task.labels)
    history = fine_tune(model, task, tokenizer, train, choice, plan.settings(seed, options.precision), "cpu", False)
    found, answers = evaluate(model, task, tokenizer, scored, device="cpu")
    return {
        "score": found[plan.score],
        "right": right(scored, answers),
        "history": history,
        "examples": [len(train), len(choice), len(scored)],
    }


def right(examples: Sequence[Any], answers: Sequence[dict[str, Any]]) -> list[bool]:
    """Return for each example whether its label was found; nothing for scores."""
    return [one.label == own["label"] for one, own in zip(examples, answers, strict=True) if hasattr(one, "label")]


def right_of_the_book(size: int | None) -> list[bool]:
    """Return for each scored sentence of SST-2 whether the book's own classifier, of six layers, finds its label."""
    model, tokenizer = get_model("minilm", "sst2")
    scored = read("sst2", PLANS["sst2"])[2][:size]
    return right(scored, evaluate(model, Classification(model.labels), tokenizer, scored, device="cpu")[1])


def students(folder: Path, options: argparse.Namespace, notes: dict[str, Any]) -> dict[str, Any]:
    """Fine-tune the student from both of its beginnings, on each set, with each seed."""
    found: dict[str, Any] = {}
    labels: dict[str, list[list[bool]]] = {"the book's classifier": [right_of_the_book(options.size)]}
    for name in SETS:
        found[name] = {"score": PLANS[name].score}
        for beginning, start in (("layers alone", None), ("with relations", folder)):
            runs = []
            for seed in options.seeds:
                path = options.runs / f"{name}-{beginning.replace(' ', '-')}-{seed}.json"
                runs.append(kept(path, notes, partial(fine_tuned, name, start, seed, options)))
                print(name, beginning, seed, runs[-1]["score"], flush=True)
            found[name][beginning] = spread([run["score"] for run in runs])
            if name == "sst2":
                labels[beginning] = [run["right"] for run in runs]
        found[name]["examples"] = dict(zip(("train", "choice", "scored"), runs[0]["examples"], strict=True))
    best = labels["with relations"]
    found["sst2"]["differences"] = {
        other: paired_difference(best, own) for other, own in labels.items() if own is not best
    }
    return found


def main() -> None:
    """Train what is not there yet and write ``results/compression/relations.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--steps", type=int, default=1200, help=f"of {BATCH_SIZE} texts, on relations")
    parser.add_argument("--size", type=int, help="examples of each part of a set, to try the script out; default all")
    parser.add_argument("--result", default="compression/relations", help="results/<this>.json")
    add_seeds(parser)
    add_precision(parser)
    add_runs(parser, "compression/relations")
    options = parser.parse_args()
    record = Record(
        options.result,
        ["torch", "d2lbert", "scikit-learn", "scipy"],
        options.seeds,
        data_sets=["wikipedia_en", *SETS],
        samples_do=False,
        size=options.size,
    )
    torch.set_num_threads(1)
    notes = {"steps": options.steps, "precision": options.precision, "layers": LAYERS, "size": options.size}
    folder = options.runs / "student"
    relations = kept(options.runs / "relations.json", notes, lambda: related(folder, options))
    print("relations", relations["before"], relations["after"], flush=True)
    starts = kept(options.runs / "starts.json", notes, lambda: losses_at_start(options))
    teacher, _ = get_model("minilm")
    sizes = {"teacher": count_parameters(teacher), "student": count_parameters(copy_layers(teacher, LAYERS))}
    record.write(
        {"relations": relations, "starts": starts, "sets": students(folder, options, notes)},
        parameters=sizes,
        learning_rate=LEARNING_RATE,
        texts_per_step=BATCH_SIZE,
        held_out_batches=HELD_OUT,
        max_length=MAX_LENGTH,
        **notes,
    )


if __name__ == "__main__":
    main()
