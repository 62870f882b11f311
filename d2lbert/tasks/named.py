"""The tasks by the names of the command line: what they read, and the task that fits examples or a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from d2lbert.data.examples import Pair, Question, ScoredPair, Sentence, TaggedSentence, WordInContext
from d2lbert.data.sentence_pairs import sense_pair
from d2lbert.errors import UserError
from d2lbert.tasks.base import Task
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.pair import PairClassification, PairRegression
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.tasks.tagging import Tagging

# Name -> the kinds of examples that it takes, what they are called, and a data set that has them.
_EXAMPLES: dict[str, tuple[tuple[type, ...], str, str]] = {
    "classification": ((Sentence,), "labelled sentences", "sst2"),
    "pair": ((Pair, ScoredPair), "pairs of texts", "mrpc"),
    "tagging": ((TaggedSentence,), "tagged sentences", "wnut17"),
    "question_answering": ((Question,), "questions about texts", "squadshifts"),
}


def fitting_examples(name: str, data_set: str, examples: Sequence[Any]) -> list[Any]:
    """Return the examples of a data set in the form that a task takes.

    Raises:
        UserError: they are of another kind.
    """
    kinds, what, such_as = _EXAMPLES[name]
    found = list(examples)
    if name == "pair" and found and isinstance(found[0], WordInContext):
        found = [sense_pair(example) for example in found]
    if not found or not isinstance(found[0], kinds):
        raise UserError(f"data set {data_set!r} holds no {what}: choose another, such as {such_as}")
    return found


def task_of_examples(name: str, examples: Sequence[Any]) -> Task:
    """Return the task that training examples ask for; its labels are theirs."""
    if name == "classification":
        return Classification.of(examples)
    if name == "tagging":
        return Tagging.of(examples)
    if name == "question_answering":
        return QuestionAnswering.of(examples)
    return PairRegression() if isinstance(examples[0], ScoredPair) else PairClassification.of(examples)


def task_of_labels(name: str, labels: Sequence[str], null_threshold: float | None = None) -> Task:
    """Return the task of a trained model with these outputs; ``null_threshold`` is that of question answering."""
    if name == "classification":
        return Classification(labels)
    if name == "tagging":
        return Tagging(labels)
    if name == "question_answering":
        return QuestionAnswering(null_threshold)
    return PairRegression() if len(labels) == 1 else PairClassification(labels)
