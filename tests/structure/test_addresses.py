"""Addresses outside the checkout stand in _config.yml; where one must be repeated, it is the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from addresses import Addresses, read_addresses
from colab_cell import SOURCE
from publish_notebooks import ALL

BOOK = Addresses("https://git.example/a/b", "notes", "https://book.example/b/", "https://colab.example")
PAGE = Path("chapters/bert/bert.ipynb")


def test_the_repository_has_one_address(root: Path) -> None:
    repository = read_addresses(root).repository
    assert f"git+{repository}" in SOURCE
    assert yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))["repository-code"] == repository


def test_the_front_page_leads_to_the_branch_of_the_notebooks(root: Path) -> None:
    found = read_addresses(root)
    assert f"({found.repository}/tree/{found.branch})" in (root / "index.md").read_text(encoding="utf-8")
    assert f'href="notebooks/{ALL}.zip"' in (root / "index.md").read_text(encoding="utf-8")


def test_addresses_end_as_they_are_joined(root: Path) -> None:
    found = read_addresses(root)
    assert found.site.endswith("/")
    assert not found.repository.endswith("/")
    assert found.page(PAGE) == f"{found.site}chapters/bert/bert.html"


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("https://elsewhere.example/x.ipynb", "https://elsewhere.example/x.ipynb"),
        ("mailto:someone@example.org", "mailto:someone@example.org"),
        ("relatives.ipynb", "https://book.example/b/chapters/bert/relatives.html"),
        ("../elmo/elmo.ipynb#mixing", "https://book.example/b/chapters/elmo/elmo.html#mixing"),
        ("../start/notation.md", "https://book.example/b/chapters/start/notation.html"),
        ("#loss", "https://book.example/b/chapters/bert/bert.html#loss"),
        ("../../browser/index.html", "https://book.example/b/browser/index.html"),
        ("../../d2lbert/torch/bert.py", "https://git.example/a/b/blob/main/d2lbert/torch/bert.py"),
    ],
)
def test_links_are_made_absolute(target: str, address: str) -> None:
    assert BOOK.resolve(target, PAGE) == address


def test_where_notebooks_open() -> None:
    assert BOOK.on_colab(PAGE) == "https://colab.example/github/a/b/blob/notes/chapters/bert/bert.ipynb"
    assert BOOK.on_kaggle(PAGE).endswith("?src=https://git.example/a/b/blob/notes/chapters/bert/bert.ipynb")
    assert BOOK.on_studio_lab(PAGE).endswith("/github/a/b/blob/notes/chapters/bert/bert.ipynb")
    assert BOOK.commit("abc") == "https://git.example/a/b/commit/abc"
