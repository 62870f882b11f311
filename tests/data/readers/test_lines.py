"""Lines of text files: numbers, ends, packed and damaged files, and the checks of a column."""

from __future__ import annotations

import gzip
import lzma
import zipfile
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data import read_file
from d2lbert.data.readers import lines as reader
from d2lbert.data.readers.lines import (
    archive_texts,
    count_columns,
    csv_rows,
    fault,
    file_ending,
    filled,
    find_column,
    find_columns,
    is_visible,
    nonblank_lines,
    parse_index,
    parse_label,
    parse_score,
    tab_rows,
    texts_inside,
    whole_bytes,
)


def write(folder: Path, content: bytes, name: str = "file.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_lines_are_numbered_and_lose_their_ends(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeffone\r\n\n \ntwo\u2028three\x85\nlast".encode())
    assert list(reader.lines(path)) == [(1, "one"), (2, ""), (3, " "), (4, "two\u2028three\x85"), (5, "last")]
    assert list(nonblank_lines(path)) == [(1, "one"), (4, "two\u2028three\x85"), (5, "last")]


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_are_unpacked_on_the_way(tmp_path: Path, ending: str, pack: object) -> None:
    assert callable(pack)
    path = write(tmp_path, pack(b"one\ntwo\n"), "file.txt" + ending)
    assert list(reader.lines(path)) == [(1, "one"), (2, "two")]


