"""From a row of a table to an example: which columns each task wants, and what their values may be.

A column is found by its name, in any case. A user may name another one (:class:`d2lbert.data.readers.tables.Columns`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from d2lbert.data.examples import Answer, ChoiceQuestion, Pair, Question, ScoredPair, Sentence, TaggedSentence
from d2lbert.data.readers.lines import fault, filled, is_visible, parse_index, parse_label, parse_score
from d2lbert.data.readers.tables import Columns, Table
from d2lbert.data.readers.tag_schemes import convert
from d2lbert.errors import UserError
from d2lbert.text import split_words

Labels = Sequence[str] | None
Maker = Callable[[int, Sequence[Any]], Any]

TEXT, PAIR, LABEL = "--text-column", "--pair-column", "--label-column"
TEXTS = ("text", "sentence")
TARGETS = ("label", "labels", "gold_label", "is_duplicate", "score")
PAIRS = (
    ("first", "second"),
    ("text", "pair"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("question1", "question2"),
)
WORDS, TAGS = ("words", "tokens", "text"), ("tags", "ner_tags", "labels", "label")
QUESTIONS, CONTEXTS, ANSWERS = ("question",), ("context", "text"), ("answer", "answers")
PREMISES, CHOICES, RIGHT = ("premise", "text", "question"), ("choices", "endings"), ("label", "answer")
_NUMBERED = re.compile(r"(choice|ending|option)[ _-]*(\d{1,3})", re.IGNORECASE)


def examples(
    table: Table, task: str, columns: Columns, labels: Labels, labelled: bool, faults: list[str] | None = None
) -> Iterator[Any]:
    """Yield the example of each row.

    Args:
        table: the rows.
        task: one of ``MAKERS``.
        columns: the columns' names, where the user gave them.
        labels: the labels that may occur; None for any.
        labelled: whether the label column is wanted; if not, examples have no labels.
        faults: what is wrong with a row is added here, and the row is left out; None ends the reading at the first.

    Raises:
        UserError: a column is missing, or a row has an empty text or a wrong label.
    """
    make = MAKERS[task](table, columns, labels, labelled)
    for number, row in table.rows:
        try:
            table.check(number, row)
            yield make(number, row)
        except UserError as error:
            if faults is None:
                raise
            faults.append(str(error))


def _sentence_maker(table: Table, columns: Columns, labels: Labels, labelled: bool) -> Maker:
    text = table.find(TEXTS, columns.text_column, TEXT)
    target = table.find(TARGETS, columns.label_column, LABEL) if labelled else None

    def make(number: int, row: Sequence[Any]) -> Sentence:
        label = None if target is None else parse_label(table.path, number, _as_text(row[target]), labels)
        return Sentence(filled(table.path, number, _as_text(row[text])), label)

    return make


def _pair_maker(table: Table, columns: Columns, labels: Labels, labelled: bool) -> Maker:
    header = {name.casefold() for name in table.header}
    known = next((pair for pair in PAIRS if header.issuperset(pair)), PAIRS[0])
    first = table.find(known[:1], columns.text_column, TEXT)
    second = table.find(known[1:], columns.pair_column, PAIR)
    target = table.find(TARGETS, columns.label_column, LABEL) if labelled else None
    scored = labels is not None and len(labels) == 1  # a model of scores has one output
    scored = scored or (labels is None and target is not None and table.header[target].casefold() == "score")

    def make(number: int, row: Sequence[Any]) -> Pair | ScoredPair:
        one, other = (filled(table.path, number, _as_text(row[column])) for column in (first, second))
        if target is None:
            return ScoredPair(one, other) if scored else Pair(one, other)
        if scored:
            return ScoredPair(one, other, parse_score(table.path, number, _as_text(row[target])))
        return Pair(one, other, parse_label(table.path, number, _as_text(row[target]), labels))

    return make


def _tagging_maker(table: Table, columns: Columns, labels: Labels, labelled: bool) -> Maker:
    words_column = table.find(WORDS, columns.text_column, TEXT)
    target = table.find(TAGS, columns.label_column, LABEL) if labelled else None

    def make(number: int, row: Sequence[Any]) -> TaggedSentence:
        value = row[words_column]
        words = _as_list(value) if labelled or isinstance(value, list) else split_words(str(value or ""), False)
        if not words or not all(map(is_visible, words)):
            raise fault(table.path, number, "no words, or an empty one", "fill them in or remove the sentence")
        if target is None:
            return TaggedSentence(tuple(words))
        tags = _as_list(row[target])
        if len(tags) != len(words):
            raise fault(table.path, number, f"{len(words)} words but {len(tags)} tags", "give one tag for each word")
        return TaggedSentence(tuple(words), tuple(_checked_tags(table.path, number, tags, labels)))

    return make


def _checked_tags(path: str | Path, number: int, tags: Sequence[str], labels: Labels) -> list[str]:
    """Return tags in IOB2 that are among the labels."""
    try:
        converted = convert(tags, "IOB2")
    except UserError as error:
        raise fault(path, number, str(error).partition(":")[0], "write tags such as O, B-PER and I-PER") from None
    for tag in converted:
        if labels is not None and tag not in labels:
            raise fault(path, number, f"the tag {tag!r} is not one of {', '.join(labels)}", "correct the tag")
    return converted


def _question_maker(table: Table, columns: Columns, labels: Labels, labelled: bool) -> Maker:
    question = table.find(QUESTIONS, columns.pair_column, PAIR)
    context = table.find(CONTEXTS, columns.text_column, TEXT)
    target = table.find(ANSWERS, columns.label_column, LABEL) if labelled else None
    start = table.find_if_there(("answer_start",))
    name = table.find_if_there(("id",))

    def make(number: int, row: Sequence[Any]) -> Question:
        text = _as_text(row[context])
        if not is_visible(text):
            raise fault(table.path, number, "the text is empty", "fill it in or remove the line")
        answers = None
        if target is not None:
            given = _answer_list(row[target], None if start is None else row[start])
            answers = tuple(_answer(table.path, number, text, *pair) for pair in given)
        asked = filled(table.path, number, _as_text(row[question]), "question")
        return Question(asked, text, answers, "" if name is None else _as_text(row[name]))

    return make


def _answer_list(value: Any, start: Any) -> list[tuple[Any, Any]]:
    """Return the text and the start of each answer: a text, a list, or SQuAD's ``{"text": [], "answer_start": []}``."""
    if isinstance(value, dict):
        texts, starts = value.get("text") or [], value.get("answer_start") or []
        return list(zip(texts, starts if len(starts) == len(texts) else [None] * len(texts), strict=True))
    if isinstance(value, list):
        fields = [one if isinstance(one, dict) else {"text": one} for one in value]
        return [(one.get("text"), one.get("answer_start")) for one in fields]
    return [(value, start)] if _as_text(value).strip() else []


