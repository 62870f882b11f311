"""A part for dev: the shares of labels, what stays together, and texts that two sets share."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.data import ChoiceQuestion, Pair, Question, ScoredPair, Sentence, TaggedSentence
from d2lbert.data.splitting import count_shared, cut_dev, text_of

LABELS = ("billing", "login", "shipping")
TICKETS = [Sentence(f"{label} {number}", label) for number in range(20) for label in LABELS]


def test_each_label_has_the_same_share() -> None:
    train, dev = cut_dev(TICKETS, 0.1)
    assert Counter(one.label for one in dev) == {"billing": 2, "login": 2, "shipping": 2}
    assert sorted(map(TICKETS.index, [*train, *dev])) == list(range(60))
    assert [one for one in TICKETS if one in train] == train  # the order stays
    assert cut_dev(TICKETS, 0.1) == (train, dev)
    assert cut_dev(TICKETS, 0.1, seed=1) != (train, dev)


def test_examples_with_one_text_stay_together() -> None:
    questions = [Question(f"what {n}?", f"text {n // 5}", ()) for n in range(50)]
    train, dev = cut_dev(questions, 0.2)
    assert len(dev) == 10
    assert count_shared(train, dev) == 0


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc")), min_size=2, max_size=60),
    st.floats(0.01, 0.99),
    st.integers(0, 3),
)
def test_nothing_is_lost_and_neither_part_is_empty(rows: list[tuple[int, str]], share: float, seed: int) -> None:
    labels = dict(rows)  # a text has one label
    examples = [Sentence(str(number), labels[number]) for number, _ in rows]
    if max(Counter(labels.values()).values()) < 2:
        with pytest.raises(UserError, match="no two texts of one label"):
            cut_dev(examples, share, seed)
        return
    train, dev = cut_dev(examples, share, seed)
    assert Counter(train) + Counter(dev) == Counter(examples)
    assert train
    assert dev
    assert count_shared(train, dev) == 0
    assert {one.label for one in dev} <= {one.label for one in train}


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_a_share_is_between_none_and_all(share: float) -> None:
    with pytest.raises(UserError, match=r"is not between 0 and 1: give one such as 0\.1"):
        cut_dev(TICKETS, share)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Sentence("a", "x"), Sentence("a", "y")),
        (Pair("a", "b", "x"), Pair("a", "b")),
        (ScoredPair("a", "b", 1.0), ScoredPair("a", "b", 2.0)),
        (TaggedSentence(("a",), ("O",)), TaggedSentence(("a",))),
        (ChoiceQuestion("a", ("b", "c"), 0), ChoiceQuestion("a", ("b", "d"), 1)),
        (Question("q", "a", ()), Question("r", "a", None)),
    ],
)
def test_the_text_is_what_is_asked_about(one: Any, other: Any) -> None:
    assert text_of(one) == text_of(other)
    assert count_shared([one], [other, other]) == 2
