"""Formulas as MathML, which readers of EPUB files show without a script; MathJax makes it of TeX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headless import chromium
from lxml import etree

from d2lbert.errors import UserError

_BATCH = 400  # formulas that the browser gets at a time
_SETTINGS = {"loader": {"load": ["input/tex"]}, "startup": {"typeset": False}}
_CONVERT = """
const [formulas, done] = arguments;
MathJax.startup.promise.then(() => done(formulas.map(([tex, display]) => MathJax.tex2mml(tex, {display}))));
"""
Formula = tuple[str, bool]  # TeX, and whether it stands on a line of its own


def as_mathml(formulas: list[Formula], root: Path, folder: Path) -> dict[Formula, Any]:
    """Return each formula as an element ``math`` whose attribute ``alttext`` is the TeX.

    Args:
        formulas: to convert.
        root: of the checkout, which has MathJax.
        folder: where a page for the browser may be written.

    Raises:
        UserError: there is no Chromium, or a formula cannot be read.
    """
    wanted = list(dict.fromkeys(formulas))
    page = folder / "formulas.html"
    script = (root / "site" / "extra" / "mathjax" / "startup.js").resolve().as_uri()
    page.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><script>window.MathJax = {json.dumps(_SETTINGS)};</script>'
        f'<script src="{script}"></script>',
        encoding="utf-8",
    )
    made: list[str] = []
    with chromium(files=True) as window:
        window.get(page.resolve().as_uri())
        for start in range(0, len(wanted), _BATCH):
            made += window.execute_async_script(_CONVERT, wanted[start : start + _BATCH])
    page.unlink()
    return {formula: _element(text, formula[0]) for formula, text in zip(wanted, made, strict=True)}


def _element(text: str, tex: str) -> Any:
    """Return MathML as a tree, without what MathJax notes for itself."""
    tree = etree.fromstring(text, etree.XMLParser(remove_blank_text=True))
    for node in tree.iter():
        if etree.QName(node).localname == "merror":
            raise UserError(f"MathJax cannot read {tex!r}: {node.get('data-mjx-error', '')}")
        for name in [name for name in node.attrib if name.startswith("data-")]:
            del node.attrib[name]
    tree.set("alttext", tex)
    return tree
