"""Locks between processes: one holder, free again after any end, nothing left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from d2lbert.storage import locks
from d2lbert.storage.locks import locked

HOLD = (
    "import sys, time; from pathlib import Path; from d2lbert.storage.locks import locked\n"
    "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
)
COUNT = (
    "import sys; from pathlib import Path; from d2lbert.storage.locks import locked\n"
    "path = Path(sys.argv[1])\n"
    "for _ in range(200):\n"
    "    with locked(path.with_suffix('.lock')): path.write_text(str(int(path.read_text()) + 1))"
)


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with locked(path, wait=False):
        with pytest.raises(BlockingIOError), locked(path, wait=False):
            pass
        with locked(tmp_path / "b.lock", wait=False):
            pass
    assert not list(tmp_path.iterdir())
    with locked(path, wait=False):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError), locked(path, wait=False):
            pass
        process.send_signal(signal.SIGKILL)
    assert path.exists()
    with locked(path, wait=False):
        pass
    assert not list(tmp_path.iterdir())


def test_who_waits_gets_it_next(tmp_path: Path) -> None:
    """It has the file open that the holder removes, and must not take that for the lock."""
    path, events = tmp_path / "a.lock", list[str]()

    def wait() -> None:
        with locked(path):
            events.append("second")
            with pytest.raises(BlockingIOError), locked(path, wait=False):
                pass

    with locked(path):
        waiting = threading.Thread(target=wait)
        waiting.start()
        waiting.join(0.2)
        events.append("first")
    waiting.join(60)
    assert events == ["first", "second"]
    assert not list(tmp_path.iterdir())


def test_many_processes_lose_no_count(tmp_path: Path) -> None:
    """Each reads a number and writes the next one: two at the same time would write the same."""
    path = tmp_path / "number"
    path.write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNT, str(path)]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert path.read_text() == "600"
    assert [found.name for found in tmp_path.iterdir()] == ["number"]


@pytest.mark.parametrize("lack", ["module", "folder", "file system"])
def test_without_locks_it_goes_on(lack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.lock"
    if lack == "module":
        monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    elif lack == "folder":
        path = tmp_path / "missing" / "a.lock"
    else:
        import fcntl

        def no_locks(*_: object) -> None:
            raise OSError(37, "No locks available")

        monkeypatch.setattr(fcntl, "flock", no_locks)
    with locked(path, wait=False), locked(path, wait=False):
        pass


def test_a_file_that_is_gone_is_no_lock(tmp_path: Path) -> None:
    with (tmp_path / "a").open("w") as stream:
        assert locks._has_name(stream, tmp_path / "a")
        (tmp_path / "a").unlink()
        assert not locks._has_name(stream, tmp_path / "a")
        (tmp_path / "a").touch()
        assert not locks._has_name(stream, tmp_path / "a")
