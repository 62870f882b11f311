"""Figures of answers and entities, in headless Chromium: the probabilities are those of the chapters' functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figure_page import FigurePage, call, figure_page, written_in
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from d2lbert.data.readers.tag_schemes import entities as read_entities

pytestmark = pytest.mark.browser

RANDOM = np.random.default_rng(0)
TOKENS = ["held", "in", "sea", "##ttle", "for", "three", "days", "."]
TEXTS = ["Held in Seattle for three days.", "Dogs in Seattle bark."]
OFFSETS = [
    [(0, 4), (5, 7), (8, 11), (11, 15), (16, 19), (20, 25), (26, 30), (30, 31)],
    [(0, 4), (5, 7), (8, 15), (16, 20)],
]
QUESTIONS: list[dict[str, Any]] = [
    {
        "question": f"Where? {number}",
        "context": text,
        "tokens": TOKENS if number == 0 else ["dogs", "in", "seattle", "bark"],
        "offsets": offsets,
        "start": RANDOM.normal(scale=2, size=len(offsets)).round(4),
        "end": RANDOM.normal(scale=2, size=len(offsets)).round(4),
    }
    for number, (text, offsets) in enumerate(zip(TEXTS, OFFSETS, strict=True))
]
LONGEST = 3
LABELS = ["O", "B-person", "I-person", "B-place", "I-place"]
CHANCES = [RANDOM.dirichlet([0.4] * 5, size=6), np.array([[0.9, 0.05, 0.05], [0.1, 0.4, 0.5], [0.1, 0.1, 0.8]])]
SENTENCES: list[dict[str, Any]] = [
    {"name": "long", "words": ["Jim", "Berg", "met", "Anna", "in", "Ulm"], "labels": LABELS, "chances": CHANCES[0]},
    {
        "name": "invented",
        "words": ["met", "Anna", "Berg"],
        "labels": ["O", "B-PER", "I-PER"],
        "chances": CHANCES[1],
    },
]


def all_spans(question: dict[str, Any]) -> np.ndarray:
    """The probability of each span (first, last), by the chapter's own code."""
    functions = written_in("finetuning/question_answering", "span_scores", "softmax")
    return functions["softmax"](functions["span_scores"](question["start"], question["end"], LONGEST))


def wording(question: dict[str, Any], first: int, last: int) -> str:
    return question["context"][question["offsets"][first][0] : question["offsets"][last][1]]


def through(question: dict[str, Any], token: int) -> list[tuple[str, float]]:
    """The likeliest spans that hold a token, with their probabilities."""
    spans = all_spans(question)
    holding = [(p, *span) for span, p in np.ndenumerate(spans) if span[0] <= token <= span[1] and p > 0]
    return [(wording(question, *span), p) for p, *span in sorted(holding, reverse=True)[:6]]


def legal_table(labels: list[str]) -> np.ndarray:
    legal = written_in("finetuning/tagging", "legal")["legal"]
    return np.array([[legal(before, label) for label in labels] for before in labels])


