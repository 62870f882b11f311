"""Recipes: the values that are ours are those of stored runs, sources are in the bibliography, a slip is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.config.training import suited_settings
from d2lbert.data.recipes import Start, _recipes, recipe
from d2lbert.tasks.table import NAMED

ROOT = Path(__file__).resolve().parents[2]
STARTS = {start for one in _recipes().values() for start in one.starts}
MEASURED: list[Start] = sorted((start for start in STARTS if start.measured), key=lambda start: start.measured)


def _settings(stored: dict[str, Any]) -> dict[str, Any]:
    """The settings of a result: its plan, its only training, or the training on answers that are spans."""
    settings: dict[str, Any] = stored["plan"] if "plan" in stored else stored["settings"]
    return settings.get("spans", settings)


def test_every_task_has_a_recipe() -> None:
    assert set(_recipes()) == set(NAMED)


@pytest.mark.parametrize("start", MEASURED, ids=lambda start: start.measured)
def test_a_start_of_ours_is_that_of_a_stored_run(start: Start) -> None:
    stored = json.loads((ROOT / "results" / f"{start.measured}.json").read_text(encoding="utf-8"))
    settings = _settings(stored)
    assert float(start.rate) == settings["learning_rate"]
    assert int(start.batch) == settings.get("batch_size", 32)
    assert int(start.epochs) == settings["epochs"]


def test_a_start_is_ours_or_cited() -> None:
    bibliography = (ROOT / "references.bib").read_text(encoding="utf-8")
    assert all(f"{{{start.citation}," in bibliography for start in STARTS if start.citation)
    alone = {start.encoder for start in STARTS if not start.citation and not start.measured}
    assert alone == {"d2lbert-tiny (2 blocks of 128)"}


def test_the_start_of_the_tiny_encoder_is_the_default() -> None:
    tiny = recipe("classification").starts[0]
    settings = suited_settings(10_000, hidden_size=128)
    assert (float(tiny.rate), int(tiny.batch), int(tiny.epochs)) == (
        settings.learning_rate,
        settings.batch_size,
        settings.epochs,
    )


@pytest.mark.parametrize("task", sorted(_recipes()))
def test_starts_grow_with_the_encoder(task: str) -> None:
    sizes = ("tiny", "MiniLM", "BERT-base", "BERT-large", "BERT-large")
    assert all(size in start.encoder for size, start in zip(sizes, recipe(task).starts, strict=True))


def test_an_unknown_task_is_one_line() -> None:
    with pytest.raises(UserError, match="unknown task 'taging': did you mean tagging"):
        recipe("taging")
