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
from d2lbert.data.readers.lines import (
    fault,
    filled,
    is_visible,
    parse_index,
    parse_label,
    parse_relation,
    parse_score,
)
from d2lbert.data.readers.sentences import SENTIMENTS
from d2lbert.data.readers.tables import MISSING, Columns, Table
from d2lbert.data.readers.tag_schemes import convert
from d2lbert.errors import UserError
from d2lbert.text import split_words

Labels = Sequence[str] | None
Maker = Callable[[int, Sequence[Any]], Any]


class _Nested(ValueError):
    """A list or an object stands where a text or a number is wanted."""


TEXT, PAIR, LABEL, SCORE = "--text-column", "--pair-column", "--label-column", "--score-column"
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
    if columns.score_column and task != "pair":
        raise UserError(f"{SCORE} is for the task pair, not for {task}: leave it out, or give {LABEL}")
    make = MAKERS[task](table, columns, labels, labelled)
    for number, row in table.rows:
        try:
            table.check(number, row)
            example = _made(make, table.path, number, row)
        except UserError as error:
            if faults is None:
                raise
            faults.append(str(error))
        else:
            yield example


def _made(make: Maker, path: str | Path, number: int, row: Sequence[Any]) -> Any:
    try:
        return make(number, row)
    except _Nested as error:
        raise fault(path, number, f"{error} where one text or number is wanted", "write one") from None


def _sentence_maker(table: Table, columns: Columns, labels: Labels, labelled: bool) -> Maker:
    text = table.find(TEXTS, columns.text_column, TEXT)
    target = table.find(TARGETS, columns.label_column, LABEL) if labelled else None
    # Every public set of reviews with these two labels counts them so.
    numbered = SENTIMENTS if set(labels or ()) == set(SENTIMENTS) else ()

    def make(number: int, row: Sequence[Any]) -> Sentence:
        label = None if target is None else parse_label(table.path, number, _as_text(row[target]), labels, numbered)
        return Sentence(filled(table.path, number, _as_text(row[text])), label)

    return make


def _pair_maker(table: Table, columns: Columns, labels: Labels, labelled: bool) -> Maker:
    header = {name.casefold() for name in table.header}
    known = next((pair for pair in PAIRS if header.issuperset(pair)), PAIRS[0])
    first = table.find(known[:1], columns.text_column, TEXT)
    second = table.find(known[1:], columns.pair_column, PAIR)
    scored = bool(columns.score_column) if labels is None else len(labels) == 1  # a model of scores has one output
    if columns.score_column and not scored:
        raise UserError(f"{SCORE} is for a model that gives scores, and this one gives labels: give {LABEL}")
    target = None
    if labelled and columns.score_column:
        target = table.find((), columns.score_column, SCORE)
    elif labelled:
        target = table.find(TARGETS, columns.label_column, LABEL, SCORE)
        scored = scored or (labels is None and table.header[target].casefold() == "score")

    def make(number: int, row: Sequence[Any]) -> Pair | ScoredPair:
        one, other = (filled(table.path, number, _as_text(row[column])) for column in (first, second))
        if target is None:
            return ScoredPair(one, other) if scored else Pair(one, other)
        if scored:
            return ScoredPair(one, other, parse_score(table.path, number, _as_text(row[target])))
        return Pair(one, other, parse_relation(table.path, number, _as_text(row[target]), labels))

    return make


