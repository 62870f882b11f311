"""The archive of BLiMP: a small one by hand, damaged ones, and the real one."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from d2lbert import UserError, data
from d2lbert.data import MinimalPair
from d2lbert.data.readers.corpora import minimal_pairs

LINE = json.dumps({"sentence_good": "Cats sleep.", "sentence_bad": "Cats sleeps.", "UID": "agreement", "field": "x"})


def archive(path: Path, content: str) -> Path:
    """Write an archive with one paradigm and what else a Macintosh puts in."""
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("data/agreement.jsonl", content)
        packed.writestr("__MACOSX/data/._agreement.jsonl", "\x00\x05")
        packed.writestr("data/.DS_Store", "\x00")
    return path


def test_pairs_are_read_and_other_files_left_aside(tmp_path: Path) -> None:
    path = archive(tmp_path / "BLiMP.zip", LINE + "\n" + LINE + "\n")
    assert list(minimal_pairs(path)) == [MinimalPair("Cats sleep.", "Cats sleeps.", "agreement")] * 2


@pytest.mark.parametrize("line", ["{", "[]", '{"sentence_good": "a", "sentence_bad": "b"}'])
def test_a_line_that_is_no_pair(tmp_path: Path, line: str) -> None:
    path = archive(tmp_path / "BLiMP.zip", LINE + "\n" + line + "\n")
    with pytest.raises(UserError, match=r"agreement\.jsonl, line 2: not a pair of BLiMP"):
        list(minimal_pairs(path))


def test_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "BLiMP.zip"
    with pytest.raises(UserError, match="cannot read"):
        list(minimal_pairs(path))
    path.write_bytes(b"PK no more")
    with pytest.raises(UserError, match="is damaged"):
        list(minimal_pairs(path))


def test_the_real_archive(real_data: Path) -> None:
    counts = Counter(pair.paradigm for pair in data.load("blimp", "test"))
    assert len(counts) == 67
    assert set(counts.values()) == {1000}
