"""The official sets: what is read of archives laid out as the published ones are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from official_support import publish

from benchmarks.archives import Archive
from benchmarks.official_sets import SETS, digests
from d2lbert import UserError
from d2lbert.data import Pair
from d2lbert.data.published import published
from d2lbert.data.readers.formats import read_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("archives")
    publish(made)
    return made


def test_empty_questions_of_qqp_are_read_as_published(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = SETS["qqp"].train(folder)
    assert len(train) == 24
    assert train[3] == Pair("How can I create an app?", "", "0")
    assert "1 lines without 6 columns left out" in capsys.readouterr().out
    with pytest.raises(UserError, match="line 5: the text is empty"):  # a user's file is read as strictly as ever
        read_file(folder / "whole-QQP-train.tsv", "glue-tsv", task="pair")


def test_mrpc_is_divided_by_glues_list_and_its_test_is_apart(folder: Path) -> None:
    mrpc = SETS["mrpc"]
    train, dev, test = mrpc.train(folder), mrpc.scored["dev"][0](folder), mrpc.scored["test"][0](folder)
    assert (len(train), len(dev), len(test)) == (16, 8, 12)
    assert dev[1] == Pair("There was wind on day 3.", "Day 3 had fog.", "paraphrase")
    assert not set(train) & set(dev)
    assert train[0].first == "There was sun on day 1."  # no mark of byte order, no carriage return


@pytest.mark.parametrize("name", [name for name in SETS if name != "conll2003"])
def test_every_part_is_read(folder: Path, name: str) -> None:
    official = SETS[name]
    assert len(official.train(folder)) >= 16
    for read, board, column in official.scored.values():
        assert len(read(folder)) in (8, 12)
        if board:
            assert published(board).value("BERT-base", column)


def test_conll_must_be_the_real_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("d2lbert.data.is_sample", lambda name: True)
    with pytest.raises(UserError, match=r"CoNLL-2003 is not here: put its three files into \$D2LBERT_DATA"):
        SETS["conll2003"].train(tmp_path)
    monkeypatch.setattr("d2lbert.data.is_sample", lambda name: False)
    assert SETS["conll2003"].train(tmp_path)[0].tags


def test_every_archive_has_the_digest_of_the_published_file(folder: Path) -> None:
    archives = {archive for official in SETS.values() for archive in official.archives}
    assert all(isinstance(one, Archive) and re.fullmatch("[0-9a-f]{64}", one.sha256) for one in archives)
    assert len({one.sha256 for one in archives}) == len(archives)
    found, as_published = digests(SETS["mnli"], folder)
    assert set(found) == {"MNLI.zip", "AX.tsv"}
    assert not as_published
