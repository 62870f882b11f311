"""The pages "From slide to page": every row is filled, every link is alive, and the rules see rows that break them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from chapter_rules import typed_results
from deck_pages import DECKS, ROOT, TABLE, entry, page_text, problems, rows, slug, table, write_pages

DECK_FILES = sorted(DECKS.glob("*.toml"))
ROWS = [pytest.param(row, id=f"{path.stem}-{n}") for path in DECK_FILES for n, row in enumerate(rows(path), start=1)]
GOOD = {"slide": "BERT", "says": "an encoder", "where": ["bert/bert#Exercises"]}


@pytest.mark.parametrize("row", ROWS)
def test_row_is_filled_and_its_links_are_alive(row: dict[str, Any]) -> None:
    assert not problems(row)
    assert not typed_results(row.get("ours", "")), "ours is read from results, not typed"


def test_five_decks_have_a_page_each() -> None:
    assert len(DECK_FILES) == 5
    named = [TABLE.findall(page.read_text(encoding="utf-8")) for page in sorted(DECKS.glob("*.md"))]
    assert sorted(name for names in named for name in names) == [path.name for path in DECK_FILES]


@pytest.mark.parametrize("page", sorted(DECKS.glob("*.md")), ids=lambda page: page.stem)
def test_page_cites_what_is_in_the_references_and_links_to_what_is_there(page: Path) -> None:
    references = (ROOT / "references.bib").read_text(encoding="utf-8")
    keys = set(re.findall(r"^@\w+\{([^,]+),", references, flags=re.MULTILINE))
    text = page_text(page)
    cited = {key for group in re.findall(r"\{cite\}`([^`]+)`", text) for key in group.split(",")}
    assert cited <= keys
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"says": ""}, "no says"),
        ({"where": []}, "no where"),
        ({"to_come": "deployment: x"}, "unknown key to_come"),
        ({"where": ["bert/bert#Nothing of this name"]}, "no heading"),
        ({"where": ["bert/nowhere#Exercises"]}, "no heading"),
        ({"number": "93.5"}, "ours is missing"),
        ({"number": "93.5", "ours": "{finetuning/sst2:nothing}"}, "no entry"),
        ({"number": "93.5", "ours": "{finetuning/nothing:accuracy}"}, "no entry"),
        ({"slides": "a slip"}, "unknown key slides"),
    ],
)
def test_bad_row_is_seen(change: dict[str, Any], problem: str) -> None:
    assert not problems(GOOD)
    assert any(problem in found for found in problems(GOOD | change))


def test_row_becomes_a_line_with_numbers_and_links() -> None:
    numbers = "{parameters:base}; {elmo/language_model:elmo.forward|.0f}"
    row = GOOD | {"says": "a | b", "number": "110M", "ours": numbers}
    link = "[BERT, *Exercises*](../bert/bert.ipynb#exercises)"
    perplexity = entry("elmo/language_model", "elmo.forward")
    last = table([row]).splitlines()[-1]
    assert last == f"| **BERT** a \\| b | {link} | 110M | 109,482,240; {perplexity:.0f} |"
    accuracy = entry("finetuning/sst2", "accuracy")
    last = table([row | {"ours": "{finetuning/sst2:accuracy}"}]).splitlines()[-1]
    assert last.endswith(f"| {100 * accuracy['mean']:.1f} ± {100 * accuracy['std']:.1f} |")


def test_a_single_run_has_no_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {"mean": 0.5, "std": 0.0, "n": 1}
    monkeypatch.setattr("deck_pages.entry", lambda name, place: runs)
    row = GOOD | {"ours": "{some/run:accuracy}"}
    assert table([row]).endswith("| 50.0 |")
    runs["n"] = 2
    assert table([row]).endswith("| 50.0 ± 0.0 |")


def test_a_rate_is_shown_as_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deck_pages.entry", lambda name, place: 8.0)
    assert "one text 125.0 ms" in table([GOOD | {"number": "75 ms", "ours": "one text {deployment/engines:rate|ms}"}])


def test_anchor_is_that_of_the_site() -> None:
    assert slug("The papers' numbers beside ours") == "the-papers-numbers-beside-ours"
    assert slug("Writing: which token to take?") == "writing-which-token-to-take"
    assert slug("Post-LN or pre-LN") == "post-ln-or-pre-ln"


def test_pages_are_written_with_their_tables(tmp_path: Path) -> None:
    write_pages(tmp_path)
    written = sorted((tmp_path / "chapters" / "decks").glob("*.md"))
    assert [page.name for page in written] == [page.name for page in sorted(DECKS.glob("*.md"))]
    for path in DECK_FILES:
        text = (tmp_path / "chapters" / "decks" / f"{path.stem}.md").read_text(encoding="utf-8")
        assert text.count("\n| ") == len(rows(path)) + 1  # and the head; the line below it has no space
        assert "<!--" not in text
