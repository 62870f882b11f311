"""Schemes of tags: the three by hand, and no entity is lost on the way from one to another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.data.readers.tag_schemes import SCHEMES, Entity, convert, entities, split_tag, write_tags


@st.composite
def _sentences(draw: st.DrawFn) -> tuple[list[Entity], int]:
    """Entities in order, often side by side and of the same type, and the number of words."""
    spans, end = [], 0
    for _ in range(draw(st.integers(0, 6))):
        start = end + draw(st.integers(0, 2))
        end = start + draw(st.integers(1, 3))
        spans.append(Entity(start, end, draw(st.sampled_from(["PER", "LOC", "creative-work"]))))
    return spans, end + draw(st.integers(0, 2))


@given(_sentences(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_no_entity_is_lost_from_scheme_to_scheme(
    sentence: tuple[list[Entity], int], scheme: str, other_scheme: str
) -> None:
    spans, length = sentence
    tags = write_tags(spans, length, scheme)
    assert entities(tags) == spans
    assert convert(convert(tags, other_scheme), scheme) == tags


@given(st.lists(st.sampled_from(["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in "XY")]), max_size=12))
def test_any_tags_have_entities_that_do_not_overlap(tags: list[str]) -> None:
    spans = entities(tags)
    assert {position for span in spans for position in range(span.start, span.end)} == {
        position for position, tag in enumerate(tags) if tag != "O"
    }
    assert sum(span.end - span.start for span in spans) == sum(tag != "O" for tag in tags)


def test_the_three_schemes_by_hand() -> None:
    spans = [Entity(0, 1, "PER"), Entity(1, 3, "PER"), Entity(3, 4, "LOC")]
    assert write_tags(spans, 5, "IOB1") == ["I-PER", "B-PER", "I-PER", "I-LOC", "O"]
    assert write_tags(spans, 5, "IOB2") == ["B-PER", "B-PER", "I-PER", "B-LOC", "O"]
    assert write_tags(spans, 5, "BIOES") == ["S-PER", "B-PER", "E-PER", "S-LOC", "O"]
    assert entities(["I-PER", "I-LOC", "E-LOC", "I-LOC"]) == [(0, 1, "PER"), (1, 3, "LOC"), (3, 4, "LOC")]


def test_tags_and_schemes_that_cannot_be() -> None:
    with pytest.raises(UserError, match="unknown scheme of tags 'IOB3': did you mean"):
        write_tags([], 1, "IOB3")
    for tag in ("PER", "X-PER", "B-", "-PER", ""):
        with pytest.raises(UserError, match="is not O, nor B-"):
            entities([tag])


def test_a_tag_is_a_letter_and_a_type() -> None:
    assert split_tag("O") == ("O", "")
    assert split_tag("E-creative-work") == ("E", "creative-work")
