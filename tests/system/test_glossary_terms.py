"""Terms of the glossary are marked where a page first uses them, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from docutils.core import publish_doctree
from glossary_terms import Term, book_term, mark_terms, read_terms

GLOSSARY = """\
| Term | Meaning |
|---|---|
| [adapter, LoRA](../finetuning/adapters.ipynb#mathematics) | a change beside a `Linear` |
| [head (of a model)](../a/b.ipynb#c) | a small network |
| [language model](../elmo/elmo.ipynb#two) | guesses the next word |
| [masked language model](../bert/bert.ipynb#three) | guesses hidden words |
| [test](../a/b.ipynb#d) | the last split |
"""


def marked(text: str, *names: str) -> list[tuple[str, str]]:
    """The words that are marked in a text in reStructuredText, each with the name of its term."""
    terms = [Term(name, "doc", "heading", f"meaning of {name}") for name in sorted(names, key=len, reverse=True)]
    tree = publish_doctree(text)
    mark_terms(tree, terms, lambda term: f"#{term.name}")
    return [(node.astext(), node["address"][1:]) for node in tree.findall(book_term)]


def test_terms_are_read_with_their_meanings_and_without_ambiguous_ones() -> None:
    found = read_terms(GLOSSARY)
    assert [term.name for term in found] == ["masked language model", "language model", "adapter", "LoRA"]
    assert found[2] == Term("adapter", "chapters/finetuning/adapters", "mathematics", "a change beside a Linear")


def test_every_meaning_of_the_book_is_plain(root: Path) -> None:
    found = read_terms((root / "chapters" / "start" / "glossary.md").read_text(encoding="utf-8"))
    assert len(found) > 100
    assert [term for term in found if any(sign in term.meaning for sign in "`$*|")] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The softmax. A softmax again.", [("softmax", "softmax")]),
        ("Adapters are small.", [("Adapters", "adapter")]),
        ("A masked language model is one.", [("masked language model", "masked language model")]),
        (
            "A masked language model is a language\nmodel.",
            [("masked language model", "masked language model"), ("language\nmodel", "language model")],
        ),
        ("The bloral and glora.", []),
        ("An adapter-based way; a re-adapter.", []),
        ("First LoRA, then an adapter.", [("LoRA", "LoRA"), ("adapter", "adapter")]),
        ("A lora or a loRA is a bird.", []),
        ("``softmax`` and `a softmax <https://e.org>`_ are no prose, and :math:`softmax` is none.", []),
        ("``softmax`` and softmax.", [("softmax", "softmax")]),
        (".. note::\n\n   A softmax.\n", []),
        ("softmax\n=======\n\nText of the softmax.\n", [("softmax", "softmax")]),
    ],
)
def test_first_use(text: str, found: list[tuple[str, str]]) -> None:
    assert marked(text, "softmax", "adapter", "LoRA", "language model", "masked language model") == found


def test_the_words_of_a_page_stay_as_they_are() -> None:
    text = "Before a softmax, then LoRA after.\n\nAnother adapter."
    tree = publish_doctree(text)
    before = tree.astext()
    terms = [Term(name, "doc", "h", "m") for name in ("softmax", "adapter", "LoRA")]
    assert sorted(mark_terms(tree, terms, lambda term: "#h")) == ["LoRA", "adapter", "softmax"]
    assert tree.astext() == before
