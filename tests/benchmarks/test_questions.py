"""What the benchmarks of readers share: the F1 of each answer, against the best of its right ones."""

from __future__ import annotations

import pytest

from benchmarks.questions import f1_of_each
from d2lbert.data import Answer, Question


def test_each_answer_has_the_f1_of_the_best_right_one() -> None:
    right = (Answer("the old town", 0), Answer("town", 8))
    questions = [Question("Where?", "the old town of Bern", answers=right)] * 3
    assert f1_of_each(questions, ["town", "old city", "Bern"]) == pytest.approx([1, 1 / 2, 0])
