"""Published archives: downloaded once from a server on this machine, compared, unpacked, or refused in one line."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_support import Hub

from benchmarks.archives import Archive, Member, get, unpacked
from d2lbert import UserError
from d2lbert.storage.download import forget_failures


@pytest.fixture
def hub() -> Iterator[Hub]:
    forget_failures()
    with Hub().serving() as server:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("RTE/train.tsv", "a\tb\n")
            archive.writestr("RTE/dev.tsv", "c\td\n")
        server.files |= {
            "/RTE.zip": packed.getvalue(),
            "/torn.zip": packed.getvalue()[:50],
            "/plain.txt": b"1\t2\n3\n4\r\t5\n",
        }
        yield server


def test_an_archive_is_downloaded_once_and_compared(hub: Hub, tmp_path: Path) -> None:
    digest = hashlib.sha256(hub.files["/RTE.zip"]).hexdigest()
    archive = Archive(f"{hub.url}/RTE.zip", digest)
    assert get(archive, tmp_path / "new") == (tmp_path / "new" / "RTE.zip", digest, True)
    for member, text in (("RTE/train.tsv", "a\tb\n"), ("RTE/dev.tsv", "c\td\n")):
        path = unpacked(Member(archive, member), tmp_path / "new")
        assert path.read_text() == text
        assert path.parent == tmp_path / "new"
    assert hub.downloaded == ["RTE.zip"]


def test_what_is_downloaded_must_be_the_published_file(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"RTE\.zip cannot be had: "):
        get(Archive(f"{hub.url}/RTE.zip", "0" * 64), tmp_path)
    assert not list(tmp_path.glob("*.zip"))


def test_a_file_of_the_user_is_taken_and_told_apart(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "RTE.zip").write_bytes(b"mine")
    path, digest, published = get(Archive(f"{hub.url}/RTE.zip", "0" * 64), tmp_path)
    assert (path.read_bytes(), digest, published) == (b"mine", hashlib.sha256(b"mine").hexdigest(), False)
    assert not hub.downloaded


def test_broken_lines_are_left_out_and_counted(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = unpacked(Member(Archive(f"{hub.url}/plain.txt"), columns=2), tmp_path)
    assert path.read_bytes() == b"1\t2\n4\r\t5\n"  # only a line feed ends a line
    assert "1 lines without 2 columns left out" in capsys.readouterr().out
    assert (tmp_path / "plain.txt").read_bytes() == hub.files["/plain.txt"]


@pytest.mark.parametrize(
    ("name", "member", "message"),
    [
        ("torn.zip", "RTE/train.tsv", r"torn\.zip is damaged or has no RTE/train\.tsv"),
        ("RTE.zip", "RTE/other.tsv", r"RTE\.zip is damaged or has no RTE/other\.tsv"),
        ("none.zip", "a", r"none\.zip cannot be had: .* answered 404 .*; put .* into"),
    ],
)
def test_faults_are_one_line(hub: Hub, tmp_path: Path, name: str, member: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        unpacked(Member(Archive(f"{hub.url}/{name}"), member), tmp_path)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("*.tsv"))
