"""Settings: frozen dataclasses in which a field stands with its default, its meaning and its bounds, and nowhere else.

One checker holds every field to what it says. ``help`` and the options of the command line are made from the same
lines. What relates two fields (heads that divide a width) stays code, in a ``__post_init__`` that calls this one first.
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
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {  # each is false for nan
    "above": operator.gt,
    "at least": operator.ge,
    "below": operator.lt,
    "at most": operator.le,
}


@dataclass(frozen=True)
class Setting:
    """What a field says of itself.

    Fields:
        meaning: one line in plain words.
        bounds: pairs such as ``("at least", 1)``; all must hold.
        choices: the values that there are; empty where any will do.
    """

    meaning: str
    bounds: tuple[tuple[str, float], ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def demand(self) -> str:
        """The bounds in words, such as ``at least 0 and below 1``; empty where there are none."""
        return " and ".join(f"{word} {bound}" for word, bound in self.bounds)

    def allows(self, value: Any) -> bool:
        """Whether a number is within all bounds."""
        return all(_HOLDS[word](value, bound) for word, bound in self.bounds)


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
        default: taken where no value is given; an integer, a real number, a text, a bool, or something frozen.
        meaning: one line in plain words.
        above, at_least, below, at_most: bounds of a number.
        one_of: the texts that there are to choose from.
    """
    given = {"above": above, "at least": at_least, "below": below, "at most": at_most}
    bounds = tuple((word, bound) for word, bound in given.items() if bound is not None)
    field: Any = dataclasses.field(default=default, metadata={"setting": Setting(meaning, bounds, one_of)})
    return field


@dataclass(frozen=True)
class Settings:
    """What all settings and configurations share: the checks, and a docstring that tells every field."""

    kind: ClassVar[str] = "settings"  # the first word of every complaint
    meanings: ClassVar[dict[str, Setting]] = {}  # of the fields, by their names

    def __init_subclass__(cls) -> None:
        """Gather what the fields say, and put it into the docstring, where ``help`` shows it."""
        own = {name: one.metadata["setting"] for name, one in vars(cls).items() if isinstance(one, dataclasses.Field)}
        cls.meanings = {**cls.meanings, **own}  # a subclass with another default keeps meaning and bounds
        fields = "".join(f"\n        {name}: {one.meaning}" for name, one in cls.meanings.items())
        if fields:
            cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n\n    Fields:{fields}\n    "

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            self._check(field.name, type(field.default), getattr(self, field.name))

    def _check(self, name: str, wanted: type, value: Any) -> None:
        """Refuse a value of another type, an unknown choice, a number out of bounds, nan and infinity."""
        says, begin = self.meanings[name], f"{self.kind}: {name} is {value!r}; it must be"
        if not _is_a(wanted, value):
            raise UserError(f"{begin} of type {wanted.__name__} ({says.meaning})")
        if says.choices and value not in says.choices:
            raise UserError(f"{self.kind}: {unknown_name(name, value, says.choices)}")
        if not says.allows(value):
            raise UserError(f"{begin} {says.demand} ({says.meaning})")
        if wanted is float and not abs(value) <= sys.float_info.max:
            raise UserError(f"{begin} finite ({says.meaning})")


def _is_a(wanted: type, value: Any) -> bool:
    """Whether a value is of a type. An integer will do for a real number, a bool for nothing but a bool."""
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, (int, float) if wanted is float else wanted)
