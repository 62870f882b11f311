"""Bodies of requests and of answers: JSON, JSON lines, CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

JSON, LINES, CSV = "application/json", "application/jsonlines", "text/csv"
# Other names under which clients send the same.
_ALIASES = {"application/x-ndjson": LINES, "application/jsonl": LINES, "application/x-jsonlines": LINES}
_CELL = 1_000_000  # characters; Python's own limit is smaller


class BodyError(Exception):
    """A body that cannot be read; the message is for the client."""


class FormatError(Exception):
    """A type of content that is not known."""


@dataclass(frozen=True)
class Body:
    """What a request asks.

    Fields:
        contents: one for each text.
        format: ``JSON``, ``LINES`` or ``CSV``.
        single: whether it was one JSON object, which is answered with one.
    """

    contents: list[Mapping[str, Any]]
    format: str
    single: bool = False


def format_of(header: str | None) -> str:
    """Return the format that a Content-Type names; JSON where there is none.

    Raises:
        FormatError: it is not known, or in another encoding than UTF-8.
    """
    name, *parameters = [part.strip().lower() for part in (header or JSON).split(";")]
    name = _ALIASES.get(name, name)
    if name not in (JSON, LINES, CSV):
        raise FormatError(f"the type {name[:60]!r} is not known: send {JSON}, {LINES} or {CSV}")
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key == "charset" and value.strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise FormatError(f"the charset {value[:40]!r} is not known: send UTF-8")
    return name


def accepted_format(header: str | None, asked: str) -> str:
    """Return the format of the answer: the first that the client accepts, or that of its request where all will do.

    Raises:
        FormatError: the client accepts none of ours.
    """
    wanted = [part.split(";")[0].strip().lower() for part in (header or "*/*").split(",")]
    for name in wanted:
        if name in ("*/*", "", "application/*") and asked != CSV:
            return asked
        if name in ("*/*", "", "text/*"):
            return CSV
        if _ALIASES.get(name, name) in (JSON, LINES, CSV):
            return _ALIASES.get(name, name)
    raise FormatError(f"no answer in {header!r:.60}: accept {JSON}, {LINES} or {CSV}")


def parse(body: bytes, format: str) -> Body:
    """Read a body.

    Raises:
        BodyError: it is not UTF-8, not of its format, or asks nothing.
    """
    text = _decode(body)
    if format == JSON:
        return _parse_object(_load(text, ""))
    contents = _parse_csv(text) if format == CSV else _parse_lines(text)
    if not contents:
        raise BodyError("the body asks nothing: send one text a line")
    return Body(contents, format)


def load(body: bytes) -> Any:
    """Return the value of a body that is JSON, of whatever kind.

    Raises:
        BodyError: it is not UTF-8, or no JSON.
    """
    return _load(_decode(body), "")


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BodyError(f"the body is not UTF-8 (byte {error.start})") from None


def write(answers: Sequence[Mapping[str, Any]], body: Body, format: str) -> bytes:
    """Return the body of an answer: one JSON object for one, a list named predictions, or a line for each text."""
    if format == CSV:
        return _csv(answers).encode("utf-8", "replace")
    if format == LINES:
        return "".join(f"{_dump(answer)}\n" for answer in answers).encode()
    return _dump(answers[0] if body.single else {"predictions": list(answers)}).encode()


def _dump(value: Any) -> str:
    """Return JSON in ASCII, so that half a surrogate pair in a text does no harm."""
    return json.dumps(value, allow_nan=False)


def _parse_object(value: Any) -> Body:
    if isinstance(value, dict) and "instances" in value:
        if set(value) - {"instances", "model"}:
            raise BodyError("beside instances there may be model, and nothing else")
        shared = {"model": value["model"]} if "model" in value else {}
        contents = value["instances"]
    elif isinstance(value, dict):
        return Body([value], JSON, single=True)
    else:
        shared, contents = {}, value
    if not isinstance(contents, list) or not contents or not all(isinstance(one, dict) for one in contents):
        raise BodyError('send an object such as {"text": "..."}, or {"instances": [...]} with a list of such')
    return Body([{**shared, **one} for one in contents], JSON)


def _parse_lines(text: str) -> list[Mapping[str, Any]]:
    contents: list[Mapping[str, Any]] = []
    empty = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            empty = empty or number
            continue
        _check_no_gap(empty)
        value = _load(line, f"line {number}: ")
        if not isinstance(value, dict):
            raise BodyError(f'line {number}: send an object such as {{"text": "..."}}')
        contents.append(value)
    return contents


def _parse_csv(body: str) -> list[Mapping[str, Any]]:
    """Read rows without a header: a text, and beside it a second text or two or more choices."""
    if "\0" in body:
        raise BodyError("the CSV holds a NUL character")
    csv.field_size_limit(_CELL)
    contents: list[Mapping[str, Any]] = []
    empty = 0
    rows = csv.reader(io.StringIO(body, newline=""), strict=True)
    try:
        for row in rows:
            if not row:
                empty = empty or rows.line_num
                continue
            _check_no_gap(empty)
            text, *seconds = row
            beside = {"choices": seconds} if len(seconds) > 1 else dict(zip(["pair"], seconds, strict=False))
            contents.append({"text": text, **beside})
    except csv.Error as error:
        raise BodyError(f"the CSV cannot be read: {error}") from None
    return contents


def _check_no_gap(empty: int) -> None:
    """Refuse an empty line before a text: with no answer to it, all that follow would stand beside the wrong line.

    Args:
        empty: the number of the first empty line so far; 0 for none. Those at the end do no harm.

    Raises:
        BodyError: there is one.
    """
    if empty:
        raise BodyError(f"line {empty} is empty, and a text follows: remove it, or write a text")


def _load(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise BodyError(f"{where}the JSON is nested too deeply") from None
    except ValueError as error:
        raise BodyError(f"{where}no JSON: {str(error).splitlines()[0][:120]}") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _csv(answers: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for answer in answers:
        writer.writerow([_cell(value) for value in answer.values()])
    return stream.getvalue()


def _cell(value: Any) -> Any:
    """Return a value that fits into a cell: the highest probability, words between spaces, the rest as JSON."""
    if isinstance(value, dict) and value and all(isinstance(one, float) for one in value.values()):
        return max(value.values())
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return " ".join(value)
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value
