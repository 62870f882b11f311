"""The plans for teachers: what they name exists, their times add up, and every project has a rubric."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import pytest
from contents import chapters
from deck_pages import headings
from effort import hours as effort_hours
from plans import PLANS, ROOT, hours, problems, projects, table, units, with_plans

FILES = sorted(PLANS.glob("*.toml"))
UNITS = [pytest.param(unit, id=f"{path.stem}-{n}") for path in FILES for n, unit in enumerate(units(path), start=1)]
GOOD = {
    "name": "BERT",
    "goal": "Draw it.",
    "minutes": 30,
    "show": ["bert/bert#The idea in a picture"],
    "live": "hide a word",
    "play": ["bert/bert"],
    "exercise": ["bert/bert#2"],
    "quiz": ["bert/bert"],
    "project": ["bert/relatives"],
}


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_unit_names_exists(unit: dict[str, Any]) -> None:
    assert problems(unit) == []


def minutes(name: str) -> list[int]:
    return [unit["minutes"] for unit in units(PLANS / f"{name}.toml")]


def test_times_add_up() -> None:
    assert sum(minutes("three_hours")) == 180
    days = units(PLANS / "two_half_days.toml")
    end = next(number for number, unit in enumerate(days) if unit["name"].startswith("End "))
    assert 180 <= sum(minutes("two_half_days")[: end + 1]) <= 240
    assert 180 <= sum(minutes("two_half_days")[end + 1 :]) <= 240
    assert [unit["name"].partition(":")[0] for unit in units(PLANS / "twelve_weeks.toml")] == [
        f"Week {number}" for number in range(1, 13)
    ]


def test_the_page_has_every_plan_and_project() -> None:
    page = PLANS / "teaching.md"
    marks = page.read_text(encoding="utf-8")
    text = with_plans(marks)
    assert "<!--" not in text
    for path in FILES:
        assert f"plan of {path.name}" in marks
        assert table(units(path)) in text
    assert projects() in text
    for target in re.findall(r"\]\((\.\./[^)#]+)", text):
        assert (PLANS / target).is_file(), target


def test_every_project_has_a_rubric() -> None:
    names = [
        path
        for path in chapters(ROOT)
        if "Project" in headings(path.relative_to("chapters").with_suffix("").as_posix())
    ]
    assert len(names) == len(projects().splitlines()) >= 10
    for path in names:
        cells = nbformat.read(ROOT / path, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown").partition("\n## Project\n")[2]
        rows = re.findall(r"^\|.+\|$", text, flags=re.MULTILINE)
        assert len(rows) >= 5, f"{path} has no table to mark its project with"


def test_hours_are_those_of_the_front_page() -> None:
    plan = [{**GOOD, "homework": ["bert/bert#4", "bert/bert#6"]}]
    reading = effort_hours([nbformat.read(ROOT / "chapters/bert/bert.ipynb", as_version=4)], exercises=False)
    found = re.findall(r"[\d.]+ hours", hours(plan))
    assert found[0] == "0.5 hours"
    assert abs(float(found[1].split()[0]) - reading) <= 0.25
    assert found[2] == "0.5 hours"


def test_a_good_unit_and_a_break_have_no_problems() -> None:
    assert problems(GOOD) == []
    assert problems({"name": "Break", "minutes": 15}) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"show": ["bert/bert#Nothing of that name"]}, "has no heading"),
        ({"show": ["bert/nobody#Exercises"]}, "has no heading"),
        ({"exercise": ["bert/bert#99"]}, "has no exercise 99"),
        ({"homework": ["bert/nobody#1"]}, "has no exercise 1"),
        ({"quiz": ["bert/deeper_loading"]}, "has no quiz"),
        ({"play": ["elmo/elmo"]}, "has no figure to play with"),
        ({"project": ["bert/bert"]}, "has no project"),
        ({"live": ""}, "no live"),
        ({"lunch": "soup"}, "unknown key lunch"),
    ],
)
def test_a_bad_unit_is_seen(change: dict[str, Any], problem: str) -> None:
    assert any(problem in line for line in problems({**GOOD, **change}))


def test_a_table_has_a_clock_and_kinds() -> None:
    lines = table([GOOD, {"name": "Break", "minutes": 15}, GOOD]).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 0:00, 30 min", "| 0:30, 15 min", "| 0:45, 30 min"]
    assert "(by hand)" in lines[2]
    assert 'href="../../slides/bert.html"' in lines[2]
