"""What configurations share: no unknown field, no value of a wrong type, a copy that is checked as well."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from d2lbert import UserError
from d2lbert.config.base import ModelConfig, refuse_other_values
from d2lbert.config.settings import setting


@dataclass(frozen=True)
class Sizes(ModelConfig):
    """A configuration of one field of each type."""

    width: int = setting(4, "of a row")
    rate: float = setting(0.5, "of dropout")
    style: str = setting("plain", "of the rest")
    last: bool = setting(False, "whether it ends")


def test_an_unknown_field_names_the_nearest() -> None:
    assert Sizes.from_dict({"width": 7}) == Sizes(7)
    with pytest.raises(UserError, match="unknown configuration field 'widht': did you mean width"):
        Sizes.from_dict({"widht": 7})


@pytest.mark.parametrize(
    ("field", "value", "type_"),
    [
        ("width", 4.0, "int"),
        ("width", True, "int"),
        ("width", "4", "int"),
        ("rate", "0.5", "float"),
        ("rate", False, "float"),
        ("style", None, "str"),
        ("last", 1, "bool"),
    ],
)
def test_values_of_a_wrong_type(field: str, value: object, type_: str) -> None:
    with pytest.raises(UserError, match=f"configuration: {field} is {value!r}; it must be of type {type_}"):
        Sizes(**{field: value})  # type: ignore[arg-type]


def test_an_integer_will_do_for_a_real_number() -> None:
    assert Sizes(rate=1).rate == 1


def test_a_copy_is_checked_too() -> None:
    assert Sizes().replace(width=9) == Sizes(9)
    with pytest.raises(UserError, match="width is 'wide'"):
        Sizes().replace(width="wide")


def test_values_that_are_not_computed_are_refused() -> None:
    required = {"kind": ("plain", None), "deep": (False,)}
    refuse_other_values("config.json", {"kind": None, "other": 1}, required, "Sizes")
    message = r"^config\.json: kind is 'odd', which d2lbert does not compute for Sizes; use a .* where it is 'plain'$"
    with pytest.raises(UserError, match=message):
        refuse_other_values("config.json", {"kind": "odd"}, required, "Sizes")
