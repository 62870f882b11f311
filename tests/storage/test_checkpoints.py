"""Checkpoints: whole or not at all, damage is seen, the last few are kept, a full disk harms none."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from process_support import with_full_disk

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
    with pytest.warns(DamagedCheckpointWarning), pytest.raises(UserError, match=r"every .* remove .* to start anew"):
        newest(folder)


def _damage(path: Path) -> None:
    (path / "state").write_text("damaged")


@pytest.mark.parametrize("damaged", [(1000, 2000, 3000), (2000, 3000), (3000,)])
def test_damaged_ones_push_out_no_good_one(tmp_path: Path, damaged: tuple[int, ...]) -> None:
    """A run goes back before them and writes again, from lower numbers on."""
    for step in (1000, 2000, 3000):
        save(tmp_path, step, _write(str(step)), keep=3)
    for step in damaged:
        _damage(tmp_path / f"checkpoint-{step:08}")
    for step in (100, 200, 300, 400):
        assert save(tmp_path, step, _write(str(step)), keep=3).is_dir()
        found = newest(tmp_path)
        assert found == tmp_path / f"checkpoint-{max({1000, 2000, 3000, step} - set(damaged)):08}" or len(damaged) == 3
    assert (tmp_path / "checkpoint-00000400").is_dir()
    if len(damaged) == 3:
        assert newest(tmp_path) == tmp_path / "checkpoint-00000400"
        assert _names(tmp_path) == [f"checkpoint-{step:08}" for step in (200, 300, 400)]


def test_the_newest_good_one_and_the_one_just_written_stay(tmp_path: Path) -> None:
    for step in (4, 8, 12):
        save(tmp_path, step, _write(str(step)), keep=3)
    _damage(tmp_path / "checkpoint-00000012")
    save(tmp_path, 9, _write("9"), keep=1)
    assert _names(tmp_path) == ["checkpoint-00000009"]
    save(tmp_path, 7, _write("7"), keep=1)  # of a run that began anew: it must not lose what it writes
    assert _names(tmp_path) == ["checkpoint-00000007", "checkpoint-00000009"]
    assert newest(tmp_path) == tmp_path / "checkpoint-00000009"


def test_numbers_are_compared_as_numbers_and_foreign_names_stay(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-00000001-mine").mkdir()
    for step in (99_999_999, 100_000_000):
        save(tmp_path, step, _write(str(step)), keep=1)
    assert _names(tmp_path) == ["checkpoint-00000001-mine", "checkpoint-100000000"]
    assert newest(tmp_path) == tmp_path / "checkpoint-100000000"


def test_all_of_a_finished_run_go_and_foreign_files_stay(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    save(tmp_path / "other", 1, _write("1"), keep=1)
    (tmp_path / "other" / "letter").write_text("mine")
    for name in ("all", "other"):
        (tmp_path / name / ".checkpoint-unfinished").mkdir()
        checkpoints.remove_all(tmp_path / name)
    assert not folder.exists()
    assert _names(tmp_path / "other") == ["letter"]
    checkpoints.remove_all(folder)  # it is gone already


def test_digests_are_computed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process knows what it has written or verified; what has changed since, it reads again."""
    read: list[str] = []
    digest = checkpoints.sha256_of

    def recorded(path: Path) -> str:
        read.append(path.parent.name)
        return digest(path)

    monkeypatch.setattr(checkpoints, "sha256_of", recorded)
    save(folder, 110, _write("110"), keep=9)
    assert not [name for name in read if not name.startswith(".")]
    monkeypatch.setattr(checkpoints, "_known", {})  # another process
    assert newest(folder) == folder / "checkpoint-00000110"
    save(folder, 120, _write("120"), keep=9)
    assert {read.count(f"checkpoint-{step:08}") for step in (10, 20, 100, 110)} == {2}  # two files, once each
    save(folder, 130, _write("130"), keep=9)
    assert {read.count(f"checkpoint-{step:08}") for step in (10, 20, 100, 110)} == {2}
    _damage(folder / "checkpoint-00000110")
    save(folder, 140, _write("140"), keep=9)
    assert not (folder / "checkpoint-00000110").exists()


def test_one_that_cannot_be_read_now_is_not_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_known", {})
    digest = checkpoints.sha256_of

    def unreadable(path: Path) -> str:
        if path.parent.name == "checkpoint-00000100":
            raise OSError(5, "Input/output error")
        return digest(path)

    monkeypatch.setattr(checkpoints, "sha256_of", unreadable)
    with pytest.warns(UserWarning, match="checkpoint-00000100 stays .Input/output error"):
        save(folder, 110, _write("110"), keep=1)
    (folder / "checkpoint-00000110" / "state").unlink()
    with pytest.warns(UserWarning, match="checkpoint-00000100 stays"):
        save(folder, 90, _write("90"), keep=2)
    with pytest.warns(DamagedCheckpointWarning, match="Input/output error"):
        assert newest(folder) == folder / "checkpoint-00000090"
    assert (folder / "checkpoint-00000100").is_dir()


def test_what_was_made_up_is_one_line(folder: Path) -> None:
    path = folder / "checkpoint-00000100"
    for error in (KeyError("step"), EOFError(), pickle.UnpicklingError("x"), RuntimeError("a\nb")):
        with pytest.raises(UserError, match="does not hold the state of this run") as caught:  # noqa: SIM117
            with checkpoints.restoring(path):
                raise error
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith(": remove it to go on from the one before")
    with pytest.raises(UserError, match=r"^mine$"), checkpoints.restoring(path):
        raise UserError("mine")
    with pytest.raises(ZeroDivisionError), checkpoints.restoring(path):
        raise ZeroDivisionError


@pytest.mark.parametrize("manifest", ["[]", "[" * 100_000, '{"sha256": 3}', '{"sha256": {"state": 3}}', "\udcff"])
def test_a_manifest_of_another_form_is_damage(folder: Path, manifest: str) -> None:
    (folder / "checkpoint-00000100" / "manifest.json").write_text(manifest, errors="surrogateescape")
    with pytest.warns(DamagedCheckpointWarning):
        assert newest(folder) == folder / "checkpoint-00000020"


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

    monkeypatch.setattr(os, "fsync", recorded_flush)
    monkeypatch.setattr(Path, "rename", recorded_rename)
    save(folder, 300, _write("y"), keep=3)
    index = events.index("rename")
    assert {"weights", "state", "manifest.json"} <= set(events[:index])
    assert events[index - 1].startswith(".checkpoint-") or ".checkpoint-" in "".join(events[:index])
    assert events[index + 1 :] == ["all", "rename"]  # the old one goes after the new one is there


def test_full_disk(folder: Path) -> None:
    """A limit on the size of a file stops the writing in the middle, as a full disk does."""
    program = (
        "import sys; from pathlib import Path\n"
        "from d2lbert import UserError; from d2lbert.storage.checkpoints import save\n"
        "def write(folder): (folder / 'weights').write_bytes(bytes(1_000_000))\n"
        "try: save(Path(sys.argv[1]), 400, write, keep=1)\n"
        "except UserError as error: print(error)"
    )

    before = _names(folder)
    command = with_full_disk([sys.executable, "-c", program, str(folder)], 10_000)
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stdout.startswith(f"cannot write {folder / 'checkpoint-00000400'}: File too large; free space"), (
        run.stderr
    )
    assert _names(folder) == before
    assert newest(folder) == folder / "checkpoint-00000100"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"cannot write .*checkpoint-00000001"):
        save(tmp_path / "file", 1, _write("x"), keep=1)  # type: ignore[arg-type]