def test_the_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, b"fine\n\xff\n")
    with pytest.raises(UserError, match=r"file\.txt, line 2: not UTF-8; save the file as UTF-8"):
        list(reader.lines(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.tsv", b"", "holds no examples"),
        ("missing.tsv", None, "cannot read .*missing.tsv: No such file"),
        ("folder", "folder", "folder is a folder: give a file in it"),
        ("broken.xz", lzma.compress(b"good\t1\n" * 1000)[:40], "broken.xz is damaged"),
        ("broken.gz", gzip.compress(b"good\t1\n" * 1000, mtime=0)[:30], "broken.gz is damaged"),
        ("not.gz", b"good\t1\n", "not.gz is damaged"),
        # The reserved kind of block stands where the packed bytes begin.
        ("start.gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 9, "start.gz is damaged .*invalid block type"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # bytes are no name for a test
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | str | None, message: str) -> None:
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_file(path, "sst2")
    assert "\n" not in str(caught.value)


def test_rows_of_csv_have_the_number_of_their_last_line(tmp_path: Path) -> None:
    path = write(tmp_path, b'a,b\n"c\nd",e\n\nf\n')
    assert list(csv_rows(path)) == [(1, ["a", "b"]), (3, ["c\nd", "e"]), (5, ["f"])]


def test_rows_of_tabs_take_quotes_literally(tmp_path: Path) -> None:
    assert list(tab_rows(write(tmp_path, b'"a\tb"\t\n\nc\n'))) == [(1, ['"a', 'b"', ""]), (3, ["c"])]


def test_files_of_an_archive_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("data/b.txt", "data/a.txt", "other/c.txt"):
            archive.writestr(name, f"content of {name}")
    texts = list(archive_texts(path, r"data/.*\.txt"))
    assert [text for _, text in texts] == ["content of data/a.txt", "content of data/b.txt"]
    assert texts[0][0] == f"{path}, data/a.txt"


def test_a_name_below_an_archive_matches_files_in_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "corpus.zip", "w") as archive:
        for name in ("a/c19", "a/c10", "a/c2", "a/read.me", "b/c10"):
            archive.writestr(name, f"content of {name}")
    found = list(texts_inside(tmp_path / "corpus.zip" / "a" / "c1[0-9]"))
    assert found == [(f"{tmp_path / 'corpus.zip'}, {name}", f"content of {name}") for name in ("a/c10", "a/c19")]
    with pytest.raises(UserError, match=r"corpus.zip holds no a/c3\*; get the archive again"):
        list(texts_inside(tmp_path / "corpus.zip" / "a" / "c3*"))


def test_a_plain_file_takes_the_place_of_an_archive(tmp_path: Path) -> None:
    path = write(tmp_path, "caf\xe9".encode("latin-1"))
    assert list(texts_inside(path, "latin-1")) == [(str(path), "caf\xe9")]
    with pytest.raises(UserError, match=r"file.txt is not UTF-8; get the file again"):
        list(texts_inside(path))
    with pytest.raises(UserError, match=r"cannot read .*absent"):
        list(texts_inside(tmp_path / "absent"))
    with pytest.raises(UserError, match=r"cannot read .*absent.zip"):
        list(texts_inside(tmp_path / "absent.zip" / "file"))


def test_columns_are_found_by_name() -> None:
    assert find_columns("f", ["id", " text ", "label"], ["label", "text"]) == [2, 1]
    with pytest.raises(UserError, match=r"^f, line 1: no column 'text' \(found: 'id'\); name the columns text and "):
        find_columns("f", ["id"], ["text", "label"])
    assert (count_columns(["a"]), count_columns(["a", "b"])) == ("1 column", "2 columns")


def test_a_label_is_a_name() -> None:
    assert parse_label("f", 1, " yes ", ["no", "yes"]) == "yes"
    assert parse_label("f", 1, "anything", None) == "anything"
    assert parse_label("f", 1, "1", ["1", "2"]) == "1"  # a name that is a number is a name
    for label, labels in (("0", ["no", "yes"]), ("-1", ["no", "yes"]), ("0", ["1", "2"]), ("²", ["a", "b", "c"])):
        with pytest.raises(UserError, match=f"f, line 7: the label '{label}' is not one of"):
            parse_label("f", 7, label, labels)


def test_a_number_is_a_label_where_it_is_known_what_it_means() -> None:
    """In a format with fixed numbers whose names the model has, and for a model that has no names."""
    both = ["yes", "no"]  # in an order of their own, as of a model
    assert [parse_label("f", 1, number, both, ("no", "yes")) for number in "01"] == ["no", "yes"]
    assert parse_label("f", 1, "1", ["1", "no"], ("no", "yes")) == "1"
    assert parse_label("f", 1, "1", ["LABEL_0", "LABEL_1"]) == "LABEL_1"
    write_names = "write these names: a number has a meaning in the format of a data set alone, such as --format sst2"
    for label, labels, numbered, message in (
        ("1", ["neg", "pos"], (), f"the label '1' is not one of neg, pos; {write_names}"),
        ("0.0", ["neg", "pos"], (), f"the label '0.0' is not one of neg, pos; {write_names}"),
        ("1", ["neg", "pos"], ("no", "yes"), "the label '1' (yes) is not one of neg, pos; write these names"),
        ("2", both, ("no", "yes"), "the label '2' is not one of 0 = no, 1 = yes; correct the label"),
        ("2", ["LABEL_0"], (), "the label '2' is not one of 0 = LABEL_0; correct the label"),
        ("1", ["LABEL_1", "LABEL_0"], (), f"the label '1' is not one of LABEL_1, LABEL_0; {write_names}"),
        ("2", ["1", "3"], (), "the label '2' is not one of 1, 3; correct the label"),
        ("x", ["neg", "pos"], (), "the label 'x' is not one of neg, pos; correct the label"),
    ):
        with pytest.raises(UserError) as caught:
            parse_label("f", 7, label, labels, numbered)
        assert str(caught.value) == f"f, line 7: {message}"


def test_a_number_of_thousands_of_digits_is_no_index() -> None:
    assert parse_index("1", 2) == 1
    assert [parse_index(text, 2) for text in ("2", "-1", "²", "", "1" * 5000)] == [None] * 5
    with pytest.raises(UserError, match=f"the label '{'1' * 40}' is not one of 0 = no, 1 = yes"):
        parse_label("f", 1, "1" * 5000, ["no", "yes"], ("no", "yes"))


def test_a_line_may_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed file of two megabytes can unpack to one line of gigabytes."""
    monkeypatch.setattr(reader, "LONGEST_LINE", 20)
    path = write(tmp_path, gzip.compress(b"short\n" + b"x" * 21 + b"\n"), "file.csv.gz")
    with pytest.raises(UserError, match=r"file\.csv\.gz, line 2: longer than"):
        list(reader.lines(path))
    assert len(list(reader.lines(write(tmp_path, b"x" * 19 + b"\nshort\n")))) == 2
    quoted = write(tmp_path, b'a\n"' + b"x\n" * 30, "open.csv")
    with pytest.raises(UserError, match=r"open\.csv, line \d+: not valid CSV: field larger than field limit"):
        list(csv_rows(quoted))


def test_a_whole_file_may_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, gzip.compress(b"x" * 100), "file.txt.gz")
    assert whole_bytes(path) == b"x" * 100
    monkeypatch.setattr(reader, "LARGEST_WHOLE", 50)
    with pytest.raises(UserError, match=r"file\.txt\.gz holds more than .* MiB; divide it"):
        whole_bytes(path)


def test_a_column_is_found_in_any_case_and_only_once() -> None:
    assert find_column("f", ["ID", " Text "], "text") == 1
    assert find_column("f", ["Text", "text"], "text") == 1  # the very name comes first
    assert find_column("f", ["id", "id"], "text") is None
    for header in (["text", "text"], ["Text", "TEXT"]):
        with pytest.raises(UserError, match="f, line 1: 2 columns are called 'text'; rename or remove one"):
            find_column("f", header, "text")


def test_the_unit_of_a_fault_is_that_of_the_file() -> None:
    assert str(fault("a.parquet", 2, "x", "y")) == "a.parquet, row 2: x; y"
    assert str(fault("a.JSON.gz", 2, "x", "y")) == "a.JSON.gz, item 2: x; y"
    assert file_ending("a.CSV.xz") == ".csv"
    assert file_ending("a") == file_ending("a.gz") == ""


def test_scores_are_finite_numbers() -> None:
    assert parse_score("f", 1, " 4.5 ") == 4.5
    for score in ("", "high", "nan", "inf"):
        with pytest.raises(UserError, match=f"f, line 3: the score '{score}' is not a number"):
            parse_score("f", 3, score)


def test_empty_texts_are_refused() -> None:
    assert not any(map(is_visible, ("", " \t\x1f", "\u200b\ufeff", "\xad")))
    assert is_visible("\u200b.")
    assert filled("f", 1, " a b ") == "a b"
    with pytest.raises(UserError, match="f, line 2: the question is empty; fill it in or remove the line"):
        filled("f", 2, " \t", "question")
    assert str(fault("f", 4, "torn", "mend it")) == "f, line 4: torn; mend it"
