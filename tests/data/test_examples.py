"""Examples: frozen, equal by their fields, without a label where it is to be predicted."""

from __future__ import annotations

import dataclasses

import pytest

from d2lbert.data import ChoiceQuestion, Document, Pair, Question, ScoredPair, Sentence, TaggedSentence


@pytest.mark.parametrize(
    "example",
    [
        Sentence("a"),
        Pair("a", "b"),
        ScoredPair("a", "b"),
        TaggedSentence(("a",)),
        ChoiceQuestion("a", ("b", "c")),
        Question("a?", "b"),
    ],
)
def test_what_is_to_be_predicted_is_none_and_nothing_can_be_changed(example: object) -> None:
    values = {field.name: getattr(example, field.name) for field in dataclasses.fields(example)}  # type: ignore
    (unknown,) = [name for name, value in values.items() if value is None]
    assert unknown in ("label", "score", "tags", "answer", "answers")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(example, unknown, "x")
    assert len({example, type(example)(**values)}) == 1


def test_a_document_is_a_paragraph_a_line() -> None:
    assert Document(("One. Two.", "Three.")).text == "One. Two.\nThree."