@pytest.fixture
def answers(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    with figure_page(driver, tmp_path, "answers", {"questions": QUESTIONS, "longest": LONGEST}) as page:
        yield page


@pytest.fixture
def entities(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    with figure_page(driver, tmp_path, "entities", {"sentences": SENTENCES}) as page:
        yield page


def test_answers_are_whole(answers: FigurePage) -> None:
    assert answers.problems() == []


def test_entities_are_whole(entities: FigurePage) -> None:
    assert entities.problems() == []


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_spans_are_the_chapters(answers: FigurePage, longest: int) -> None:
    functions = written_in("finetuning/question_answering", "span_scores", "softmax", "best_span")
    for question in QUESTIONS:
        scores = functions["span_scores"](question["start"], question["end"], longest)
        right = functions["softmax"](scores)
        found = call(answers, "spanProbabilities", question["start"].tolist(), question["end"].tolist(), longest)
        assert len(found) == np.isfinite(scores).sum()
        assert (found[0]["first"], found[0]["last"]) == functions["best_span"](scores)[:2]
        for span in found:
            assert span["probability"] == pytest.approx(right[span["first"], span["last"]], abs=1e-12)


def test_going_along_a_text_shows_the_spans_through_each_token(answers: FigurePage) -> None:
    question = QUESTIONS[0]
    spans = all_spans(question)
    first, last = np.unravel_index(spans.argmax(), spans.shape)
    chips = answers.all("[role=radio]")
    marked = [chip.text for chip in chips]
    assert marked[first].startswith("[")
    assert marked[last].endswith("]")
    assert sum("[" in text or "]" in text for text in marked) == len({first, last})
    answers.keys(answers.one("[role=radio][tabindex='0']"), Keys.HOME)
    for token in range(len(TOKENS)):
        right = through(question, token)
        assert [row[0] for row in answers.rows()] == [text for text, _ in right]
        assert [float(row[1]) for row in answers.rows()] == pytest.approx([p for _, p in right], abs=6e-4)
        inside = sum(p for span, p in np.ndenumerate(spans) if span[0] <= token <= span[1])
        assert f"“{TOKENS[token]}” is in the answer with {inside:.3f}" in answers.said
        assert answers.said.startswith(f"Answer: “{wording(question, first, last)}” {spans.max():.3f}.")
        answers.keys(answers.one("[role=radio][tabindex='0']"), Keys.ARROW_RIGHT)


def test_another_question_has_its_own_text(answers: FigurePage) -> None:
    answers.choose("question", "Where? 1")
    assert [chip.text.strip("[]") for chip in answers.all("[role=radio]")] == QUESTIONS[1]["tokens"]
    spans = all_spans(QUESTIONS[1])
    first, last = np.unravel_index(spans.argmax(), spans.shape)
    assert answers.said.startswith(f"Answer: “{wording(QUESTIONS[1], first, last)}” {spans.max():.3f}.")


def test_legal_labels_are_the_chapters(entities: FigurePage) -> None:
    viterbi = written_in("finetuning/tagging", "viterbi")["viterbi"]
    changed = 0
    for seed in range(20):
        chances = np.random.default_rng(seed).dirichlet([0.5] * 5, size=7)
        right = viterbi(chances, legal_table(LABELS))
        assert call(entities, "legalLabels", chances.tolist(), LABELS) == right
        assert call(entities, "likeliest", chances.tolist()) == chances.argmax(1).tolist()
        changed += right != chances.argmax(1).tolist()
    assert changed > 5, "the search has something to do"


def test_entities_are_read_as_the_package_does(entities: FigurePage) -> None:
    for seed in range(20):
        tags = np.random.default_rng(seed).choice(LABELS, size=12).tolist()
        right = [{"start": one.start, "end": one.end, "type": one.type} for one in read_entities(tags)]
        assert call(entities, "entitySpans", tags) == right


def test_a_word_shows_what_else_it_might_be(entities: FigurePage) -> None:
    words = SENTENCES[0]["words"]
    entities.keys(entities.one("[role=radio][tabindex='0']"), Keys.HOME)
    for place, word in enumerate(words):
        order = np.argsort(-CHANCES[0][place], kind="stable")
        assert [row[0] for row in entities.rows()] == [LABELS[label] for label in order]
        assert [float(row[1]) for row in entities.rows()] == pytest.approx(CHANCES[0][place][order], abs=6e-4)
        assert entities.said.startswith(f"{word}: {LABELS[order[0]]} {CHANCES[0][place][order[0]]:.2f}")
        entities.keys(entities.one("[role=radio][tabindex='0']"), Keys.ARROW_RIGHT)


def test_the_search_of_viterbi_changes_the_chapters_sentence(entities: FigurePage) -> None:
    entities.choose("sentence", "invented")
    assert [chip.text.split("\n") for chip in entities.all("[role=radio]")] == [
        ["met", "O"],
        ["Anna", "I-PER 0.50"],
        ["Berg", "I-PER 0.80"],
    ]
    assert entities.said == "Anna: I-PER 0.50, in the entity “Anna Berg” (PER). Next: B-PER 0.40, O 0.10."
    entities.keys(entities.labelled("only legal"), Keys.SPACE)
    assert [chip.text.split("\n")[1] for chip in entities.all("[role=radio]")] == ["O", "B-PER 0.40", "I-PER 0.80"]
    assert entities.said.startswith("Anna: B-PER 0.40, in the entity “Anna Berg” (PER). Next: I-PER 0.50")
    assert "now" in entities.all("tbody tr")[1].get_attribute("class")
