"""The tasks by name: what a user may type for each, and examples of the wrong kind."""

from __future__ import annotations

import pytest

from d2lbert import UserError
from d2lbert.data import ChoiceQuestion, Pair, Question, ScoredPair, Sentence, TaggedSentence
from d2lbert.tasks.table import NAMED, fitting_examples, named_task
from d2lbert.torch import heads


@pytest.mark.parametrize(
    ("name", "texts", "seconds", "labels", "expected"),
    [
        ("classification", ["a", "b"], [], ["x", "y"], [Sentence("a"), Sentence("b")]),
        ("pair", ["a", "b"], ["c", "d"], ["x", "y"], [Pair("a", "c"), Pair("b", "d")]),
        ("pair", ["a"], ["c"], ["score"], [ScoredPair("a", "c")]),
        ("tagging", ["Jim's here."], [], ["O", "B-PER"], [TaggedSentence(("Jim's", "here", "."))]),
        ("question_answering", ["a text"], ["who?"], [], [Question("who?", "a text")]),
        (
            "multiple_choice",
            ["it rained"],
            ["wet", "dry", "hot"],
            [],
            [ChoiceQuestion("it rained", ("wet", "dry", "hot"))],
        ),
    ],
)
def test_what_a_user_types_becomes_examples(
    name: str, texts: list[str], seconds: list[str], labels: list[str], expected: list[object]
) -> None:
    task = named_task(name)
    task.check_texts(name, texts, seconds)
    assert task.of_texts(texts, seconds, labels) == expected


@pytest.mark.parametrize(
    ("name", "texts", "seconds", "message"),
    [
        ("classification", ["a", " "], [], "--text is empty"),
        ("pair", ["a"], [""], "--pair is empty"),
        ("classification", ["a"], ["b"], "--pair is not for the task classification: leave it out"),
        ("pair", ["a", "b"], ["c"], "2 --text and 1 --pair: give one --pair for each --text"),
        ("multiple_choice", ["a"], ["b"], "1 --text and 1 --pair: give one --text, the premise, and two or more"),
        ("multiple_choice", ["a", "b"], ["c", "d"], "2 --text and 2 --pair"),
    ],
)
def test_texts_that_do_not_fit_are_one_line(name: str, texts: list[str], seconds: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        named_task(name).check_texts(name, texts, seconds)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMED)
def test_every_head_exists(name: str) -> None:
    assert isinstance(getattr(heads, named_task(name).head), type)


@pytest.mark.parametrize("name", NAMED)
def test_examples_of_another_kind_are_refused(name: str) -> None:
    task = named_task(name)
    with pytest.raises(UserError, match=f"'mine' holds no {task.what}: choose another, such as {task.such_as}"):
        fitting_examples(name, "mine", [object()])
    with pytest.raises(UserError, match="holds no"):
        fitting_examples(name, "mine", [])


def test_an_unknown_task_names_the_near_one() -> None:
    with pytest.raises(UserError, match="unknown task 'taging': did you mean tagging"):
        named_task("taging")
