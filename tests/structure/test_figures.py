"""Figures to play with: each name in a chapter has its script, all are small, and their colours are the book's."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

from d2lbert.plots.diagram import KINDS

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "site" / "extra" / "figures"
SHARED = {"figure", "numbers", "random"}
MOST_BYTES = 150_000  # with what they take from the browser module
USED = re.compile(r"plots\.Interactive\(\s*\"([a-z-]+)\"")


def _used() -> dict[str, nbformat.NotebookNode]:
    """Name of a figure -> the cell that makes it."""
    found = {}
    for path in sorted((ROOT / "chapters").rglob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                found |= dict.fromkeys(USED.findall(cell.source), cell)
    return found


def test_every_figure_has_a_script_and_every_script_a_figure() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.js")} - SHARED == set(_used())


def test_cells_that_make_one_are_folded() -> None:
    assert not [name for name, cell in _used().items() if "hide-input" not in cell.metadata.get("tags", [])]


def test_scripts_are_small_and_ask_nobody() -> None:
    tokenizer = ROOT / "d2lbert" / "deploy" / "browser" / "js"
    paths = [*SCRIPTS.glob("*.js"), tokenizer / "wordpiece.js", tokenizer / "unicode.js"]
    assert sum(path.stat().st_size for path in paths) <= MOST_BYTES
    for path in SCRIPTS.glob("*.js"):
        text = path.read_text(encoding="utf-8").replace('"http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?://|fetch\(|XMLHttpRequest|eval\(|innerHTML", text), path.name
        assert len(text.splitlines()) <= 400, path.name


def test_colours_are_those_of_diagrams() -> None:
    style = (ROOT / "site" / "style" / "book.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--d2l-(\w+): (#[0-9a-f]{6});", style))
    assert colours == {kind: colour for kind, colour in KINDS.items() if kind != "plain"}
