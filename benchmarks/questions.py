"""The questions that a reader of texts learns from and is measured on, and scores by groups of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from d2lbert import data, metrics
from d2lbert.data.examples import Question
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import WordPiece
from d2lbert.torch.training.finetuning import Training

SPANS = Training(epochs=2, batch_size=8, learning_rate=1.5e-4, max_length=256)
LONGEST = 180  # tokens of what is learnt from, question and text: an hour on one core; what is measured is not cut
DATA_SETS = ("squad2_cs224n_dev", "squadshifts", "xquad", "squadshifts_amazon", "squadshifts_reddit")
SHIFT_EVERY = 20  # of the reviews and posts; enough for a standard error of about 2 points


def answerable(questions: Sequence[Question]) -> list[Question]:
    """Return the questions that have an answer."""
    return [question for question in questions if question.answers]


def short(questions: Sequence[Question], tokenizer: WordPiece) -> list[Question]:
    """Return the questions that fit into ``LONGEST`` tokens together with their text."""
    inputs = QuestionAnswering().inputs(questions, tokenizer, LONGEST)
    windows = Counter(one.example for one in inputs)
    return [question for place, question in enumerate(questions) if windows[place] == 1]


def read_parts(tokenizer: WordPiece, size: int | None) -> dict[str, list[Question]]:
    """Return what is learnt from, chosen on and measured on; ``size`` cuts each part short, to try the script out."""
    squad2, held_out = data.load("squad2_cs224n_dev", "train"), data.load("squad2_cs224n_dev", "dev")
    titles = sorted({question.title for question in held_out})
    known = {question.title for question in squad2} | set(titles)
    tuning = titles[: len(titles) // 2]
    parts = {
        "train": short(data.load("squadshifts", "train") + answerable(squad2), tokenizer),
        "dev": data.load("squadshifts", "dev"),
        "xquad": [question for question in data.load("xquad", "test") if question.title not in known],
        "amazon reviews": data.load("squadshifts_amazon", "test")[::SHIFT_EVERY],
        "reddit": data.load("squadshifts_reddit", "test")[::SHIFT_EVERY],
        "no answer: train": short(squad2, tokenizer),
        "no answer: tuning": [question for question in held_out if question.title in tuning],
        "no answer: test": [question for question in held_out if question.title not in tuning],
    }
    return {name: questions[:size] for name, questions in parts.items()}


def f1_of_each(questions: Sequence[Question], answers: Sequence[str]) -> list[float]:
    """Return the F1 of the answer to each question, from 0 to 1."""
    golds = [[answer.text for answer in question.answers or ()] for question in questions]
    return [metrics.squad_f1(answer, gold) for answer, gold in zip(answers, golds, strict=True)]


def by_group(questions: Sequence[Question], f1: Sequence[float], group: Callable[[Question], str]) -> dict[str, Any]:
    """Return the mean F1 and the number of questions of each group."""
    found: dict[str, list[float]] = {}
    for question, score in zip(questions, f1, strict=True):
        found.setdefault(group(question), []).append(score)
    return {name: {"f1": float(np.mean(scores)), "n": len(scores)} for name, scores in sorted(found.items())}