def _tagging_maker(table: Table, columns: Columns, labels: Labels, labelled: bool) -> Maker:
    words_column = table.find(WORDS, columns.text_column, TEXT)
    target = table.find(TAGS, columns.label_column, LABEL) if labelled else None
    # The same file has the same words in every command. Only a column of that name, without tags, is a text to be cut.
    tagged = labelled or table.find_if_there((columns.label_column,) if columns.label_column else TAGS) is not None
    plain = not tagged and table.header[words_column].casefold() == "text"

    def make(number: int, row: Sequence[Any]) -> TaggedSentence:
        value = row[words_column]
        words = split_words(_as_text(value), False) if plain and not isinstance(value, list) else _as_list(value)
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
    given = _answer_reader(table, columns) if labelled else None
    name = table.find_if_there(("id",))

    def make(number: int, row: Sequence[Any]) -> Question:
        text = _as_text(row[context])
        if not is_visible(text):
            raise fault(table.path, number, "the text is empty", "fill it in or remove the line")
        answers = None
        if given is not None:
            answers = tuple(_answer(table.path, number, text, *pair) for pair in given(number, row))
        asked = filled(table.path, number, _as_text(row[question]), "question")
        return Question(asked, text, answers, "" if name is None else _as_text(row[name]))

    return make


def _answer_reader(table: Table, columns: Columns) -> Callable[[int, Sequence[Any]], list[tuple[Any, Any]]]:
    """Return a function that gives the text and the start of each answer of a row: none where the row says so."""
    names = (columns.label_column,) if columns.label_column else ANSWERS
    impossible = table.find_if_there(("is_impossible",))
    if impossible is None or columns.label_column:
        table.find(ANSWERS, columns.label_column, LABEL)
    found = [(name, table.find_if_there((name,))) for name in names]
    start = table.find_if_there(("answer_start",))

    def read(number: int, row: Sequence[Any]) -> list[tuple[Any, Any]]:
        said = "" if impossible is None else _as_text(row[impossible]).lower()
        if said in ("true", "1"):
            return []
        given = {name: row[column] for name, column in found if column is not None and row[column] is not MISSING}
        if not given:
            remedy = f'write "{names[0]}": "" if the text does not answer the question'
            raise fault(table.path, number, f"no {names[0]!r}", remedy)
        if len(given) > 1:
            raise fault(table.path, number, f"{' beside '.join(map(repr, given))}", "remove one of them")
        (value,) = given.values()
        answers = _answer_list(value, None if start is None else row[start])
        if not answers and said in ("false", "0"):
            raise fault(table.path, number, f"no answer, and is_impossible is {said}", "write the answer, or true")
        return answers

    return read


def _answer_list(value: Any, start: Any) -> list[tuple[Any, Any]]:
    """Return the text and the start of each answer: a text, a list, or SQuAD's ``{"text": [], "answer_start": []}``."""
    if isinstance(value, dict):
        texts, starts = (_listed(value.get(name)) for name in ("text", "answer_start"))
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
        # Where the file tells numbers from texts, a number is no choice that is a text, whatever that says.
        counts = _is_integer(row[target]) and all(isinstance(value, str) for value in values)
        named = [] if counts else texts
        if right not in keys and right not in named:
            nor = "" if counts else " nor a choice"
            what = f"the answer {right[:40]!r} is {'none' if counts else 'neither one'} of {', '.join(keys)}{nor}"
            raise fault(table.path, number, what, "correct it")
        if right in keys and right in named and keys.index(right) != named.index(right):
            what = f"the answer {right!r} is the number of one choice and the text of another"
            raise fault(table.path, number, what, "write the choices in words, such as two for 2")
        return ChoiceQuestion(text, tuple(texts), (keys if right in keys else named).index(right))

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
    """Return a value of a table as text: nothing for a missing one, ``true`` and ``false``, no ``.0`` of an integer.

    Raises:
        _Nested: it is a list or an object.
    """
    if value is None or value is MISSING or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list | dict):
        raise _Nested(f"the {'list' if isinstance(value, list) else 'object'} {str(value)[:40]}")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _as_list(value: Any) -> list[str]:
    """Return a list of words: a list, or words between white space."""
    return [_as_text(one).strip() for one in value] if isinstance(value, list) else _as_text(value).split()


def _is_integer(value: Any) -> bool:
    """Whether a value is an integer, not a text of digits; of a Parquet file it may be a float."""
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _as_choices(value: Any) -> list[Any]:
    """Return a list of choices: a list, or texts between ``|``."""
    return value if isinstance(value, list) else _as_text(value).split("|")
