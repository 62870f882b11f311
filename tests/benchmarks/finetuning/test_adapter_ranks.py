"""Ranks that are measured later join the stored ones, if nothing else differs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from benchmarks.finetuning import adapter_ranks

SETTINGS = {"seeds": [0], "learning_rate": 0.1}
STORED = {
    "command": "the stored one",
    "earlier": [{"command": "before it"}],
    "date": "2026-01-01",
    "commit": "abc",
    "device": {"cores": 1},
    "metrics": {"sst2": {"examples": {"train": 9}, "ranks": {"1": "one", "16": "sixteen"}}},
    **SETTINGS,
}


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_ranks.notebook, "results", lambda name: copy.deepcopy(STORED))


def measured() -> dict[str, Any]:
    return {"sst2": {"examples": {"train": 9}, "ranks": {"8": "eight", "2": "two", "1": "anew"}}}


def test_ranks_stand_in_order_and_a_new_measurement_counts() -> None:
    found = measured()
    first, last = adapter_ranks.add_stored(found, SETTINGS)
    assert list(found["sst2"]["ranks"].items()) == [("1", "anew"), ("2", "two"), ("8", "eight"), ("16", "sixteen")]
    assert first == {"command": "before it"}
    assert last == {key: STORED[key] for key in ("command", "date", "commit", "device")}


def test_other_settings_or_examples_are_refused() -> None:
    with pytest.raises(SystemExit, match="another learning_rate: measure all ranks again"):
        adapter_ranks.add_stored(measured(), SETTINGS | {"learning_rate": 0.2})
    fewer = measured()
    fewer["sst2"]["examples"] = {"train": 5}
    with pytest.raises(SystemExit, match="another choice of sst2"):
        adapter_ranks.add_stored(fewer, SETTINGS)
