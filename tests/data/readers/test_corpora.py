"""The readers of texts without labels: paragraphs, translations, the archive of BLiMP; by hand, damaged, and real."""

from __future__ import annotations

import gzip
import json
import lzma
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from d2lbert import UserError, data
from d2lbert.data import Document, MinimalPair, Translation, read
from d2lbert.data.readers import corpora
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


def write(folder: Path, text: str | bytes, name: str = "file.tsv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_real_wikipedia_has_the_documents_and_paragraphs_of_its_readme(real_data: Path) -> None:
    documents = paragraphs = 0
    for split in ("train", "dev"):
        for document in read("wikipedia_en", split):
            documents += 1
            paragraphs += len(document.paragraphs)
    assert (documents, paragraphs) == (25_623, 146_620)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_paragraphs_of_documents_plain_and_packed(tmp_path: Path, ending: str) -> None:
    text = b"\n\nfirst\nsecond\n\n \n\nthird\n"
    packed = {"": lambda data: data, ".gz": gzip.compress, ".xz": lzma.compress}[ending](text)
    path = write(tmp_path, packed, "text.txt" + ending)
    assert list(corpora.paragraphs(path)) == [Document(("first", "second")), Document(("third",))]


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (30 + len("data/a.jsonl"), 0xFF, "invalid block type"),  # the first packed byte, below a header of 30 bytes
        (6, 0x01, "is encrypted"),
        (6, 0x40, "strong encryption"),
        (0, 0x00, "Bad magic number"),
    ],
)
def test_a_damaged_archive_is_one_line(tmp_path: Path, offset: int, value: int, reason: str) -> None:
    path = tmp_path / "pairs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/a.jsonl", "a line\n" * 9)
    content = bytearray(path.read_bytes())
    content[offset] = value
    if offset == 6:  # the list at the end of the archive repeats the flags of a file, 8 bytes into its entry
        content[content.index(b"PK\x01\x02") + 8] = value
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"pairs.zip is damaged \(.*{reason}.*\); get the file again") as caught:
        list(corpora.minimal_pairs(path))
    assert "\n" not in str(caught.value)


def test_translations_are_read_line_to_line(tmp_path: Path) -> None:
    source, target = write(tmp_path, "One.\n Two. \n", "a.en"), write(tmp_path, "Eins.\nZwei.\n", "a.de")
    assert list(corpora.translations(source, target)) == [
        Translation("One.", "Eins."),
        Translation("Two.", "Zwei."),
    ]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\n", "x\n", r"a.de ends after line 1, but \S+a.en goes on; the two belong line to line"),
        ("a\n", "x\ny\n", r"a.en ends after line 1, but \S+a.de goes on"),
        ("a\n\nc\n", "x\ny\nz\n", "a.en, line 2: the line is empty; fill it in, or remove it from both"),
        ("a\nb\n", "x\n \t\n", "a.de, line 2: the line is empty"),
    ],
)
def test_faults_of_translations(tmp_path: Path, source: str, target: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        list(corpora.translations(write(tmp_path, source, "a.en"), write(tmp_path, target, "a.de")))
    assert "\n" not in str(caught.value)
