"""Figures to play with, in headless Chromium: byte pairs and WordPiece, as the chapter and the package compute them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import console_problems
from figure_page import FigurePage, call, figure_page, written_in
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from d2lbert.text import WordPiece, split_words
from d2lbert.zoo import locate

pytestmark = pytest.mark.browser

CHAPTER = "representations/tokenization"
TOY = {"old": 4, "oldest": 4, "cold": 7, "coldest": 3, "kindest": 3}
TEXT = "The theory of the other: they breathe, then she sells sea shells by the sea shore. The shells she sells?"
LINE = "Buy 5000m3 Dec CFT, WTI -9.25, Équinor US…"


@pytest.fixture
def pairs(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    text = " ".join(word for word, count in TOY.items() for _ in range(count))
    with figure_page(driver, tmp_path, "byte-pairs", {"text": text}) as page:
        yield page


@pytest.fixture(scope="module")
def minilm() -> WordPiece:
    return WordPiece.from_pretrained(locate("minilm"))


@pytest.fixture
def pieces(driver: webdriver.Chrome, tmp_path: Path, minilm: WordPiece) -> Iterator[FigurePage]:
    data = {"text": LINE, "vocabulary": "\n".join(minilm.vocab), "lowercase": True}
    with figure_page(driver, tmp_path, "wordpiece", data) as page:
        yield page


def learned(counts: dict[str, int], merges: int) -> list[tuple[str, str]]:
    """The merges of the chapter's own code."""
    return written_in(CHAPTER, "count_pairs", "join", "learn")["learn"](counts, merges)


def write(page: FigurePage, label: str, text: str) -> None:
    """Type a text in place of the one that is there."""
    page.labelled(label).clear()
    page.labelled(label).send_keys(text)


def test_byte_pairs_are_whole(pairs: FigurePage) -> None:
    assert pairs.problems() == []


def test_wordpiece_is_whole(pieces: FigurePage) -> None:
    assert pieces.problems() == []


def test_the_pages_example_is_merged_step_by_step(pairs: FigurePage) -> None:
    long, letters = sum(count * len(word) for word, count in TOY.items()), len(set("".join(TOY)))
    assert pairs.said == f"No merge yet. The text takes {long} pieces, and the vocabulary has {letters}."
    for step, (left, right) in enumerate(learned(TOY, 5), start=1):
        assert pairs.rows()[0][0] == f"{left} + {right}"
        count = pairs.rows()[0][1]
        pairs.press("Next merge")
        assert pairs.said.startswith(f"Merge {step} joined {left} + {right}, {count} times.")
        assert {chip.text for chip in pairs.all(".chip.weight")} == {left + right}
    pairs.press("Back")
    assert pairs.said.startswith("Merge 4 ")
    pairs.press("To the start")
    assert pairs.said.startswith("No merge yet.")


def test_the_readers_own_text_is_merged_as_the_chapter_does(pairs: FigurePage) -> None:
    write(pairs, "A text", TEXT)
    counts = dict(Counter(split_words(TEXT.lower())).most_common())
    right = learned(counts, 12)
    found = [step["best"] for step in call(pairs, "byteMerges", list(counts.items()), 12)]
    assert found == [*map(list, right), None]
    for left, following in right:
        assert pairs.rows()[0][0] == f"{left} + {following}"
        pairs.press("Next merge")
    pairs.press("To the end")
    assert "No pair is left." in pairs.said
    assert not next(button for button in pairs.all("button") if button.text == "Next merge").is_enabled()


def test_no_text_is_no_mistake(pairs: FigurePage) -> None:
    write(pairs, "A text", f"x{Keys.BACKSPACE}")
    assert pairs.said == "No merge yet. The text takes 0 pieces, and the vocabulary has 0. No pair is left."
    assert console_problems(pairs.driver) == []


@pytest.mark.parametrize(
    "text", [LINE, "unaffable", "Is [MASK] a word? 你好 naïve", "x" * 101 + " y", "\u2603 snow", "a  b\ttab"]
)
def test_pieces_and_ids_are_the_packages(pieces: FigurePage, minilm: WordPiece, text: str) -> None:
    script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))"  # tabs cannot be typed
    pieces.driver.execute_script(script, pieces.labelled("A text"), text)
    encoded = minilm.encode(text)
    assert [chip.text for chip in pieces.all(".chip")] == encoded.tokens[1:-1]
    assert [int(small.text) for small in pieces.all("small")] == encoded.ids[1:-1]
    assert pieces.numbers()[1:] == [len(encoded.ids) - 2, encoded.tokens.count("[UNK]")]


def test_a_word_is_followed_piece_by_piece(pieces: FigurePage, minilm: WordPiece) -> None:
    write(pieces, "A text", "we breathe unaffably \u2603x")
    right = minilm.tokenize("unaffably")
    assert [row[2] for row in pieces.rows()] == right, "the longest word is followed first"
    rest = "unaffably"
    for row, piece in zip(pieces.rows(), right, strict=True):
        assert row[0].removeprefix("##") == rest
        assert int(row[1]) == len(rest) - len(piece.removeprefix("##"))
        rest = rest[len(piece.removeprefix("##")) :]
    pieces.choose("Follow", "\u2603x")
    assert [row[2] for row in pieces.rows()] == ["nothing: the whole word is [UNK]"]
