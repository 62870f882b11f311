"""Models under names: a name of the zoo, a folder's last part, or what stands before the equals sign."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.commands.sources import named_sources


def test_a_model_is_called_by_its_name_its_folder_or_as_it_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "a=b"
    folder.mkdir()
    given = ["minilm-sst2", str(tmp_path), str(folder), f"mood={folder}"]
    assert named_sources(given) == {
        "minilm-sst2": "minilm-sst2",
        tmp_path.name: str(tmp_path),
        "a=b": str(folder),
        "mood": str(folder),
    }


@pytest.mark.parametrize("given", [["a", "a"], ["=x"], ["a=x", "a"]])
def test_a_name_is_given_once(given: list[str]) -> None:
    with pytest.raises(UserError, match="is empty or given twice; write NAME=FOLDER"):
        named_sources(given)
