"""Files that are made from published originals: small ones by hand, and the real ones byte for byte."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from d2lbert import data
from d2lbert.data import derivation
from d2lbert.data.derivation import NotDerivable, derive, unpacked_sha256
from d2lbert.data.manifest import DataFile


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"rte/{name}"), content)  # no time of day, which names of tests would hold
    return buffer.getvalue()


def written(folder: Path, content: bytes) -> Path:
    path = folder / "original"
    path.write_bytes(content)
    return path


SQUAD = {"data": [{"title": "A", "paragraphs": []}, {"title": "Bä", "paragraphs": [1]}], "version": "1.1"}


@pytest.mark.parametrize(
    ("content", "recipe", "made"),
    [
        (b"abcdef", {"by": "beginning", "size": 4}, b"abcd"),
        (b"head\n0\n1\n2\n3\n", {"by": "without_rows", "rows": [0, 2]}, b"head\n1\n3\n"),
        (zipped(dev=b"pairs", test=b"others"), {"by": "member", "name": "rte/dev"}, b"pairs"),
        (
            json.dumps(SQUAD).encode(),
            {"by": "articles", "titles": ["Bä"]},
            '{"version": "1.1", "data": [{"title": "Bä", "paragraphs": [1]}]}\n'.encode(),
        ),
    ],
)
def test_what_each_recipe_makes(content: bytes, recipe: dict[str, Any], made: bytes, tmp_path: Path) -> None:
    assert derive(written(tmp_path, content), recipe) == made


def test_packing_is_the_same_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, b"text " * 100)
    made = derive(path, {"by": "packed"})
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert derive(path, {"by": "packed"}) == made
    assert gzip.decompress(made) == b"text " * 100


@pytest.mark.parametrize(
    ("content", "recipe"),
    [
        (b"no zip", {"by": "member", "name": "rte/dev"}),
        (zipped(dev=b""), {"by": "member", "name": "rte/other"}),
        (b"no json", {"by": "articles", "titles": []}),
        (b"[1]", {"by": "articles", "titles": []}),
        (b"\xff", {"by": "articles", "titles": []}),
        (zipped(dev=b"a" * 2000)[:60], {"by": "member", "name": "rte/dev"}),
    ],
)
def test_other_originals_are_refused(content: bytes, recipe: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NotDerivable, match="it is damaged or another file") as caught:
        derive(written(tmp_path, content), recipe)
    assert "\n" not in str(caught.value)


def test_a_member_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derivation, "MOST_BYTES", 10)
    with pytest.raises(NotDerivable, match="larger than 10 bytes"):
        derive(written(tmp_path, zipped(dev=b"a" * 11)), {"by": "member", "name": "rte/dev"})


def test_the_digest_is_that_of_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"text " * 100
    for level in (1, 9):
        assert unpacked_sha256(written(tmp_path, gzip.compress(content, level))) == hashlib.sha256(content).hexdigest()
    assert unpacked_sha256(written(tmp_path, content)) == ""
    assert unpacked_sha256(written(tmp_path, gzip.compress(content)[:-10])) == ""
    monkeypatch.setattr(derivation, "MOST_BYTES", 100)
    assert unpacked_sha256(written(tmp_path, gzip.compress(content))) == ""


def rebuilt(file: DataFile, content: bytes) -> bytes:
    """Return an original that is laid out like the published one: the file, and stand-ins for what is not here."""
    match file.derived["by"]:
        case "packed":
            return gzip.decompress(content)
        case "beginning":
            return content + b"held\tO\nback\tO\n\n"
        case "member":
            return zipped(**{file.name: content, "rte3_test.xml": b"<held back/>"})
        case "articles":
            kept = json.loads(content)
            other = {"paragraphs": [], "title": "Held_back"}
            return json.dumps({"data": [other, *kept["data"], other], "version": kept["version"]}, indent=1).encode()
    lines = content.split(b"\n")
    for row in file.derived["rows"]:
        lines.insert(row + 1, b"%d\theld\tback\tentailment" % row)
    return b"\n".join(lines)


DERIVED = [(name, file) for name in data.names() for file in data.info(name).files if file.derived]


@pytest.mark.parametrize(("name", "file"), DERIVED, ids=[f"{name}-{file.name}" for name, file in DERIVED])
def test_the_real_files_come_out_byte_for_byte(name: str, file: DataFile, real_data: Path, tmp_path: Path) -> None:
    content = (real_data / data.info(name).folder / file.name).read_bytes()
    made = derive(written(tmp_path, rebuilt(file, content)), file.derived)
    if file.unpacked_sha256:  # another version of gzip may pack otherwise
        assert hashlib.sha256(gzip.decompress(made)).hexdigest() == file.unpacked_sha256
        made, content = gzip.decompress(made), gzip.decompress(content)
    assert made == content
