"""Read questions about texts: the JSON of SQuAD 1.1 and 2.0, in which SQuADShifts and XQuAD come as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from d2lbert.data.examples import Answer, Question
from d2lbert.data.readers.json_items import json_items
from d2lbert.data.readers.lines import is_visible
from d2lbert.errors import UserError


def squad(path: str | Path, labelled: bool = True) -> Iterator[Question]:
    """Read ``data`` -> articles -> ``paragraphs`` -> ``context`` and ``qas`` (Rajpurkar et al. 2016, 2018).

    One article is in memory at a time.

    A question with ``is_impossible``, or with an empty list of answers, is not answered by the text. Every answer must
    occur in its text at the character that ``answer_start`` names. Where ``labelled`` is false, no answers are read.

    Raises:
        UserError: the file is missing, damaged, not JSON or laid out differently, a text is empty, or an answer does
            not occur where it should.
    """
    for article in json_items(path, _no_list("data", "the file"), "data"):
        title = str(article.get("title", "")) if isinstance(article, dict) else ""
        for paragraph in _items(path, article, "paragraphs", f"article {title!r}"):
            location = f"a paragraph of {title!r}"
            context = _text(path, paragraph, "context", location)
            for entry in _items(path, paragraph, "qas", location):
                yield _question(path, entry, context, title, labelled)


def _question(path: str | Path, entry: Any, context: str, title: str, labelled: bool) -> Question:
    name = str(entry.get("id", "")) if isinstance(entry, dict) else ""
    location = f"question {name or 'without an id'}"
    question = _text(path, entry, "question", location)
    if not labelled:
        return Question(question, context, None, name, title)
    impossible = entry.get("is_impossible", False)
    if not isinstance(impossible, bool):
        raise UserError(f"{path}, {location}: is_impossible is {impossible!r}; write true or false, without quotes")
    if impossible:
        return Question(question, context, (), name, title)
    answers = tuple(_answer(path, answer, context, location) for answer in _items(path, entry, "answers", location))
    return Question(question, context, answers, name, title)


def _answer(path: str | Path, answer: Any, context: str, location: str) -> Answer:
    """Return an answer after checking it against its text."""
    text = _text(path, answer, "text", f"an answer to {location}")
    start = answer.get("answer_start")
    if not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
        nearest = context.find(text)
        remedy = f"set answer_start to {nearest}" if nearest >= 0 else "its text has no such words, mend the answer"
        raise UserError(f"{path}, {location}: the answer {text[:40]!r} is not at character {start}; {remedy}")
    return Answer(text, start)


def _items(path: str | Path, holder: Any, field: str, location: str) -> list[Any]:
    """Return a field that must be a list. ``location`` names the holder in the error message."""
    items = holder.get(field) if isinstance(holder, dict) else None
    if not isinstance(items, list):
        raise UserError(f"{path}{_no_list(field, location)}")
    return items


def _no_list(field: str, location: str) -> str:
    return f": {location} has no list {field!r}; lay the file out as SQuAD is"


def _text(path: str | Path, holder: Any, field: str, location: str) -> str:
    """Return a field that must be a text that is not blank, unchanged: offsets count its spaces."""
    text = holder.get(field) if isinstance(holder, dict) else None
    if not isinstance(text, str) or not is_visible(text):
        raise UserError(f"{path}: {location} has no {field!r}, or it is empty; fill it in or remove the entry")
    return text
