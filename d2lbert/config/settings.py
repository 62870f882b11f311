"""Settings: frozen dataclasses that state default, meaning and bounds of each field in one place.

One checker enforces them for every field. ``help`` and the options of the command line are made from the same lines. A
rule that relates two fields (heads that divide a width) stays code, in a ``__post_init__`` that calls this one first.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from d2lbert.errors import UserError, unknown_name

_Value = TypeVar("_Value")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {  # each is false for nan
    "above": operator.gt,
    "at least": operator.ge,
    "below": operator.lt,
    "at most": operator.le,
}


@dataclass(frozen=True)
class Setting:
    """What a field means, and which values it allows.

    Fields:
        meaning: one line in plain words.
        bounds: pairs such as ``("at least", 1)``; all must hold.
        choices: the allowed values; empty where any value is allowed.
    """

    meaning: str
    bounds: tuple[tuple[str, float], ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def bounds_in_words(self) -> str:
        """The bounds in words, such as ``at least 0 and below 1``; empty where there are none."""
        return " and ".join(f"{word} {bound}" for word, bound in self.bounds)

    def allows(self, value: Any) -> bool:
        """Whether a number is within all bounds."""
        return all(_COMPARISONS[word](value, bound) for word, bound in self.bounds)


def setting(
    default: _Value,
    meaning: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    one_of: tuple[str, ...] = (),
) -> _Value:
    """Return a field for a dataclass of settings. Its type is that of the default.

    Args:
        default: used where no value is given; an integer, a real number, a text, a bool, or something frozen.
        meaning: one line in plain words.
        above, at_least, below, at_most: bounds of a number.
        one_of: the allowed texts; empty where any text is allowed.
    """
    limits = {"above": above, "at least": at_least, "below": below, "at most": at_most}
    bounds = tuple((word, bound) for word, bound in limits.items() if bound is not None)
    field: Any = dataclasses.field(default=default, metadata={"setting": Setting(meaning, bounds, one_of)})
    return field


@dataclass(frozen=True)
class Settings:
    """What all settings and configurations share: the checks, and a docstring that lists every field.

    Raises:
        UserError: a value of another type, not one of the choices, out of bounds, or not finite.
    """

    kind: ClassVar[str] = "settings"  # the first word of every message
    meanings: ClassVar[dict[str, Setting]] = {}  # of the fields, by their names

    def __init_subclass__(cls) -> None:
        """Collect the meanings of the fields and add them to the docstring, where ``help`` shows them."""
        own = {
            name: field.metadata["setting"] for name, field in vars(cls).items() if isinstance(field, dataclasses.Field)
        }
        cls.meanings = {**cls.meanings, **own}  # a subclass with another default keeps meaning and bounds
        fields = "".join(f"\n        {name}: {rule.meaning}" for name, rule in cls.meanings.items())
        if fields:
            cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n\n    Fields:{fields}\n    "

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            self._check(field.name, type(field.default), getattr(self, field.name))

    def _check(self, name: str, expected: type, value: Any) -> None:
        """Reject a value of another type, an unknown choice, a number out of bounds, nan and infinity."""
        rule, complaint = self.meanings[name], f"{self.kind}: {name} is {value!r}; it must be"
        if not _is_a(expected, value):
            raise UserError(f"{complaint} of type {expected.__name__} ({rule.meaning})")
        if rule.choices and value not in rule.choices:
            raise UserError(f"{self.kind}: {unknown_name(name, value, rule.choices)}")
        if not rule.allows(value):
            raise UserError(f"{complaint} {rule.bounds_in_words} ({rule.meaning})")
        if expected is float and not abs(value) <= sys.float_info.max:
            raise UserError(f"{complaint} finite ({rule.meaning})")


def _is_a(expected: type, value: Any) -> bool:
    """Whether a value is of a type. An integer counts as a real number; a bool counts only as a bool."""
    if isinstance(value, bool):
        return expected is bool
    return isinstance(value, (int, float) if expected is float else expected)
