"""What shards were made from: the same text is known again wherever it is, and any other is refused by its name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.data.pretraining import origin
from d2lbert.data.pretraining.corpus import learn_vocabulary
from d2lbert.data.pretraining.origin import check_origin, origin_of
from d2lbert.data.pretraining.shards import TokenShards, prepare

OPTIONS = {"--cased": False, "--dev-share": 0.01}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in paths:
        path.write_text(f"The text of {path.name}. It has two sentences.\n")
    return paths


@pytest.fixture
def shards(files: list[Path], tmp_path: Path) -> TokenShards:
    tokenizer = learn_vocabulary(files, 200)
    prepare(files, tmp_path / "shards", tokenizer, origin=origin_of(files, OPTIONS))
    return TokenShards.open(tmp_path / "shards")


def test_the_same_text_is_known_again_wherever_it_is(shards: TokenShards, files: list[Path], tmp_path: Path) -> None:
    check_origin(shards, files, OPTIONS)
    (tmp_path / "moved").mkdir()
    moved = [Path(shutil.copy(path, tmp_path / "moved" / f"other-{path.name}")) for path in files]
    check_origin(shards, moved, OPTIONS)
    assert str(tmp_path) not in (shards.folder / "index.json").read_text()


def test_what_has_not_changed_is_not_read_again(
    shards: TokenShards, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    digest = origin.sha256_of

    def recorded(path: Path) -> str:
        read.append(path.name)
        return digest(path)

    monkeypatch.setattr(origin, "sha256_of", recorded)
    check_origin(shards, files, OPTIONS)
    assert not read
    os.utime(files[1])
    check_origin(shards, files, OPTIONS)
    assert read == ["b.txt"]


def test_another_text_is_refused(shards: TokenShards, files: list[Path], tmp_path: Path) -> None:
    """Of the same length and name, with its time of change set back; in another order; one more."""
    before = files[1].stat()
    changed = tmp_path / "elsewhere"
    changed.mkdir()
    (changed / "b.txt").write_text(files[1].read_text().replace("two", "six"))
    os.utime(changed / "b.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    remedy = rf"give what it was, or remove {shards.folder} to prepare the corpus anew"
    for others, message in [
        ([files[0], changed / "b.txt"], rf"file 2 of the corpus: prepared from b.txt .* another text: {remedy}"),
        (files[::-1], "file 1 of the corpus: prepared from a.txt of .* now it is .*b.txt of"),
        ([*files, files[0]], f"was prepared from 2 files, now there are 3: {remedy}"),
    ]:
        with pytest.raises(UserError, match=message) as caught:
            check_origin(shards, others, OPTIONS)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--cased": True}, "was prepared with --cased False, now it is True: give what it was"),
        ({"--dev-share": 0.2}, "was prepared with --dev-share 0.01, now it is 0.2"),
        ({"--vocab": "sha256 abc"}, "was prepared with --vocab None, now it is sha256 abc"),
    ],
)
def test_other_options_are_refused(
    shards: TokenShards, files: list[Path], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_origin(shards, files, {**OPTIONS, **change})


def test_shards_that_do_not_tell_are_refused(files: list[Path], tmp_path: Path) -> None:
    shards = prepare(files, tmp_path / "old", learn_vocabulary(files, 200))
    with pytest.raises(UserError, match=rf"does not tell what it was made from: give --corpus {tmp_path / 'old'}"):
        check_origin(shards, files, OPTIONS)


def test_the_origin_is_no_part_of_the_digest(shards: TokenShards, files: list[Path], tmp_path: Path) -> None:
    """The same tokens are the same corpus for a run that goes on."""
    alone = prepare(files, tmp_path / "alone", learn_vocabulary(files, 200))
    assert alone.digest() == shards.digest()


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory; check the path"):
        origin.digest_of(tmp_path)
