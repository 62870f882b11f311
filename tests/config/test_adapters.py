"""Sizes of adapters: the table of their layers, and what is refused."""

from __future__ import annotations

import pytest

from d2lbert import UserError
from d2lbert.config.adapters import TARGETS, AdapterConfig


def test_every_choice_of_layers_is_in_the_table() -> None:
    assert AdapterConfig.meanings["targets"].choices == tuple(TARGETS)
    assert set(TARGETS["attention"]) < set(TARGETS["all"])


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"alpha": 0.0}, {"targets": "some"}])
def test_other_values_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"^adapters: .*{next(iter(wrong))}"):
        AdapterConfig(**wrong)
