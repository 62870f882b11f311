"""Tables in every format: the same rows under the same header, separators, and what is no table."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.data.readers.tables import FORMATS, MISSING, Columns, find_separator, parse_separator, read_table

ROWS = [{"id": 1, "text": "salt, then\npepper", "label": "cooking"}, {"id": 2, "text": 'he said "go"', "label": None}]


def write(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _files(folder: Path) -> dict[str, Path]:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), folder / "rows.parquet")
    csv = 'id,text,label\n1,"salt, then\npepper",cooking\n2,"he said ""go""",\n'
    return {
        "csv": write(folder, csv, "rows.csv"),
        "jsonl": write(folder, "\n\n".join(map(json.dumps, ROWS)), "rows.jsonl"),
        "json": write(folder, json.dumps(ROWS, indent=1), "rows.json"),
        "parquet": folder / "rows.parquet",
    }


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    tables = {format: read_table(path, format) for format, path in _files(tmp_path).items()}
    assert set(tables) == {*FORMATS} - {"tsv"}  # which can hold no line end
    for format, table in tables.items():
        assert table.header == ("id", "text", "label"), format
        rows = [[str(value or "") for value in row] for _, row in table.rows]
        assert rows == [["1", "salt, then\npepper", "cooking"], ["2", 'he said "go"', ""]], format


def test_numbers_are_those_of_lines_items_and_rows(tmp_path: Path) -> None:
    numbers = {name: [n for n, _ in read_table(path, name).rows] for name, path in _files(tmp_path).items()}
    assert numbers == {"csv": [3, 4], "jsonl": [1, 3], "json": [1, 2], "parquet": [1, 2]}


def test_quotes_of_a_tsv_are_literal(tmp_path: Path) -> None:
    path = write(tmp_path, '\ufefftext\tlabel\n"so so\tbad\n', "rows.tsv")
    assert list(read_table(path, "tsv").rows) == [(2, ['"so so', "bad"])]
    assert read_table(path, "tsv").header == ("text", "label")
    bare = read_table(path, "tsv", headed=False)
    assert (bare.header, len(list(bare.rows))) == (("text", "label"), 2)
    assert read_table(write(tmp_path, "a\tb\tc\n", "b.tsv"), "tsv", headed=False).header == ("text", "label", "")


@pytest.mark.parametrize(
    ("header", "separator"),
    [("text,label", ","), ("text;label", ";"), ("text\tlabel", "\t"), ("a|b|c", "|"), ('"a,b,c";d;e', ";"), ("a", ",")],
)
def test_the_separator_is_found_in_the_first_line(tmp_path: Path, header: str, separator: str) -> None:
    path = write(tmp_path, f"\n{header}\n", "rows.csv")
    assert find_separator(path) == separator


def test_the_separator_may_be_given(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b;c\nd;e,f\n", "rows.csv")
    assert read_table(path, "csv", ";").header == ("a,b", "c")
    assert [parse_separator(text) for text in ("", ";", "TAB", "\\t", "semicolon")] == ["", ";", "\t", "\t", ";"]
    for wrong in ("::", '"', "\n"):
        with pytest.raises(UserError, match="is not one character: give one such as ; or the word tab"):
            read_table(path, "csv", wrong)


def test_objects_may_lack_a_column_of_the_others(tmp_path: Path) -> None:
    path = write(tmp_path, '{"text": "a", "label": "x"}\n{"text": "b", "more": 1}\n', "rows.jsonl")
    assert [row for _, row in read_table(path, "jsonl").rows] == [["a", "x", MISSING], ["b", MISSING, 1]]
    path = write(tmp_path, '{"text": null}\n{"text": "b"}\n', "rows.jsonl")
    assert [row for _, row in read_table(path, "jsonl").rows] == [[None], ["b"]]


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        ("jsonl", '{"text": "a"}\n{"text": \n', "line 2: not valid JSON .*; write one JSON object on each line"),
        ("jsonl", "[1]\n", "line 1: a list where an object is wanted"),
        ("jsonl", "[" * 100_000, "line 1: not valid JSON"),
        ("json", '{"text": "a"}', "holds no list of objects; write"),
        ("json", "[3]", "item 1: a int where an object is wanted"),
        ("parquet", "text,label\n", "is not a Parquet file"),
        ("parquet", "", "is not a Parquet file"),
    ],
)
def test_what_is_no_table_is_one_line(tmp_path: Path, format: str, text: str, message: str) -> None:
    path = write(tmp_path, text, f"rows.{format}")
    with pytest.raises(UserError, match=message) as caught:
        list(read_table(path, format).rows)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("format", FORMATS)
def test_a_missing_file_is_one_line_and_an_empty_one_has_no_rows(tmp_path: Path, format: str) -> None:
    with pytest.raises(UserError, match=r"cannot read .*nothing: No such file or directory; check"):
        list(read_table(tmp_path / "nothing", format).rows)
    if format in ("csv", "tsv", "jsonl"):
        table = read_table(write(tmp_path, "", "empty"), format)
        assert (table.header, list(table.rows)) == ((), [])


def test_damage_within_a_parquet_file_is_one_line(tmp_path: Path) -> None:
    path = _files(tmp_path)["parquet"]
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"rows\.parquet is (damaged|not a Parquet file)"):
        list(read_table(path, "parquet").rows)


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"Parquet needs pyarrow: run pip install 'd2lbert\[parquet\]'"):
        read_table(tmp_path / "rows.parquet", "parquet")


def test_packed_tables_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(ROWS[0]).encode()))
    assert read_table(path, "jsonl").header == ("id", "text", "label")


def test_a_row_has_a_value_for_each_column(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a,b\n", "rows.csv"), "csv")
    row: list[Any] = ["x"]
    table.check(2, [*row, "y"])
    with pytest.raises(UserError, match=r"rows\.csv, line 2: 1 column where the header has 2; mend the line"):
        table.check(2, row)


def test_a_column_is_that_of_the_user_or_the_first_known(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "Ticket,Sentence,text\n", "rows.csv"), "csv")
    assert table.find(("text", "sentence"), "", "--text-column") == 2
    assert table.find(("text", "sentence"), "ticket", "--text-column") == 0
    assert table.find_if_there(("label",)) is None
    message = r"rows\.csv, line 1: no column 'body' \(found: 'Ticket', 'Sentence', 'text'\); name the column with --t"
    with pytest.raises(UserError, match=message):
        table.find(("text",), "body", "--text-column")


def test_columns_know_whether_something_was_said() -> None:
    assert not Columns().given
    assert Columns(separator=";").given
    assert Columns(score_column="similarity").given
    with pytest.raises(UserError, match="--label-column beside --score-column: give one of them"):
        Columns(label_column="same", score_column="similarity")
