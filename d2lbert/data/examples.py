"""What the readers return: a frozen dataclass for each kind of example."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text to classify. ``label`` is None where it is to be predicted."""

    text: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts and the label of their relation. ``label`` is None where it is to be predicted."""

    first: str
    second: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts and a score, such as their similarity. ``score`` is None where it is to be predicted."""

    first: str
    second: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """Words, and for each word a tag: of entities in the scheme IOB2, or a part of speech.

    ``tags`` is None where they are to be predicted.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """A sentence, and one that differs only slightly but breaks a rule of grammar (Warstadt et al. 2020)."""

    good: str
    bad: str
    paradigm: str  # the rule, such as "anaphor_gender_agreement"


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A premise and texts that may be its consequence or its cause; one fits best.

    Fields:
        premise: the first text, followed by the question where there is one.
        choices: the texts to choose from, at least two.
        answer: the index of the right choice, from 0; None where it is to be predicted.
    """

    premise: str
    choices: tuple[str, ...]
    answer: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A text of several paragraphs, in order."""

    paragraphs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole document, one paragraph per line."""
        return "\n".join(self.paragraphs)


@dataclass(frozen=True, slots=True)
class Analogy:
    """The question "``a`` is to ``b`` as ``c`` is to what?"; ``d`` is the answer (Mikolov et al. 2013)."""

    section: str
    a: str
    b: str
    c: str
    d: str


@dataclass(frozen=True, slots=True)
class WordPair:
    """Two words and the mean of the scores that people gave to their similarity, on the scale of ``source``."""

    first: str
    second: str
    score: float
    source: str


@dataclass(frozen=True, slots=True)
class WordInContext:
    """A word in two sentences: does it have the same sense in both? (Pilehvar and Camacho-Collados 2019)

    Fields:
        word: the dictionary form.
        pos: ``"N"`` for a noun, ``"V"`` for a verb.
        first, second: the sentences; their tokens are separated by spaces.
        first_index, second_index: the index, from 0, of the token in which the word occurs (often inflected).
        label: True where the sense is the same.
    """

    word: str
    pos: str
    first: str
    second: str
    first_index: int
    second_index: int
    label: bool


@dataclass(frozen=True, slots=True)
class Translation:
    """A sentence in two languages."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Words of a text, and ``start``, the index of their first character."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a text, answered by words of that text (Rajpurkar et al. 2016).

    Fields:
        question: the question itself.
        context: the text.
        answers: the answers of several people; models learn from the first. Empty where the text does not answer the
            question (Rajpurkar et al. 2018), None where the answer is to be predicted.
        id: its identifier in the data set.
        title: the title of the article that the text is from.
    """

    question: str
    context: str
    answers: tuple[Answer, ...] | None = None
    id: str = ""
    title: str = ""


_ANSWERS = ("label", "score", "tags", "answer", "answers")


def without_label(example: Any) -> Any:
    """Return an example whose label, score, tags or answer is to be predicted."""
    names = {field.name for field in dataclasses.fields(example)}
    return dataclasses.replace(example, **{name: None for name in _ANSWERS if name in names})
