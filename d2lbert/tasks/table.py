"""The tasks by their names on the command line: what each reads, which head it trains, and what a user types for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from d2lbert.data.examples import (
    ChoiceQuestion,
    Pair,
    Question,
    ScoredPair,
    Sentence,
    TaggedSentence,
    WordInContext,
)
from d2lbert.data.readers.pairs import sense_pair
from d2lbert.errors import UserError, unknown_name
from d2lbert.tasks.base import Task
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.multiple_choice import MultipleChoice
from d2lbert.tasks.pair import PairClassification, PairRegression
from d2lbert.tasks.parts_of_speech import tagging_of, tagging_with
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import split_words

Texts = Sequence[str]


@dataclass(frozen=True)
class NamedTask:
    """What the command line must know about a task.

    Fields:
        kinds: the classes of its examples.
        what: what its examples are called in messages.
        such_as: a data set that has such examples.
        head: the name of the model class that it trains, in :mod:`d2lbert.torch.heads`.
        of_examples: makes the task from training examples; its labels are theirs.
        of_model: makes the task of a trained model from its labels and its threshold for "no answer" (or None).
        of_texts: makes examples from the texts and second texts that a user types, and from the model's labels.
        seconds: how many second texts belong to a text: 0, 1, or 2 for two or more choices of one text.
        max_length: the longest input in tokens, where neither the user nor the model's training says otherwise.
    """

    kinds: tuple[type, ...]
    what: str
    such_as: str
    head: str
    of_examples: Callable[[Sequence[Any]], Task]
    of_model: Callable[[Texts, float | None], Task]
    of_texts: Callable[[Texts, Texts, Texts], list[Any]]
    seconds: int = 0
    max_length: int = 128

    def check_texts(self, name: str, texts: Texts, seconds: Texts) -> None:
        """Check the texts that a user typed.

        Raises:
            UserError: a text is empty, or the number of second texts does not fit the number of texts.
        """
        for option, values in (("--text", texts), ("--pair", seconds)):
            if not all(value.strip() for value in values):
                raise UserError(f"{option} is empty: give a text with at least one word")
        counts = f"{len(texts)} --text and {len(seconds)} --pair"
        if self.seconds == 0 and seconds:
            raise UserError(f"--pair is not for the task {name}: leave it out")
        if self.seconds == 1 and len(seconds) != len(texts):
            raise UserError(f"{counts}: give one --pair for each --text")
        if self.seconds == 2 and (len(texts) != 1 or len(seconds) < 2):
            raise UserError(f"{counts}: give one --text, the premise, and two or more --pair, the choices")


def _pairs_of(texts: Texts, seconds: Texts, labels: Texts) -> list[Any]:
    kind = ScoredPair if len(labels) == 1 else Pair
    return [kind(*pair) for pair in zip(texts, seconds, strict=True)]


NAMED = {
    "classification": NamedTask(
        (Sentence,),
        "labelled sentences",
        "sst2",
        "BertForSequenceClassification",
        Classification.of,
        lambda labels, _: Classification(labels),
        lambda texts, seconds, labels: [Sentence(text) for text in texts],
    ),
    "pair": NamedTask(
        (Pair, ScoredPair),
        "pairs of texts",
        "mrpc",
        "BertForSequenceClassification",
        lambda examples: PairRegression() if isinstance(examples[0], ScoredPair) else PairClassification.of(examples),
        lambda labels, _: PairRegression() if len(labels) == 1 else PairClassification(labels),
        _pairs_of,
        seconds=1,
    ),
    "tagging": NamedTask(
        (TaggedSentence,),
        "tagged sentences",
        "wnut17",
        "BertForTokenClassification",
        tagging_of,
        lambda labels, _: tagging_with(labels),
        lambda texts, seconds, labels: [TaggedSentence(tuple(split_words(text, lowercase=False))) for text in texts],
    ),
    "question_answering": NamedTask(
        (Question,),
        "questions about texts",
        "squadshifts",
        "BertForQuestionAnswering",
        QuestionAnswering.of,
        lambda labels, null_threshold: QuestionAnswering(null_threshold),
        lambda texts, seconds, labels: [
            Question(question, text) for text, question in zip(texts, seconds, strict=True)
        ],
        seconds=1,
        max_length=384,
    ),
    "multiple_choice": NamedTask(
        (ChoiceQuestion,),
        "questions with choices",
        "copa",
        "BertForMultipleChoice",
        lambda examples: MultipleChoice(),
        lambda labels, _: MultipleChoice(),
        lambda texts, seconds, labels: [ChoiceQuestion(texts[0], tuple(seconds))],
        seconds=2,
    ),
}


def named_task(name: str) -> NamedTask:
    """Return a task by its name.

    Raises:
        UserError: there is no such task.
    """
    if name not in NAMED:
        raise unknown_name("task", name, NAMED)
    return NAMED[name]


def fitting_examples(name: str, data_set: str, examples: Sequence[Any]) -> list[Any]:
    """Return the examples of a data set in the form that a task takes.

    Raises:
        UserError: they are of another kind.
    """
    task, fitting = named_task(name), list(examples)
    if name == "pair" and fitting and isinstance(fitting[0], WordInContext):
        fitting = [sense_pair(example) for example in fitting]
    if not fitting or not isinstance(fitting[0], task.kinds):
        raise UserError(f"data set {data_set!r} holds no {task.what}: choose another, such as {task.such_as}")
    return fitting
