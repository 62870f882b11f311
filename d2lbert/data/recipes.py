"""Where to start when a pretrained encoder is fine-tuned: rates, batches, epochs, symptoms (``data/recipes.toml``)."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass

from d2lbert.errors import unknown_name
from d2lbert.storage.places import home

_EVERY = "every"  # a start for all tasks


@dataclass(frozen=True, slots=True)
class Start:
    """What to try first with one encoder.

    Fields:
        encoder: its name and size.
        rate: the highest learning rate, or a few to choose from by the dev set.
        batch: examples for one step.
        epochs: passes over the training examples.
        source: who took these values.
        citation: the key of the source in ``references.bib``; "" where the values are of this book.
        measured: the stored result with these settings; "" where there is none.
    """

    encoder: str
    rate: str
    batch: str
    epochs: str
    source: str
    citation: str = ""
    measured: str = ""


@dataclass(frozen=True, slots=True)
class Symptom:
    """What is seen when a run goes wrong, its likely cause, and what to try."""

    seen: str
    cause: str
    cure: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """The advice for one task.

    Fields:
        letters: whether to take a cased or an uncased encoder, and why.
        starts: one for each encoder, from the smallest to the largest.
        symptoms: the same for all tasks.
    """

    letters: str
    starts: tuple[Start, ...]
    symptoms: tuple[Symptom, ...]


def recipe(task: str) -> Recipe:
    """Return the advice for a task, such as ``"classification"`` or ``"tagging"``.

    Raises:
        UserError: there is no such task.
    """
    recipes = _recipes()
    if task not in recipes:
        raise unknown_name("task", task, recipes)
    return recipes[task]


@functools.cache
def _recipes() -> dict[str, Recipe]:
    content = tomllib.loads((home() / "recipes.toml").read_text(encoding="utf-8"))
    symptoms = tuple(Symptom(**row) for row in content["symptoms"])
    found = {}
    for task, advice in content["tasks"].items():
        rows = [dict(row) for row in content["starts"] if row["task"] in (task, _EVERY)]
        starts = tuple(Start(**{name: value for name, value in row.items() if name != "task"}) for row in rows)
        found[task] = Recipe(advice["letters"], starts, symptoms)
    return found
