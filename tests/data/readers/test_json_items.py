"""Items of a list in a JSON file: those of Python's own reader, whatever the pieces that are read, in little memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from d2lbert.data.readers import json_items as module
from d2lbert.data.readers.json_items import json_items
from d2lbert.errors import UserError

NO_LIST = " has no list"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def write(folder: Path, content: bytes, name: str = "file.json") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@given(items=st.lists(VALUES, max_size=5), before=VALUES, after=VALUES, size=st.integers(1, 40), space=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_items_are_those_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, items: list[Any], before: Any, after: Any, size: int, space: bool
) -> None:
    """Pieces of one byte and more: they end inside numbers, escapes and characters of several bytes."""
    monkeypatch.setattr(module, "_CHUNK", size)
    layout: dict[str, Any] = {"ensure_ascii": size % 2 == 0, "indent": 2 if space else None}
    listed = write(
        tmp_path, json.dumps(items, **layout).encode("utf-8", "surrogatepass" if size % 2 == 0 else "strict")
    )
    assert list(json_items(listed, NO_LIST)) == items
    whole = {"version": before, "data": items, "end": after}
    inside = write(tmp_path, b"\xef\xbb\xbf" + json.dumps(whole, **layout).encode() + b" \n", "inside.json")
    assert list(json_items(inside, NO_LIST, "data")) == items


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        (b"", "", "is not valid JSON (Expecting value: character 1); get the file again, or mend it"),
        (b"[1, 2", "", "is not valid JSON (Expecting ',': character 6)"),
        (b"[1, 2,]", "", "is not valid JSON (Expecting value: character 7)"),
        (b"[1 2]", "", "is not valid JSON (Expecting ',': character 4)"),
        (b"[1] 2", "", "is not valid JSON (Extra data: character 5)"),
        (b'["a', "", "is not valid JSON (Unterminated string starting at: character 2)"),
        (b"[" * 100_000, "", "is not valid JSON ("),
        (b"[" + b"1" * 5000 + b"]", "", "is not valid JSON (Exceeds the limit"),
        (b"[\xff]", "", "is not UTF-8; save the file as UTF-8"),
        (b'{"data": 3}', "", "has no list"),
        (b'{"data": 3}', "data", "has no list"),
        (b'{"date": [], "version": {"data": []}}', "data", "has no list"),
        (b"{}", "data", "has no list"),
        (b"[]", "data", "has no list"),
        (b"{", "data", "is not valid JSON (Expecting a name in double quotes: character 2)"),
        (b'{"data" [1]}', "data", "is not valid JSON (Expecting ':': character 9)"),
        (b'{"data": [1], 2}', "data", "is not valid JSON (Expecting a name in double quotes: character 15)"),
        (b'{"data": [1]', "data", "is not valid JSON (Expecting ',': character 13)"),
        (b'{"a": 1 "data": [1]}', "data", "is not valid JSON (Expecting ',': character 9)"),
    ],
)
def test_what_is_no_such_list_is_one_line(tmp_path: Path, content: bytes, field: str, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(UserError) as caught:
        list(json_items(path, NO_LIST, field))
    assert str(caught.value).startswith(f"{path} {message}")
    assert "\n" not in str(caught.value)


def test_a_place_is_counted_from_the_beginning_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 7)
    path = write(tmp_path, b"[" + b"1234, " * 20 + b"nul]")
    with pytest.raises(UserError, match=r"\(Expecting value: character 122\)"):
        list(json_items(path, NO_LIST))


@pytest.mark.parametrize("number", ["0.5", "1e-7", "-12.25E+3", "true", "null"])
@pytest.mark.parametrize("size", range(1, 11))
def test_a_number_may_be_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, size: int) -> None:
    monkeypatch.setattr(module, "_CHUNK", size)
    path = write(tmp_path, f'{{"version": {number}, "data": [{number}, {number}]}}'.encode())
    assert list(json_items(path, NO_LIST, "data")) == [json.loads(number)] * 2


def test_an_item_may_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 1000)
    monkeypatch.setattr(module, "_CHUNK", 100)
    assert list(json_items(write(tmp_path, json.dumps(["x" * 900] * 9).encode()), NO_LIST)) == ["x" * 900] * 9
    long = "holds a value of more than 1,000 characters; divide it"
    for content, field in ((["x" * 100_000], ""), ([["x"] * 9000], ""), ({"a": "x" * 9000, "data": [1]}, "data")):
        path = write(tmp_path, gzip.compress(json.dumps(content).encode()), "file.json.gz")
        with pytest.raises(UserError) as caught:
            list(json_items(path, NO_LIST, field))
        assert str(caught.value) == f"{path} {long}"


def test_what_is_long_and_no_list_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 1000)
    monkeypatch.setattr(module, "_CHUNK", 100)
    for content, field in (({"data": ["x" * 99] * 99}, ""), (["x" * 99] * 99, "data"), ({"data": "x" * 9999}, "data")):
        path = write(tmp_path, json.dumps(content).encode())
        with pytest.raises(UserError) as caught:
            list(json_items(path, NO_LIST, field))
        assert str(caught.value) == f"{path}{NO_LIST}"


def test_a_fault_is_found_where_it_is_not_at_the_end_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, b'[{"text": "a" "label": 1}' + b"," + b" " * 2**20 + b"2]")
    with pytest.raises(UserError, match=r"\(Expecting ',' delimiter: character 15\)"):
        list(json_items(path, NO_LIST))


def test_the_memory_is_that_of_an_item_not_of_the_file(tmp_path: Path) -> None:
    item = {"title": "T", "paragraphs": ["x" * 50_000]}
    path = tmp_path / "long.json"
    with path.open("w") as file:
        file.write('{"data": [' + ", ".join([json.dumps(item)] * 400) + "]}")
    tracemalloc.start()
    assert sum(1 for _ in json_items(path, NO_LIST, "data")) == 400
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 20e6
    assert peak < 2e6
