"""Read questions about texts: the JSON of SQuAD 1.1 and 2.0, in which SQuADShifts and XQuAD come as well."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from d2lbert.data.examples import Answer, Question
from d2lbert.data.readers.lines import DAMAGE, damaged, open_binary
from d2lbert.errors import UserError


def squad(path: str | Path) -> Iterator[Question]:
    """Read ``data`` -> articles -> ``paragraphs`` -> ``context`` and ``qas`` (Rajpurkar et al. 2016, 2018).

    A question with ``is_impossible``, or with an empty list of answers, is not answered by the text. Every answer must
    occur in its text at the character that ``answer_start`` names.

    Raises:
        UserError: the file is missing, damaged, not JSON or laid out differently, a text is empty, or an answer does
            not occur where it should.
    """
    for article in _items(path, _read(path), "data", "the file"):
        title = str(article.get("title", "")) if isinstance(article, dict) else ""
        for paragraph in _items(path, article, "paragraphs", f"article {title!r}"):
            location = f"a paragraph of {title!r}"
            context = _text(path, paragraph, "context", location)
            for entry in _items(path, paragraph, "qas", location):
                yield _question(path, entry, context, title)


def _question(path: str | Path, entry: Any, context: str, title: str) -> Question:
    name = str(entry.get("id", "")) if isinstance(entry, dict) else ""
    location = f"question {name or 'without an id'}"
    question = _text(path, entry, "question", location)
    if entry.get("is_impossible", False):
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


def _read(path: str | Path) -> Any:
    try:
        with open_binary(path) as stream:
            return json.loads(stream.read().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8; save the file as UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON ({error}); get the file again, or mend it") from None
    except DAMAGE as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def _items(path: str | Path, holder: Any, field: str, location: str) -> list[Any]:
    """Return a field that must be a list. ``location`` names the holder in the error message."""
    items = holder.get(field) if isinstance(holder, dict) else None
    if not isinstance(items, list):
        raise UserError(f"{path}: {location} has no list {field!r}; lay the file out as SQuAD is")
    return items


def _text(path: str | Path, holder: Any, field: str, location: str) -> str:
    """Return a field that must be a text that is not blank, unchanged: offsets count its spaces."""
    text = holder.get(field) if isinstance(holder, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{path}: {location} has no {field!r}, or it is empty; fill it in or remove the entry")
    return text
