"""Distil MiniLM that answers questions into three of its layers, and score both on articles that neither has seen.

The student begins as three of the six layers of its teacher, ``minilm-squad``, with the teacher's head. It learns from
the questions that the teacher learned from: from the right answers alone, or from the teacher's softened probabilities
of each token as well. Held-out articles choose the epoch; XQuAD's questions choose nothing. Temperature, weight, rate
and the number of epochs were not tuned. Standard errors are over texts: questions about one text count as one. What is
finished is kept, with the commit that trained it: the same command goes on.

    python -m benchmarks.compression.reader --precision bfloat16    # needs D2LBERT_DATA; two hours on one core
    python -m benchmarks.compression.reader --size 20 --seeds 0 --runs FOLDER --result NAME
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.compression.relations import LAYERS
from benchmarks.compression.sharing import size_of
from benchmarks.finetuning.question_answering import without_dropout
from benchmarks.questions import DATA_SETS, LONGEST, SPANS, f1_of_each, read_parts
from benchmarks.record import Record, commit, kept, spread
from benchmarks.standard_error import paired_difference
from d2lbert import get_model
from d2lbert.config.training import Training
from d2lbert.tasks.base import Task
from d2lbert.tasks.distillation import SpanDistillation, Taught
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.torch.compression import copy_layers, taught
from d2lbert.torch.heads import BertForQuestionAnswering
from d2lbert.torch.training.evaluation import predict
from d2lbert.torch.training.finetuning import fine_tune

WAYS = ("labels", "soft targets")
TEMPERATURE, WEIGHT = 2.0, 0.5


def student_of(teacher: BertForQuestionAnswering) -> BertForQuestionAnswering:
    """Return three of the teacher's layers, with its head."""
    student = BertForQuestionAnswering(without_dropout(copy_layers(teacher.bert, LAYERS)))
    student.classifier = copy.deepcopy(teacher.classifier)
    return student


class Lessons:
    """The questions, and what the teacher says of every token of their texts.

    Args:
        size: questions of each part, to try the script out; all by default.
    """

    def __init__(self, size: int | None) -> None:
        self.teacher, self.tokenizer = get_model("minilm", "squad")
        self.parts = read_parts(self.tokenizer, size)
        self.task = QuestionAnswering()
        self._taught: list[Taught] = []

    def of(self, way: str) -> tuple[Task, Sequence[Any]]:
        """Return the task whose loss a way minimizes, and the examples that it learns from."""
        if way == "labels":
            return self.task, self.parts["train"]
        if not self._taught:
            self._taught = taught(self.teacher, self.task, self.tokenizer, self.parts["train"], SPANS.max_length)
        return SpanDistillation(self.task, TEMPERATURE, WEIGHT), self._taught

    def f1(self, model: nn.Module) -> list[float]:
        """Return the F1 of each question of the test, from 0 to 1."""
        test = self.parts["xquad"]
        answers = predict(model, self.task, self.tokenizer, test, SPANS.max_length)
        return f1_of_each(test, [answer["answer"] for answer in answers])


def run(way: str, settings: Training, lessons: Lessons) -> dict[str, Any]:
    """Train a student; return its history, and the F1 of each question."""
    student, (task, examples) = student_of(lessons.teacher), lessons.of(way)
    history = fine_tune(student, task, lessons.tokenizer, examples, lessons.parts["dev"], settings, "cpu", False)
    return {"history": history, "f1": lessons.f1(student), "commit": commit()}


def summary(lessons: Lessons, found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the scores of the student before and after each way, and their paired differences.

    Args:
        found: way -> what :func:`run` returned for each seed.
    """
    teacher, student = lessons.f1(lessons.teacher), student_of(lessons.teacher)
    texts = [question.context for question in lessons.parts["xquad"]]
    f1 = {way: [one["f1"] for one in own] for way, own in found.items()}
    return {
        "teacher": {**size_of(lessons.teacher), "f1": float(np.mean(teacher))},
        "student": {**size_of(student), "f1": float(np.mean(lessons.f1(student)))},
        "ways": {
            way: {
                "f1": spread([float(np.mean(one)) for one in f1[way]]),
                "f1 of the choice": spread([max(epoch["f1"] for epoch in one["history"]) for one in own]),
                "minus the teacher": paired_difference(f1[way], [teacher], texts),
                "histories": [one["history"] for one in own],
            }
            for way, own in found.items()
        },
        "soft targets minus labels": paired_difference(f1["soft targets"], f1["labels"], texts),
        "texts": len(set(texts)),
    }


def main() -> None:
    """Distil with every seed, and write ``results/compression/reader.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--size", type=int, help="questions of each part, to try the script out")
    parser.add_argument("--result", default="compression/reader", help="results/<this>.json")
    add_seeds(parser)
    add_precision(parser)
    add_runs(parser, "compression/reader")
    options = parser.parse_args()
    packages = ["torch", "d2lbert"]
    record = Record(
        options.result, packages, options.seeds, data_sets=DATA_SETS[:3], samples_do=False, size=options.size
    )
    torch.set_num_threads(1)
    lessons = Lessons(options.size)
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for seed in options.seeds:
        settings = dataclasses.replace(SPANS, seed=seed, precision=options.precision)
        notes = {"settings": dataclasses.asdict(settings), "layers": LAYERS, "longest": LONGEST, "size": options.size}
        notes |= {"temperature": TEMPERATURE, "weight": WEIGHT}
        for way in WAYS:
            path = options.runs / f"{way.replace(' ', '-')}-{seed}.json"
            found[way].append(kept(path, notes, partial(run, way, settings, lessons)))
            print(way, seed, np.mean(found[way][-1]["f1"]), flush=True)
    record.write(
        summary(lessons, found),
        settings=dataclasses.asdict(dataclasses.replace(SPANS, precision=options.precision)),
        layers=LAYERS,
        longest_in_training=LONGEST,
        temperature=TEMPERATURE,
        weight=WEIGHT,
        trained_at=sorted({one["commit"] for own in found.values() for one in own}),
        questions={name: len(lessons.parts[name]) for name in ("train", "dev", "xquad")},
    )


if __name__ == "__main__":
    main()
