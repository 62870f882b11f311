"""Bodies: what is read, what is refused with a reason, and what is written."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert.deploy.server.formats import (
    CSV,
    JSON,
    LINES,
    Body,
    BodyError,
    FormatError,
    accepted_format,
    format_of,
    load,
    parse,
    write,
)


@pytest.mark.parametrize(
    ("header", "format"),
    [
        (None, JSON),
        ("application/json; charset=UTF-8", JSON),
        ("Application/JSONLines", LINES),
        ("application/x-ndjson", LINES),
        ('text/csv; charset="utf-8"', CSV),
    ],
)
def test_types_that_are_read(header: str | None, format: str) -> None:
    assert format_of(header) == format


@pytest.mark.parametrize("header", ["text/plain", "application/json; charset=latin-1", "x" * 1000])
def test_types_that_are_not(header: str) -> None:
    with pytest.raises(FormatError, match=r"is not known: send .{5,60}$"):
        format_of(header)


@pytest.mark.parametrize(
    ("header", "asked", "format"),
    [
        (None, LINES, LINES),
        ("*/*", CSV, CSV),
        ("text/html, application/json;q=0.9", CSV, JSON),
        ("application/x-ndjson", JSON, LINES),
        ("text/*", JSON, CSV),
        ("application/*", LINES, LINES),
    ],
)
def test_types_of_answers(header: str | None, asked: str, format: str) -> None:
    assert accepted_format(header, asked) == format


def test_an_answer_that_nobody_accepts() -> None:
    with pytest.raises(FormatError, match="no answer in 'image/png'"):
        accepted_format("image/png", JSON)


@pytest.mark.parametrize(
    ("raw", "format", "contents", "single"),
    [
        (b'{"text": "a"}', JSON, [{"text": "a"}], True),
        (b'\xef\xbb\xbf{"text": "a"}', JSON, [{"text": "a"}], True),
        (b'[{"text": "a"}]', JSON, [{"text": "a"}], False),
        (
            b'{"instances": [{"text": "a"}, {"text": "b", "model": "n"}], "model": "m"}',
            JSON,
            [{"text": "a", "model": "m"}, {"text": "b", "model": "n"}],
            False,
        ),
        (b'{"text": "a"}\r\n{"text": "b\\u2028"}\n\r\n \n', LINES, [{"text": "a"}, {"text": "b\u2028"}], False),
        (
            b'a\n"b, c",d\ne,f,g\n\r\n\n',
            CSV,
            [{"text": "a"}, {"text": "b, c", "pair": "d"}, {"text": "e", "choices": ["f", "g"]}],
            False,
        ),
    ],
)
def test_bodies_that_are_read(raw: bytes, format: str, contents: list, single: bool) -> None:
    assert parse(raw, format) == Body(contents, format, single)


@pytest.mark.parametrize(
    ("raw", "format", "message"),
    [
        (b"\xff", JSON, "not UTF-8"),
        (b"", JSON, "no JSON"),
        (b"3", JSON, "send an object"),
        (b"[]", JSON, "send an object"),
        (b'["a"]', JSON, "send an object"),
        (b'{"instances": [], "model": "m"}', JSON, "send an object"),
        (b'{"instances": [{}], "more": 1}', JSON, "beside instances"),
        (b"[" * 100_000, JSON, "nested too deeply"),
        (b'{"text": NaN}', JSON, "NaN is no number"),
        (b'{"text": ' + b"9" * 5000 + b"}", JSON, "no JSON"),
        (b"\n \n", LINES, "asks nothing"),
        (b'{"text": "a"}\n{', LINES, "line 2: no JSON"),
        (b'{"text": "a"}\n\n \n{"text": "b"}\n', LINES, "line 2 is empty, and a text follows: remove it, or"),
        (b'\r\n{"text": "b"}', LINES, "line 1 is empty"),
        (b'a\n"b\nc"\n\n\nd\n', CSV, "line 4 is empty"),
        (b"\na", CSV, "line 1 is empty"),
        (b"[1]", LINES, "line 1: send an object"),
        (b"", CSV, "asks nothing"),
        (b'"open', CSV, "cannot be read"),
        (b"a\0b", CSV, "NUL"),
    ],
)
def test_bodies_that_are_not(raw: bytes, format: str, message: str) -> None:
    with pytest.raises(BodyError, match=message) as refused:
        parse(raw, format)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


@given(st.binary(max_size=300), st.sampled_from([JSON, LINES, CSV]))
def test_no_body_ends_otherwise(raw: bytes, format: str) -> None:
    with contextlib.suppress(BodyError):
        assert parse(raw, format).contents


@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1))
def test_lines_come_back_one_for_one(texts: list[str]) -> None:
    raw = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    body = parse(raw, LINES)
    written = write(body.contents, body, LINES)
    assert [json.loads(line)["text"] for line in written.decode().splitlines()] == texts


def test_answers_are_written_as_they_were_asked() -> None:
    answer = {"label": "good", "probabilities": {"bad": 0.25, "good": 0.75}, "tags": ["O", "B"], "more": [1]}
    assert json.loads(write([answer], Body([{}], JSON, single=True), JSON)) == answer
    assert json.loads(write([answer], Body([{}], JSON), JSON)) == {"predictions": [answer]}
    assert write([answer] * 2, Body([{}], CSV), CSV) == b"good,0.75,O B,[1]\n" * 2
    assert write([{"answer": "half \ud800"}], Body([{}], JSON, single=True), JSON).isascii()


def test_load_takes_any_value() -> None:
    assert load(b" [1, null] ") == [1, None]
    with pytest.raises(BodyError):
        load(b"\xff")
