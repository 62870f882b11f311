"""Every chapter runs on the accelerator, at its smallest size (``make test-device``).

Its numbers mean nothing there; what counts is that each tensor is where the others are, in every cell.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from run_notebook import execute
from small_models import ACCELERATOR

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").rglob("*.ipynb"))
SMALLEST = yaml.safe_load((ROOT / "profiles" / "smallest.yaml").read_text())


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_runs_on_an_accelerator(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_DEVICE", ACCELERATOR)
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    monkeypatch.setenv("D2LBERT_CLAIMS", "off")  # at the smallest size no sentence need hold
    monkeypatch.delenv("D2LBERT_DATA", raising=False)  # the samples are the smallest data
    run = execute(path.relative_to(ROOT), ROOT, tmp_path, SMALLEST[path.stem])
    assert not run.error
