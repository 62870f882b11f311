"""The manifest is complete and true; the bundled copy is the same as the checkout's."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from d2lbert import UserError, data
from d2lbert.data import derivation, manifest
from d2lbert.storage import places

NEEDED = ["bert_vocab", "google_analogies", "multi30k", "sst2", "sst2_glue", "wic", "wikipedia_en", "word_similarity"]
NAMES = data.names()
PINNED = re.compile(r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}/\S+")


def test_the_sets_that_the_chapters_read_are_there() -> None:
    assert set(NEEDED) <= set(NAMES)


def test_the_manifest_of_a_checkout_is_the_one_at_its_root(root: Path) -> None:
    assert places.home() == root / "data"


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_is_complete(name: str) -> None:
    entry = data.info(name)
    for field in ("folder", "task", "licence", "citation", "source"):
        assert getattr(entry, field), field
    assert entry.source.startswith("https://")
    assert len({file.name for file in entry.files}) == len(entry.files) > 0
    for file in entry.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.size > 0
        assert "/" not in file.name
        # No address, or that of an original: the note says so.
        assert PINNED.fullmatch(file.url) if file.url else "erived" in entry.note
        if file.derived:
            assert file.url
            assert "erived" in entry.note
            assert file.derived["by"] in derivation.RECIPES
        assert bool(file.unpacked_sha256) == (file.derived.get("by") == "packed")
    assert entry.size == sum(file.size for file in entry.files)


def test_only_these_sets_have_no_address() -> None:
    """CoNLL-2003 by its licence; the others are prepared text, which is not published in this form."""
    without = {name for name in NAMES if not all(file.url for file in data.info(name).files)}
    assert without == {"conll2003", "wikipedia_en", "wikipedia_zh"}


@pytest.mark.parametrize("name", NAMES)
def test_splits_and_samples_name_files_that_exist(name: str, root: Path) -> None:
    entry = data.info(name)
    names = {file.name for file in entry.files}
    for files in entry.splits.values():
        assert {file.partition("/")[0] for file in files} <= names  # below an archive: files in it
    assert set(entry.splits) <= {"train", "dev", "test"}
    assert bool(entry.splits) == bool(entry.format)
    if entry.samples:
        assert entry.samples.keys() == entry.splits.keys()
    for files in entry.samples.values():
        for file in files:
            assert (root / "data" / "samples" / entry.folder / file).is_file()


def test_every_set_that_chapters_read_by_split_has_a_sample() -> None:
    assert [name for name in NEEDED if data.info(name).format and not data.info(name).samples] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_real_files_are_those_of_the_manifest(name: str, real_data: Path) -> None:
    entry = data.info(name)
    for file in entry.files:
        content = (real_data / entry.folder / file.name).read_bytes()
        assert len(content) == file.size
        assert hashlib.sha256(content).hexdigest() == file.sha256
    assert data.fetch(name) == real_data / entry.folder


def test_a_damaged_manifest_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "manifest.toml").write_text("[sst2\n")
    with pytest.raises(UserError, match="is not valid TOML") as caught:
        manifest.read_manifest(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"cannot read .*install d2lbert again"):
        manifest.read_manifest(tmp_path / "nowhere")
