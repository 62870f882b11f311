"""A folder of the cache: one process at a time, and nothing left of killed ones."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from d2lbert.storage import cache
from d2lbert.storage.cache import locked

HOLD = """
import sys
from pathlib import Path
from d2lbert.storage.cache import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen:
    """Another process, which holds the lock of the folder ``model`` until a line comes."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "model")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / ".download-killed").mkdir(parents=True)
    (folder / ".download-killed" / "model.safetensors").write_bytes(b"half")
    (folder / ".tokenizer_config.json.a1b2_c3d.unfinished").write_text("{")
    kept = ["vocab.txt", ".hidden", ".mine.txt", "tmp1234", ".tokenizer_config.json.a1b2"]
    for name in kept:
        (folder / name).touch()
    with locked(folder):
        assert sorted(path.name for path in folder.iterdir()) == sorted(kept)
    with locked(tmp_path / "not" / "there"):
        assert not (tmp_path / "not" / "there").exists()


def test_who_waits_says_so_after_a_while(
    holder: subprocess.Popen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cache, "PATIENCE", 0.05)
    (tmp_path / "model" / ".download-alive").mkdir(parents=True)

    said: list[tuple[str, bool]] = []

    class Release:
        """Ends the other process once the notice is out."""

        def write(self, text: str) -> int:
            if text.strip():
                said.append((text, (tmp_path / "model" / ".download-alive").is_dir()))
                holder.communicate("\n", timeout=30)
            return len(text)

        def flush(self) -> None:
            pass

    monkeypatch.setattr(sys, "stderr", Release())
    with locked(tmp_path / "model"):
        assert holder.wait(timeout=30) == 0
    # What the other process had there was left alone as long as it was at work.
    assert said == [(f"d2lbert: waiting for another process, which fills {tmp_path / 'model'}", True)]


def test_who_does_not_wait_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cache, "PATIENCE", 0.01)
    for _ in range(2):
        with locked(tmp_path / "model"):
            time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_killed_process_leaves_no_lock(holder: subprocess.Popen, tmp_path: Path) -> None:
    holder.kill()
    holder.communicate(timeout=30)
    with locked(tmp_path / "model"):
        pass


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with locked(tmp_path / "file" / "model"):
        pass
