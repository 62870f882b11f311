"""Readers under arbitrary bytes: examples or one line, never another exception."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.data.examples import Question
from d2lbert.data.pretraining.corpus import read_documents
from d2lbert.data.readers import choices, formats, lines
from d2lbert.data.readers.questions import squad

SURFACE = "1f readers under any bytes"
READERS: dict[str, Callable[..., Any]] = {
    f"{task} {name}": reader for task, readers in formats.READERS.items() for name, reader in readers.items()
}
READERS["corpus"] = lambda path: read_documents([path])

# Pieces of the formats, so that much of a file is right: bytes at random never come further than the first line.
WORDS = [
    "text",
    "label",
    "sentence",
    "first",
    "second",
    "sent1",
    "sent2",
    "ending0",
    "ending1",
    "score",
    "0",
    "1",
    "-1",
]
WORDS += [
    "good",
    "\u200b",
    "\x00",
    "\ufeff",
    "B-PER",
    "I-PER",
    "O",
    "-DOCSTART-",
    "T",
    "F",
    "2-5",
    "nan",
    "é",
    "\u2028",
]
WORDS += ["<set>", "<pair", ' entailment="YES">', "<t>a</t>", "<h>b</h>", "</pair>", "</set>", "<!DOCTYPE", "<item>"]
JOINS = [",", "\t", "\n", "\r\n", " ", '"', "\r", "", ";"]
mixtures = st.lists(st.sampled_from(WORDS + JOINS), max_size=40).map(lambda words: "".join(words).encode())
tables = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), max_size=6)
rows = st.tuples(st.sampled_from([",", "\t"]), tables).map(
    lambda pair: "".join(pair[0].join(row) + "\n" for row in pair[1]).encode()
)
contents = st.one_of(st.binary(max_size=200), mixtures, rows)


def _read(reader: Callable[..., Any], content: bytes, name: str = "file.data.txt") -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        path.with_name("file.gold.txt").write_bytes(content)  # that WiC's reader looks for
        said = ""
        try:
            list(reader(path))
        except UserError as error:
            said = str(error)
        assert "\n" not in said


@pytest.mark.parametrize("name", READERS)
@given(content=contents)
def test_any_bytes(name: str, content: bytes) -> None:
    """Numbers of more than 4,300 digits, which Python does not convert, are among the attacks on files."""
    _read(READERS[name], content)


@pytest.mark.parametrize("ending", ["gz", "xz"])
@given(content=st.binary(max_size=200))
def test_any_bytes_as_a_packed_file(ending: str, content: bytes) -> None:
    _read(lambda path: lines.lines(path), content, f"file.txt.{ending}")


@pytest.mark.parametrize("kind", ["gz", "xz"])
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.integers(0, 10**6))
def test_a_packed_file_with_a_wrong_bit_or_an_early_end(kind: str, place: int, bit: int, cut: int) -> None:
    import gzip
    import lzma

    packed = bytearray((gzip if kind == "gz" else lzma).compress(b"a good film\tpositive\n" * 50))
    packed[place % len(packed)] ^= 1 << bit
    _read(lambda path: lines.lines(path), bytes(packed[: 1 + cut % len(packed)]), f"file.txt.{kind}")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 40) | st.floats() | st.sampled_from(["the river", "", " ", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def _change(content: Any, path: list[int], value: Any) -> Any:
    """Put a value somewhere into lists and dictionaries; the path says where."""
    if not path or not isinstance(content, dict | list) or not content:
        return value
    keys = sorted(content) if isinstance(content, dict) else list(range(len(content)))
    key = keys[path[0] % len(keys)]
    changed = dict(content) if isinstance(content, dict) else list(content)
    changed[key] = _change(content[key], path[1:], value)
    return changed


@given(path=st.lists(st.integers(0, 5), max_size=9), value=json_values)
def test_questions_with_any_value_anywhere(path: list[int], value: Any) -> None:
    answer = {"text": "the river", "answer_start": 12}
    question = {"id": "1", "question": "Where?", "answers": [answer], "is_impossible": False}
    paragraph = {"context": "They sat at the river.", "qas": [question]}
    content = _change({"data": [{"title": "t", "paragraphs": [paragraph]}]}, path, value)
    _read(squad, json.dumps(content).encode())


@given(premise=st.text(max_size=20), answer=st.integers(-3, 3))
def test_questions_of_copa_are_swapped_or_refused(premise: str, answer: int) -> None:
    question = choices.ChoiceQuestion(premise, ("a", "b"), answer)
    with pytest.raises(UserError):
        choices.swap_question(question)
    whole = choices.ChoiceQuestion(f"{premise} {choices.QUESTIONS['cause']}", ("a", "b"), answer)
    assert choices.swap_question(choices.swap_question(whole)) == whole


def test_a_question_is_read() -> None:
    """The file that is changed above is right before it is changed."""
    answer = {"text": "the river", "answer_start": 12}
    paragraph = {"context": "They sat at the river.", "qas": [{"question": "Where?", "answers": [answer]}]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.json"
        path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]}))
        (found,) = squad(path)
    assert isinstance(found, Question)
