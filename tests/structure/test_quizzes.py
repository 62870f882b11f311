"""The quizzes: every chapter has five questions, each answer is explained, and none gives itself away."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest
from chapter_rules import prose
from contents import chapters
from quizzes import QUESTIONS, Question, read_quiz

ROOT = Path(__file__).resolve().parents[2]
BANK = ROOT / "chapters" / "quizzes"
FEWEST_WORDS = 6  # of an explanation
RAW = ("$", "{cite", "{glue", "](", "**")  # what a quiz does not render


def headings(slug: str) -> set[str]:
    """The headings of a chapter."""
    (path,) = [path for path in chapters(ROOT) if path.stem == slug]
    text = "\n".join(prose(nbformat.read(ROOT / path, as_version=4)))
    return set(re.findall(r"^## (.+)$", text, flags=re.MULTILINE))


def has_exercises(path: Path) -> bool:
    return "Exercises" in headings(path.stem)


def faults(questions: list[Question], sections: set[str]) -> list[str]:
    """Return what a reader would stumble over, or could guess from without knowing the answer."""
    found = [] if len(questions) == QUESTIONS else [f"{len(questions)} questions, {QUESTIONS} are wanted"]
    places, longest = Counter[int](), 0
    for number, question in enumerate(questions, start=1):
        if question.section not in sections:
            found.append(f"{number}: no section {question.section!r}")
        if not 3 <= len(question.choices) <= 4:
            found.append(f"{number}: three or four choices")
        if len({choice.text for choice in question.choices}) < len(question.choices):
            found.append(f"{number}: a choice stands twice")
        found += [
            f"{number}: {choice.text!r} is hardly explained"
            for choice in question.choices
            if len(choice.why.split()) < FEWEST_WORDS
        ]
        texts = " ".join([question.text, *(text for choice in question.choices for text in (choice.text, choice.why))])
        found += [f"{number}: {raw} is not shown as such" for raw in RAW if raw in texts]
        right = next(place for place, choice in enumerate(question.choices) if choice.right)
        places[right] += 1
        longest += len(question.choices[right].text) > max(
            len(choice.text) for choice in question.choices if not choice.right
        )
    if max(places.values(), default=0) > 3:
        found.append("the right answer stands at the same place more than three times")
    if longest > 3:
        found.append("the right answer is the longest more than three times")
    return found


@pytest.mark.parametrize("path", [path for path in chapters(ROOT) if has_exercises(path)], ids=lambda path: path.stem)
def test_a_chapter_has_a_quiz_without_faults(path: Path) -> None:
    assert faults(read_quiz(BANK / f"{path.stem}.yaml"), headings(path.stem)) == []


def test_each_quiz_has_its_chapter() -> None:
    assert {path.stem for path in BANK.glob("*.yaml")} == {path.stem for path in chapters(ROOT) if has_exercises(path)}


GOOD = """
- question: What is 1 + 1?
  section: Sums
  choices:
  - wrong: One.
    why: One is what we began with, before adding.
  - right: Two.
    why: One and one more is two, by counting.
  - wrong: Three.
    why: Three would need another one to be added.
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("right: Two", "wrong: Two", "question 1: exactly one choice is right"),
        ("wrong: One.", "right: One.", "question 1: exactly one choice is right"),
        ("section: Sums", "place: Sums", "question 1: wants question, section and choices, not question, place"),
        ("    why: One is what we began with, before adding.\n", "", "a choice is two texts, right or wrong, and why"),
        ("wrong: One.", "wrong: 1", "a choice is two texts, right or wrong, and why"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    (tmp_path / "bad.yaml").write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_quiz(tmp_path / "bad.yaml")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("section: Sums", "section: Products", "no section 'Products'"),
        ("One is what we began with, before adding.", "No.", "hardly explained"),
        ("wrong: Three", "wrong: Two", "stands twice"),
        ("What is 1 + 1?", "What is $1 + 1$?", "is not shown as such"),
        ("right: Two.", "right: Two, as anybody can count.", "longest more than three times"),
    ],
)
def test_faults_are_seen(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in GOOD
    (tmp_path / "good.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "bad.yaml").write_text(GOOD.replace(old, new), encoding="utf-8")
    good, bad = (read_quiz(tmp_path / name) * QUESTIONS for name in ("good.yaml", "bad.yaml"))
    assert faults(good, {"Sums"}) == ["the right answer stands at the same place more than three times"]
    assert any(fault in line for line in faults(bad, {"Sums"}))
