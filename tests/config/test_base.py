"""What configurations share: no unknown field, a copy that is checked as well, values that are not computed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.config.base import BlockSizes, ModelConfig, refuse_other_values
from d2lbert.config.settings import setting


@dataclass(frozen=True)
class Sizes(ModelConfig):
    """A configuration of two fields."""

    width: int = setting(4, "of a vector", above=0)
    rate: float = setting(0.5, "of dropout", at_least=0, below=1)


def test_an_unknown_field_names_the_nearest() -> None:
    assert Sizes.from_dict({"width": 7}) == Sizes(7)
    with pytest.raises(UserError, match="unknown configuration field 'widht': did you mean width"):
        Sizes.from_dict({"widht": 7})


def test_a_copy_is_checked_too() -> None:
    assert Sizes().replace(width=9) == Sizes(9)
    with pytest.raises(UserError, match=r"^configuration: width is 'wide'; it must be of type int"):
        Sizes().replace(width="wide")
    with pytest.raises(UserError, match=r"^configuration: rate is 1\.0; it must be at least 0 and below 1"):
        Sizes.from_dict({"rate": 1.0})


def test_a_block_has_the_sizes_of_its_configuration() -> None:
    config = BertConfig(hidden_size=24, num_attention_heads=3, intermediate_size=50, hidden_dropout_prob=0.2)
    assert config.block == BlockSizes(24, 3, 50, "gelu", 0.2, 0.1, 1e-12, norm_first=False)


def test_values_that_are_not_computed_are_refused() -> None:
    required = {"kind": ("plain", None), "deep": (False,)}
    refuse_other_values("config.json", {"kind": None, "other": 1}, required, "Sizes")
    message = r"^config\.json: kind is 'odd', which d2lbert does not compute for Sizes; use a .* where it is 'plain'$"
    with pytest.raises(UserError, match=message):
        refuse_other_values("config.json", {"kind": "odd"}, required, "Sizes")
