"""Make the page for teachers: plans of lessons from ``chapters/teaching/<plan>.toml``.

A plan has one ``[[unit]]`` for each stretch of time, in order:

* ``name``: what it is called; ``goal``: what the learners can do afterwards; ``minutes``: in class.
* ``show``: sections, each ``part/chapter#heading``; their chapters' slides are linked.
* ``live``: what to show live, in words; ``play``: the chapters whose figures to play with that means.
* ``exercise``: done in class, ``homework``: at home; each ``part/chapter#number``. The kind comes from the chapter.
* ``quiz``: chapters whose quiz closes the unit; ``project``: chapters whose project begins.

``breaks`` have ``name`` and ``minutes`` alone. Reading times are those of ``tools/effort.py``, as on the front page.
"""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

import nbformat
from contents import chapters, deck_path
from deck_pages import headings, slug
from effort import EXERCISE, reading_minutes

ROOT = Path(__file__).resolve().parent.parent
PLANS = ROOT / "chapters" / "teaching"
_MARK = re.compile(r"^<!-- (plan|hours) of (\w+\.toml) -->$|^<!-- (projects) -->$", flags=re.MULTILINE)
_KEYS = {"name", "goal", "minutes", "show", "live", "play", "exercise", "homework", "quiz", "project"}
_NEEDED = {"name", "goal", "minutes", "show", "live", "exercise", "quiz"}
_EXERCISE = re.compile(r"^\*\*Exercise (\d+) \(([^)]+)\)", flags=re.MULTILINE)


def write_plans(source: Path) -> None:
    """Write the page for teachers, with its plans, to the same place below ``source``."""
    folder = source / PLANS.relative_to(ROOT)
    folder.mkdir(parents=True, exist_ok=True)
    text = (PLANS / "teaching.md").read_text(encoding="utf-8")
    (folder / "teaching.md").write_text(with_plans(text), encoding="utf-8")


def with_plans(text: str) -> str:
    """Return the text of a page with plans in place of the lines that name them."""

    def filled(mark: re.Match[str]) -> str:
        if mark[3]:
            return projects()
        plan = units(PLANS / mark[2])
        return table(plan) if mark[1] == "plan" else hours(plan)

    return _MARK.sub(filled, text)


def units(path: Path) -> list[dict[str, Any]]:
    """Read the units of a plan."""
    found: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["unit"]
    return found


def problems(unit: dict[str, Any]) -> list[str]:
    """Return what is missing or wrong in a unit: keys, sections, exercises, quizzes, figures, projects."""
    if set(unit) == {"name", "minutes"}:
        return []  # a break
    found = [f"unknown key {key}" for key in sorted(set(unit) - _KEYS)]
    found += [f"no {key}" for key in sorted(_NEEDED) if not unit.get(key)]
    for target in unit.get("show", []):
        name, _, heading = target.partition("#")
        if heading not in headings(name):
            found.append(f"{name} has no heading {heading!r}")
    for target in [*unit.get("exercise", []), *unit.get("homework", [])]:
        name, _, number = target.partition("#")
        if number not in exercises(name):
            found.append(f"{name} has no exercise {number}")
    for name in unit.get("quiz", []):
        if not (ROOT / "chapters" / "quizzes" / f"{name.rpartition('/')[2]}.yaml").is_file():
            found.append(f"{name} has no quiz")
    found += [
        f"{name} has no figure to play with" for name in unit.get("play", []) if "Interactive(" not in _text(name)
    ]
    return found + [f"{name} has no project" for name in unit.get("project", []) if "Project" not in headings(name)]


@functools.cache
def exercises(name: str) -> dict[str, str]:
    """Return the kind of each exercise of a chapter, by its number."""
    return dict(_EXERCISE.findall(_text(name)))


def table(plan: list[dict[str, Any]]) -> str:
    """Return a plan as a Markdown table; where units are no weeks, their times are those of a clock from zero."""
    lines = ["| time | goal | in the book | show live | in class | at home |", "|---|---|---|---|---|---|"]
    clock = 0
    for unit in plan:
        weekly = unit["name"].startswith("Week ")
        time = f"{unit['minutes']} min" if weekly else f"{clock // 60}:{clock % 60:02d}, {unit['minutes']} min"
        clock = 0 if unit["name"].startswith("End ") else clock + unit["minutes"]
        if "goal" not in unit:
            lines.append(f"| {time} | **{unit['name']}** | | | | |")
            continue
        home = [_exercise(target) for target in unit.get("homework", [])]
        home += [f"begin the [project]({_page(name)}#project)" for name in unit.get("project", [])]
        class_work = [_exercise(target) for target in unit["exercise"]]
        class_work += [f"[quiz]({_page(name)}#check-yourself)" for name in unit["quiz"]]
        live = [unit["live"], *(f"[play]({_page(name)})" for name in unit.get("play", []))]
        cells = [f"**{unit['name']}.** {unit['goal']}", "; ".join(map(_section, unit["show"])), "; ".join(live)]
        lines.append(f"| {' | '.join([time, *cells, '; '.join(class_work), '; '.join(home) or '–'])} |")
    return "\n".join(lines)


def hours(plan: list[dict[str, Any]]) -> str:
    """Return what a plan takes the learners: in class, to read, and at home."""
    names = dict.fromkeys(target.partition("#")[0] for unit in plan for target in unit.get("show", []))
    reading = sum(reading_minutes(_notebook(name)) for name in names)
    home = EXERCISE * sum(len(unit.get("homework", [])) for unit in plan)
    inside = sum(unit["minutes"] for unit in plan)
    return (
        f"In class {inside / 60:.1f} hours, breaks included; to read {len(names)} chapters, {reading / 60:.1f} hours; "
        f"exercises at home {home / 60:.1f} hours, besides the projects."
    )


def projects() -> str:
    """Return the list of all projects, each with its chapter; the rubric stands below the project."""
    names = [path.relative_to("chapters").with_suffix("").as_posix() for path in chapters(ROOT)]
    found = [name for name in names if "Project" in headings(name)]
    return "\n".join(f"* [{headings(name)[0]}]({_page(name)}#project)" for name in found)


def _section(target: str) -> str:
    name, _, heading = target.partition("#")
    deck = deck_path(Path(f"{name}.ipynb"))
    slides = f' (<a href="../../{deck}">slides</a>)' if deck else ""
    return f"[{headings(name)[0]}, *{heading}*]({_page(name)}#{slug(heading)}){slides}"


def _exercise(target: str) -> str:
    name, _, number = target.partition("#")
    return f"[{headings(name)[0]}]({_page(name)}#exercises) {number} ({exercises(name)[number]})"


def _page(name: str) -> str:
    return f"../{name}.ipynb"


@functools.cache
def _notebook(name: str) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "chapters" / f"{name}.ipynb", as_version=4)


def _text(name: str) -> str:
    if not (ROOT / "chapters" / f"{name}.ipynb").is_file():
        return ""
    return "\n".join(cell.source for cell in _notebook(name).cells)
