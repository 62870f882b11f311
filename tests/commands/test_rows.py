"""Rows as JSON lines and as CSV: readable, whole, never with a number that JSON does not have."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.commands.rows import check_file_to_write, json_line, note, readable_row, warn, write_rows
from d2lbert.data import Question, Sentence

ROWS = [
    {"text": 'né, "so"\nso', "label": "x", "probabilities": {"x": 0.75, "y": 0.25}},
    {"words": ["a", "b"], "tags": ["O", "B-X"], "entities": [{"text": "b"}], "start": 3},
]


def test_half_a_surrogate_pair_is_escaped() -> None:
    """JSON may hold one, a file in UTF-8 may not."""
    assert json_line({"text": "né"}) == '{"text": "né"}'
    assert json_line({"text": "né \ud83d"}) == '{"text": "n\\u00e9 \\ud83d"}'


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_never_written(tmp_path: Path, number: float) -> None:
    for path in (tmp_path / "a.jsonl", tmp_path / "a.csv"):
        with pytest.raises(UserError, match="numbers that are not finite: its weights are damaged"):
            write_rows(path, [{"label": "x", "probabilities": {"x": number}}])
    assert not list(tmp_path.iterdir())


def test_rows_are_written_by_the_ending(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", ROWS)
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()] == ROWS
    write_rows(tmp_path / "a.CSV", ROWS)
    with (tmp_path / "a.CSV").open(encoding="utf-8", newline="") as stream:
        first, second = csv.DictReader(stream)
    assert (first["text"], first["label"], first["probability"]) == ('né, "so"\nso', "x", "0.75")
    assert (first["probability of x"], first["probability of y"], first["start"]) == ("0.75", "0.25", "")
    assert (second["words"], second["tags"], second["entities"]) == ("a b", "O B-X", '[{"text": "b"}]')


def test_half_a_surrogate_pair_fits_no_csv(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.csv", [{"text": "a\ud83d"}])
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "text\na?\n"


def test_a_file_is_checked_before_the_work(tmp_path: Path) -> None:
    check_file_to_write(tmp_path / "new" / "a.csv")
    (tmp_path / "a.csv").write_text("mine")
    with pytest.raises(UserError, match=r"a\.csv exists: choose a new file, so that nothing is overwritten"):
        check_file_to_write(tmp_path / "a.csv")
    with pytest.raises(UserError, match=r"the ending says how it is written; call it NAME\.jsonl or NAME\.csv"):
        check_file_to_write(tmp_path / "a.xlsx")
    with pytest.raises(UserError, match="cannot write to folder"):
        check_file_to_write(tmp_path / "a.csv" / "b.csv")


def test_a_row_has_what_was_read_and_what_is_predicted() -> None:
    row = readable_row(Sentence("a"), {"label": "x"})
    assert row == {"text": "a", "label": "x"}
    assert readable_row(Question("q", "c"), {"answer": "c"}) == {"question": "q", "context": "c", "answer": "c"}


def test_notes_and_warnings_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    note("five epochs")
    warn("at chance")
    assert capsys.readouterr().err == "note: five epochs\nwarning: at chance\n"