def _answer(path: str | Path, number: int, context: str, answer: Any, start: Any) -> Answer:
    """Return an answer, found at its start, or where its words first occur if no start is given."""
    text = _as_text(answer)
    first = context.find(text)
    if not text.strip() or first < 0:
        raise fault(path, number, f"the answer {text[:40]!r} does not occur in its text", "copy its words from there")
    if not _as_text(start):
        return Answer(text, first)
    index = parse_index(_as_text(start), len(context))
    if index is None or context[index : index + len(text)] != text:
        raise fault(
            path, number, f"the answer {text[:40]!r} is not at character {_as_text(start)[:40]}", f"write {first}"
        )
    return Answer(text, index)


def _choice_maker(table: Table, columns: Columns, labels: Labels, labelled: bool) -> Maker:
    premise = table.find(PREMISES, columns.text_column, TEXT)
    numbered = {} if columns.pair_column else _numbered_columns(table)
    listed = None if numbered else table.find(CHOICES, columns.pair_column, PAIR)
    names = [str(number) for number in sorted(numbered)]
    target = table.find(RIGHT, columns.label_column, LABEL) if labelled else None

    def make(number: int, row: Sequence[Any]) -> ChoiceQuestion:
        values = _as_choices(row[listed]) if listed is not None else [row[numbered[key]] for key in sorted(numbered)]
        texts = [filled(table.path, number, _as_text(value), "choice") for value in values]
        if len(texts) < 2:
            raise fault(table.path, number, "fewer than two choices", "give at least two")
        text = filled(table.path, number, _as_text(row[premise]))
        if target is None:
            return ChoiceQuestion(text, tuple(texts))
        right, keys = _as_text(row[target]).strip(), names or [str(index) for index in range(len(texts))]
        if right not in keys and right not in texts:
            what = f"the answer {right[:40]!r} is neither one of {', '.join(keys)} nor a choice"
            raise fault(table.path, number, what, "correct it")
        if right in keys and right in texts and keys.index(right) != texts.index(right):
            what = f"the answer {right!r} is the number of one choice and the text of another"
            raise fault(table.path, number, what, "write the choices in words, such as two for 2")
        return ChoiceQuestion(text, tuple(texts), (keys if right in keys else texts).index(right))

    return make


def _numbered_columns(table: Table) -> dict[int, int]:
    """Return number -> index of columns such as ``choice0``, ``choice1``; none left out in between."""
    found: dict[int, int] = {}
    for index, name in enumerate(table.header):
        match = _NUMBERED.fullmatch(name)
        if match:
            found[int(match[2])] = index
    if found and sorted(found) != list(range(min(found), min(found) + len(found))):
        raise fault(table.path, 1, "the numbers of the choices have a gap", "call them choice0, choice1 and so on")
    return found


MAKERS: dict[str, Callable[[Table, Columns, Labels, bool], Maker]] = {
    "classification": _sentence_maker,
    "pair": _pair_maker,
    "tagging": _tagging_maker,
    "question_answering": _question_maker,
    "multiple_choice": _choice_maker,
}


def _as_text(value: Any) -> str:
    """Return a value of a table as text: nothing for a missing one, ``true`` and ``false``, no ``.0`` of an integer."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _as_list(value: Any) -> list[str]:
    """Return a list of words: a list, or words between white space."""
    return [_as_text(one).strip() for one in value] if isinstance(value, list) else _as_text(value).split()


def _as_choices(value: Any) -> list[Any]:
    """Return a list of choices: a list, or texts between ``|``."""
    return value if isinstance(value, list) else _as_text(value).split("|")
