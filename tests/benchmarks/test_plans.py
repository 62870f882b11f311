"""Plans: no part of a sentence that chooses is trained on; confusions are counted."""

from __future__ import annotations

import pytest

from benchmarks import plans
from d2lbert.data import ScoredPair, Sentence, TaggedSentence


def test_no_part_of_a_choosing_sentence_is_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "SENTENCE_EVERY", 2)
    phrases = [
        Sentence("A fine film , truly .", "positive"),
        Sentence("fine film", "positive"),
        Sentence("film truly", "positive"),
        Sentence("truly fine", "positive"),
        Sentence("Dull and long .", "negative"),
        Sentence("long", "negative"),
        Sentence("never whole", "negative"),
    ]
    train, choice = plans.apart(phrases, ["a fine film truly", "dull and long", "not among them"])
    assert choice == phrases[:1]  # of two whole sentences, the first in the order of their words
    assert train == phrases[3:]  # "truly fine" has its words, but not in their order


def test_confusions_are_counted_by_text_or_by_word() -> None:
    labels = [Sentence("x", "a"), Sentence("y", "a"), Sentence("z", "b")]
    answers = [{"label": "a"}, {"label": "b"}, {"label": "b"}]
    assert plans.confusion(labels, answers) == {"a": {"a": 1, "b": 1}, "b": {"b": 1}}
    tags = [TaggedSentence(("x", "y"), ("NOUN", "VERB"))]
    assert plans.confusion(tags, [{"tags": ["NOUN", "NOUN"]}]) == {"NOUN": {"NOUN": 1}, "VERB": {"NOUN": 1}}
    assert plans.confusion([ScoredPair("x", "y", 1.0)], [{"score": 2.0}]) == {}
