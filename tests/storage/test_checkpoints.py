"""Checkpoints: whole or not at all, damage is seen, the last few are kept, a full disk harms none."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.storage import checkpoints
from d2lbert.storage.checkpoints import DamagedCheckpointWarning, newest, save


def _write(content: str) -> object:
    def write(folder: Path) -> None:
        (folder / "weights").write_text(content * 100)
        (folder / "state").write_text(content)

    return write


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for step in (10, 20, 100):
        save(tmp_path / "all", step, _write(str(step)), keep=3)
    return tmp_path / "all"


def test_the_newest_comes_back_and_old_ones_go(folder: Path) -> None:
    assert _names(folder) == ["checkpoint-00000010", "checkpoint-00000020", "checkpoint-00000100"]
    assert _names(folder / "checkpoint-00000100") == ["manifest.json", "state", "weights"]
    assert newest(folder) == folder / "checkpoint-00000100"
    path = save(folder, 110, _write("x"), keep=2)
    assert (path / "state").read_text() == "x"
    assert _names(folder) == ["checkpoint-00000100", "checkpoint-00000110"]
    assert newest(folder.parent / "nothing") is None


@pytest.mark.parametrize("damage", ["truncated", "one bit", "file missing", "manifest missing", "manifest truncated"])
def test_a_damaged_one_is_passed_over_with_a_word(folder: Path, damage: str) -> None:
    broken = folder / "checkpoint-00000100"
    content = bytearray((broken / "weights").read_bytes())
    if damage == "truncated":
        (broken / "weights").write_bytes(content[:150])
    elif damage == "one bit":
        content[7] ^= 1
        (broken / "weights").write_bytes(content)
    elif damage == "file missing":
        (broken / "state").unlink()
    elif damage == "manifest missing":
        (broken / "manifest.json").unlink()
    else:
        (broken / "manifest.json").write_text('{"step": 1')
    with pytest.warns(
        DamagedCheckpointWarning, match="checkpoint-00000100 is damaged .*: going back to the one before"
    ):
        assert newest(folder) == folder / "checkpoint-00000020"
    # The run that goes on from there comes to the same step again.
    save(folder, 100, _write("again"), keep=3)
    assert newest(folder) == broken


def test_damage_that_leaves_the_time_of_change_is_seen(folder: Path) -> None:
    path = folder / "checkpoint-00000100" / "state"
    assert newest(folder) == path.parent
    before = path.stat()
    path.write_text("001")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.warns(DamagedCheckpointWarning, match="wrong sha256 of state"):
        assert newest(folder) == folder / "checkpoint-00000020"


def test_all_damaged(folder: Path) -> None:
    for path in folder.iterdir():
        (path / "state").unlink()
    with pytest.warns(DamagedCheckpointWarning):
        assert newest(folder) is None


def test_a_crash_while_writing_leaves_the_old_ones(folder: Path) -> None:
    def crash(target: Path) -> None:
        (target / "weights").write_text("half")
        raise KeyboardInterrupt

    before = _names(folder)
    with pytest.raises(KeyboardInterrupt):
        save(folder, 200, crash, keep=1)  # type: ignore[arg-type]
    assert _names(folder) == before
    # A process that was killed could not tidy up: the next one does.
    (folder / ".checkpoint-killed").mkdir()
    (folder / ".checkpoint-killed" / "weights").write_text("half")
    assert newest(folder) == folder / "checkpoint-00000100"
    assert _names(folder) == before


def test_everything_is_on_the_disk_before_the_name_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file and the folder are flushed first, then the renaming itself."""
    events: list[str] = []
    flush, rename = os.fsync, Path.rename

    def recorded_flush(handle: int) -> None:
        events.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        flush(handle)

    def recorded_rename(self: Path, target: Path) -> Path:
        events.append("rename")
        return rename(self, target)

    monkeypatch.setattr(checkpoints.os, "fsync", recorded_flush)
    monkeypatch.setattr(Path, "rename", recorded_rename)
    save(folder, 300, _write("y"), keep=3)
    index = events.index("rename")
    assert {"weights", "state", "manifest.json"} <= set(events[:index])
    assert events[index - 1].startswith(".checkpoint-") or ".checkpoint-" in "".join(events[:index])
    assert events[index + 1 :] == ["all"]


def test_full_disk(folder: Path) -> None:
    """A limit on the size of a file stops the writing in the middle, as a full disk does."""
    program = (
        "import sys; from pathlib import Path\n"
        "from d2lbert import UserError; from d2lbert.storage.checkpoints import save\n"
        "def write(folder): (folder / 'weights').write_bytes(bytes(1_000_000))\n"
        "try: save(Path(sys.argv[1]), 400, write, keep=1)\n"
        "except UserError as error: print(error)"
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    before = _names(folder)
    command = [sys.executable, "-c", program, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    assert run.stdout.startswith(f"cannot write {folder / 'checkpoint-00000400'}: File too large; free space"), (
        run.stderr
    )
    assert _names(folder) == before
    assert newest(folder) == folder / "checkpoint-00000100"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"cannot write .*checkpoint-00000001"):
        save(tmp_path / "file", 1, _write("x"), keep=1)  # type: ignore[arg-type]
