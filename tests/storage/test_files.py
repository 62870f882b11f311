"""Writing files: all or nothing."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from process_support import with_full_disk

from d2lbert import UserError
from d2lbert.storage.files import (
    atomic,
    is_unfinished,
    read_json,
    remembered_sha256_of,
    remove_unfinished,
    sha256_of,
    writable_folder,
    write_text,
)


def test_replaces_only_on_success(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "file.txt"
    write_text(target, "old")
    with pytest.raises(KeyError), atomic(target) as temporary:  # noqa: PT012 - the failure must come from inside
        temporary.write_text("half")
        raise KeyError
    assert target.read_text() == "old"
    write_text(target, "new")
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power cut could leave an empty file under the name."""
    done: list[str] = []
    flush, rename = os.fsync, Path.replace

    def note_flush(handle: int) -> None:
        done.append("flush")
        flush(handle)

    def note_rename(path: Path, target: Path) -> Path:
        done.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note_flush)
    monkeypatch.setattr(Path, "replace", note_rename)
    write_text(tmp_path / "file.txt", "content")
    assert done[:2] == ["flush", "rename"]


def test_written_files_have_ordinary_permissions(tmp_path: Path) -> None:
    write_text(tmp_path / "ours", "x")
    (tmp_path / "theirs").write_text("x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on the size of a file stops a write in its middle, as a full disk does."""
    target = tmp_path / "file.txt"
    write_text(target, "old")
    program = (
        "import sys; from d2lbert.storage.files import write_text; from d2lbert import UserError\n"
        "try: write_text(sys.argv[1], 'x' * 100_000)\n"
        "except UserError as error: print(error)"
    )
    command = with_full_disk([sys.executable, "-c", program, str(target)], 10_000)
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stderr == ""
    assert run.stdout.startswith(f"cannot write {target}: File too large")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot write to folder"):
        writable_folder(tmp_path / "file")
    with pytest.raises(UserError, match="cannot write to folder"):
        writable_folder("/proc/nothing")
    assert list(writable_folder(tmp_path / "a" / "b").iterdir()) == []


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    """And nothing else: neither hidden files of others nor what is being written for a name that only begins alike."""
    program = (
        "import os, signal, sys; from pathlib import Path; from d2lbert.storage import files\n"
        "folder = Path(sys.argv[1]); below = files.unfinished_folder(folder, 'model')\n"
        "(below / 'config.json').write_text('half')\n"
        "with files.atomic(folder / 'index.json') as path:\n"
        "    path.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == -signal.SIGKILL, run.stderr
    mine = {".index.json.mine", "a.unfinished", ".unfinished", "index.json"}
    for name in mine:
        (tmp_path / name).touch()
    left = {path.name for path in tmp_path.iterdir()} - mine
    assert len(left) == 2
    assert all(is_unfinished(tmp_path / name) for name in left)
    assert not any(is_unfinished(tmp_path / name) for name in mine)
    remove_unfinished(tmp_path, "index")
    assert {path.name for path in tmp_path.iterdir()} == mine | left
    remove_unfinished(tmp_path, "model")
    assert {path.name for path in tmp_path.iterdir()} == mine | {name for name in left if "index" in name}
    remove_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == mine
    remove_unfinished(tmp_path / "nothing")


def change_unseen(path: Path, content: bytes) -> None:
    """Write a file and set its time of change back."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_digest_is_that_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert sha256_of(path) == hashlib.sha256(b"abc").hexdigest()
    change_unseen(path, b"abd")
    assert sha256_of(path) == hashlib.sha256(b"abd").hexdigest()


def test_a_remembered_digest_lasts_until_the_time_of_change_is_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert remembered_sha256_of(path) == hashlib.sha256(b"abc").hexdigest()
    change_unseen(path, b"abd")
    assert remembered_sha256_of(path) == hashlib.sha256(b"abc").hexdigest()
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert remembered_sha256_of(path) == hashlib.sha256(b"abd").hexdigest()


def test_brackets_without_end_are_no_json(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for text in ("[" * 200_000, '{"a":' * 200_000, '{"a": 1' + "0" * 5000 + "}"):
        path.write_text(text)
        with pytest.raises(UserError, match=r"config\.json is not valid JSON: .*; restore the file$"):
            read_json(path)
