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

    With ``is_impossible``, or with an empty list of answers, the text does not answer the question. Every answer must
    stand in its text, at the character that it names.

    Raises:
        UserError: the file is missing, damaged, no JSON or laid out differently, a text is empty, or an answer does not
            stand where it says.
    """
    for article in _items(path, _read(path), "data", "the file"):
        title = str(article.get("title", "")) if isinstance(article, dict) else ""
        for paragraph in _items(path, article, "paragraphs", f"article {title!r}"):
            place = f"a paragraph of {title!r}"
            context = _text(path, paragraph, "context", place)
            for entry in _items(path, paragraph, "qas", place):
                yield _question(path, entry, context, title)


def _question(path: str | Path, entry: Any, context: str, title: str) -> Question:
    name = str(entry.get("id", "")) if isinstance(entry, dict) else ""
    place = f"question {name or 'without an id'}"
    question = _text(path, entry, "question", place)
    if entry.get("is_impossible", False):
        return Question(question, context, (), name, title)
    answers = tuple(_answer(path, found, context, place) for found in _items(path, entry, "answers", place))
    return Question(question, context, answers, name, title)


def _answer(path: str | Path, found: Any, context: str, place: str) -> Answer:
    """Return an answer, checked against its text."""
    text = _text(path, found, "text", f"an answer to {place}")
    start = found.get("answer_start")
    if not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
        nearest = context.find(text)
        remedy = f"set answer_start to {nearest}" if nearest >= 0 else "its text has no such words, mend the answer"
        raise UserError(f"{path}, {place}: the answer {text[:40]!r} is not at character {start}; {remedy}")
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


def _items(path: str | Path, holder: Any, field: str, place: str) -> list[Any]:
    """Return a list in the file; refuse anything else."""
    found = holder.get(field) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        raise UserError(f"{path}: {place} has no list {field!r}; lay the file out as SQuAD is")
    return found


def _text(path: str | Path, holder: Any, field: str, place: str) -> str:
    """Return a text in the file, as it is: offsets count its spaces. Refuse an empty one."""
    found = holder.get(field) if isinstance(holder, dict) else None
    if not isinstance(found, str) or not found.strip():
        raise UserError(f"{path}: {place} has no {field!r}, or it is empty; fill it in or remove the entry")
    return found
