"""Files for GLUE's server: its labels, its order, its zip."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from benchmarks.glue_server import FILES, answer, pack, texts, write
from d2lbert.data import Pair, ScoredPair, Sentence


@pytest.mark.parametrize(
    ("name", "prediction", "said"),
    [
        ("CoLA", {"label": "acceptable"}, "1"),
        ("SST-2", {"label": "negative"}, "0"),
        ("MRPC", {"label": "paraphrase"}, "1"),
        ("QQP", {"label": "0"}, "0"),
        ("AX", {"label": "neutral"}, "neutral"),
        ("RTE", {"label": "not_entailment"}, "not_entailment"),
        ("STS-B", {"score": 5.2}, "5.000"),
        ("STS-B", {"score": -0.1}, "0.000"),
        ("STS-B", {"score": 2.34567}, "2.346"),
    ],
)
def test_answers_in_its_words(name: str, prediction: dict[str, object], said: str) -> None:
    assert answer(name, prediction) == said


def test_every_row_of_a_test_file_is_an_example(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text('id\tquestion1\tquestion2\n0\tWhat now?\t\n1\tA "b\tC\n')
    assert texts(path, ("question1", "question2")) == [Pair("What now?", ""), Pair('A "b', "C")]
    assert texts(path, ("question1", "question2"), scored=True)[1] == ScoredPair('A "b', "C")
    assert texts(path, ("question1",)) == [Sentence("What now?"), Sentence('A "b')]


def test_the_zip_comes_once_all_files_are_there(tmp_path: Path) -> None:
    for name in FILES[:-1]:
        write(tmp_path, name, ["0", "1"])
    assert pack(tmp_path) == ["AX"]
    assert not (tmp_path / "submission.zip").exists()
    write(tmp_path, "AX", ["neutral"])
    assert pack(tmp_path) == []
    with zipfile.ZipFile(tmp_path / "submission.zip") as archive:
        assert sorted(archive.namelist()) == sorted(f"{name}.tsv" for name in FILES)
        assert archive.read("RTE.tsv").decode() == "index\tprediction\n0\t0\n1\t1\n"
