"""The folder of a run: one run at a time, and what others have put there stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.storage import claims
from d2lbert.storage.claims import claimed, contents, held, publish


def _write(folder: Path) -> None:
    for name in ("config.json", "model.safetensors", "vocab.txt"):
        (folder / name).write_text(name)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


FILES = ["config.json", "model.safetensors", "vocab.txt"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_new_or_empty_folder_is_filled(tmp_path: Path, exists: bool) -> None:
    """One that exists may be a mounted volume: it stays the same folder."""
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    before = out.stat().st_ino if exists else None
    with claimed(out) as folder:
        assert folder == out
        publish(folder, _write)
    assert _names(tmp_path) == ["out"]
    assert _names(out) == FILES
    (tmp_path / "usual").mkdir()
    assert out.stat().st_mode == (tmp_path / "usual").stat().st_mode
    if exists:
        assert out.stat().st_ino == before


def test_the_second_run_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under every name of the folder, before it exists and while it is empty; not under the name of another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for _ in range(2):
        with claimed("out"):
            for name in (tmp_path / "out", Path("out"), Path("link"), Path("../", tmp_path.name, "out")):
                expected = rf"another run writes into --out {tmp_path / 'out'}: wait"
                with pytest.raises(UserError, match=expected), held(name):
                    pass
            with claimed("other"):
                pass
        (tmp_path / "out").mkdir(exist_ok=True)
    assert _names(tmp_path) == ["link", "out"]


def test_what_is_not_new_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".hidden").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    for name, message in [
        ("file", "is a file: choose a new folder"),
        ("file/below", "cannot write to folder"),
        ("full", "is not empty: choose a new folder, so that nothing is overwritten"),
        ("loop", "cannot write to folder"),
        ("loop/below", "cannot write to folder"),
        ("x" * 300, "cannot write to folder .*File name too long"),
        ("x" * 240, "cannot write to folder .*File name too long"),  # with what is added to it
    ]:
        with pytest.raises(UserError, match=message) as caught, claimed(tmp_path / name):
            pass
        assert "\n" not in str(caught.value)
    assert _names(tmp_path) == ["file", "full", "loop"]


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("moment", ["before the result", "with the result"])
def test_a_folder_that_was_filled_meanwhile_is_not_touched(tmp_path: Path, exists: bool, moment: str) -> None:
    out = tmp_path / "out"
    if exists:
        out.mkdir()

    def fill() -> None:
        out.mkdir(exist_ok=True)
        (out / "config.json").write_text("precious")

    def write(folder: Path) -> None:
        _write(folder)
        if moment == "with the result":
            fill()

    with claimed(out) as folder:
        if moment == "before the result":
            fill()
        with pytest.raises(UserError, match="the trained model is in") as caught:
            publish(folder, write)
    kept = Path(str(caught.value).partition("the trained model is in ")[2])
    assert _names(kept) == FILES
    assert not kept.name.startswith(".")
    assert (out / "config.json").read_text() == "precious"
    assert [path.name for path in out.iterdir() if path != kept] == ["config.json"]
    with pytest.raises(UserError, match="is not empty"), claimed(out):
        pass
    assert _names(kept) == FILES


def test_a_folder_that_became_a_file_is_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with claimed(out) as folder:
        out.write_text("precious")
        with pytest.raises(UserError, match="the trained model is in") as caught:
            publish(folder, _write)
    assert _names(Path(str(caught.value).partition("the trained model is in ")[2])) == FILES
    assert out.read_text() == "precious"


def test_a_folder_that_went_away_comes_back(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with claimed(tmp_path / "out") as folder:
        folder.rmdir()
        publish(folder, _write)
    assert _names(tmp_path / "out") == FILES


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("error", [UserError("full"), KeyboardInterrupt()])
def test_a_result_that_cannot_be_written_leaves_nothing(tmp_path: Path, exists: bool, error: BaseException) -> None:
    out = tmp_path / "out"
    if exists:
        out.mkdir()

    def fail(folder: Path) -> None:
        _write(folder)
        raise error

    with claimed(out) as folder, pytest.raises(type(error)):
        publish(folder, fail)
    assert _names(tmp_path) == (["out"] if exists else [])
    assert not exists or not _names(out)


@pytest.mark.parametrize("exists", [False, True])
def test_what_a_killed_run_was_writing_goes_with_the_next(tmp_path: Path, exists: bool) -> None:
    """That of other folders stays: another run may be writing it."""
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    stale = claims._staging(out)
    _write(stale)
    other = claims._staging(tmp_path / "out.b")
    with claimed(out):
        assert not stale.exists()
        assert other.exists()
    assert _names(tmp_path) == sorted([other.name, *(["out"] if exists else [])])


def test_where_nothing_can_be_written_beside_it_the_lock_lies_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with claimed(out) as folder:
        assert _names(tmp_path) == ["out"]
        assert _names(out) == [".lock"]
        assert not contents(out)
        with pytest.raises(UserError, match="another run"), held(out):
            pass
        publish(folder, _write)
    assert _names(out) == FILES
    (tmp_path / "out2").mkdir()
    (tmp_path / "out2" / ".lock").touch()  # of a killed process
    with claimed(tmp_path / "out2"):
        pass
    assert not _names(tmp_path / "out2")


def test_config_json_is_the_last_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    order: list[str] = []
    rename = Path.rename

    def recorded(self: Path, target: Path) -> Path:
        order.append(target.name)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", recorded)
    with claimed(tmp_path / "out") as folder:
        publish(folder, _write)
    assert order == ["vocab.txt", "model.safetensors", "config.json"]
