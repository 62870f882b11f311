"""A run of all tests reads every ``conftest.py``; one that cannot be read ends it after an hour, with an error."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# That of all tests is read already, and would choose again how many examples hypothesis draws.
FILES = sorted(path.relative_to(TESTS) for path in TESTS.glob("*/**/conftest.py"))


def read(path: Path) -> None:
    """Read the module at ``path`` as pytest does: by its file, with the folders of ``pyproject.toml`` on the path."""
    spec = importlib.util.spec_from_file_location("read_conftest", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_shared_fixtures_can_be_read(path: Path, root: Path) -> None:
    read(root / "tests" / path)


def test_an_import_from_a_folder_of_its_own_is_seen(tmp_path: Path) -> None:
    (tmp_path / "own_module_of_this_folder.py").touch()
    (tmp_path / "conftest.py").write_text("import own_module_of_this_folder\n", encoding="utf-8")
    with pytest.raises(ModuleNotFoundError, match="own_module_of_this_folder"):
        read(tmp_path / "conftest.py")
