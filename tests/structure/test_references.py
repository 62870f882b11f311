"""Every work that is cited can be reached: references.bib gives its DOI or its address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pybtex.database import BibliographyData, Entry, parse_string

# Books and chapters from before there were such things.
WITHOUT = {"zipf1949human", "firth1957synopsis"}


def problem(entry: Entry) -> str:
    """Return what is wrong with where an entry says to find the work; empty if nothing is."""
    doi, url = entry.fields.get("doi", ""), entry.fields.get("url", "")
    if bool(doi) == bool(url):
        return "give a doi or a url, one of them"
    if doi and not re.fullmatch(r"10\.\d{4,5}/\S+", doi):
        return f"{doi} is no DOI"
    if url and not re.fullmatch(r"https?://[\w.-]+/?\S*", url):
        return f"{url} is no address"
    return ""


@pytest.fixture(scope="module")
def references(root: Path) -> BibliographyData:
    return parse_string((root / "references.bib").read_text(encoding="utf-8"), "bibtex")


def test_every_entry_says_where_the_work_is(references: BibliographyData) -> None:
    problems = {key: problem(entry) for key, entry in references.entries.items()}
    assert {key for key, message in problems.items() if message} == WITHOUT, problems


def test_no_two_entries_lead_to_one_work(references: BibliographyData) -> None:
    places = [e.fields.get("doi") or e.fields.get("url") for e in references.entries.values() if e.key not in WITHOUT]
    assert len(places) > 100
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(
    "fields",
    ["", "doi = {10.1/x}, url = {https://x.org}", "doi = {https://doi.org/10.1234/x}", "url = {arXiv:1706.03762}"],
)
def test_a_bad_entry_is_seen(fields: str) -> None:
    (entry,) = parse_string(f"@misc{{x, title = {{X}}, {fields}}}", "bibtex").entries.values()
    assert problem(entry)
