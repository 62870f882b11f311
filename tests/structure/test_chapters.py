"""Every chapter keeps the rules, the maps agree, and each rule sees a chapter that breaks it."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import yaml
from chapter_rules import (
    KEPT,
    form_problems,
    open_formats,
    prose,
    prose_problems,
    reference_problems,
    typed_results,
)
from colab_cell import SOURCE, TAGS
from contents import chapters, place
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from reader_rules import reader_problems

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").rglob("*.ipynb"))
PAGES = sorted((ROOT / "chapters").rglob("*.md"))


def _keys() -> set[str]:
    return set(re.findall(r"^@\w+\{([^,]+),", (ROOT / "references.bib").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    problems = form_problems(notebook) + prose_problems(notebook) + reference_problems(notebook, path, _keys())
    here = place(ROOT, path.relative_to(ROOT))
    assert not problems + reader_problems(notebook, path, ROOT, chapters(ROOT), here)


def test_table_of_contents_names_every_chapter_once() -> None:
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text())
    files = [chapter["file"] for part in contents["parts"] for chapter in part["chapters"]]
    assert sorted(name for name in files if name.startswith("chapters/")) == sorted(
        str(path.relative_to(ROOT).with_suffix("")) for path in CHAPTERS + PAGES
    )
    assert len(files) == len(set(files))


def test_every_part_has_a_project_with_a_rubric() -> None:
    parts: dict[str, bool] = {}
    for path in chapters(ROOT):
        text = "\n".join(prose(nbformat.read(ROOT / path, as_version=4)))
        part = place(ROOT, path).part
        parts[part] = parts.get(part, False) or bool(
            re.search(r"^## Project\n.*^\|.*\|$", text, re.DOTALL | re.MULTILINE)
        )
    assert all(parts.values()), [part for part, found in parts.items() if not found]


@pytest.mark.parametrize("page", ["README.md", "index.md"])
def test_maps_name_every_chapter_and_only_what_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    links = re.findall(r"\]\(([^)#]+)\)", text)
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing
    assert {link for link in links if link.endswith(".ipynb")} == {str(path.relative_to(ROOT)) for path in CHAPTERS}


def test_profiles_name_chapters_and_their_parameters() -> None:
    for profile in sorted((ROOT / "profiles").glob("*.yaml")):
        for slug, values in (yaml.safe_load(profile.read_text()) or {}).items():
            path = next(path for path in CHAPTERS if path.stem == slug)
            cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
            known = set(re.findall(r"^(\w+)\s*=", cells[1].source, flags=re.MULTILINE))
            assert set(values or {}) <= known, f"{profile.name}: {slug}"


def test_every_chapter_has_its_smallest_size() -> None:
    """With it the chapter runs on the pretend accelerator."""
    assert set(yaml.safe_load((ROOT / "profiles" / "smallest.yaml").read_text())) == {path.stem for path in CHAPTERS}


def _good() -> nbformat.NotebookNode:
    """The smallest notebook that keeps the rules of this file."""
    cells = [
        new_markdown_cell("# Title\n\nWords."),
        new_code_cell(SOURCE, metadata={"tags": TAGS}),
        new_code_cell("seed = 0", metadata={"tags": ["parameters"]}),
        *[new_code_cell("print(1)") for _ in range(4)],
    ]
    return new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})


def _problems(notebook: nbformat.NotebookNode) -> list[str]:
    return (
        form_problems(notebook) + prose_problems(notebook) + reference_problems(notebook, ROOT / "index.md", {"a2020"})
    )


def test_good_notebook_passes() -> None:
    assert not _problems(_good())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Another title", "2 titles"),
        ("We reach 0.93 here.", "typed by hand: 0.93"),
        ("We reach 93 % here.", "typed by hand: 93 %"),
        ("We read {glue:text}`words:,` words.", "makes a decimal of words:,:"),
        ("[next](nowhere.ipynb)", "nowhere.ipynb, which does not exist"),
        ("See {cite}`a2020,b2021`.", "citation b2021"),
        ("The vector $\\boldsymbol\\beta$.", "MathJax here has no \\boldsymbol"),
        ("https://cdn.example.org/x.js", "loads from"),
        ("/".join(("see ", "root", "x")), "machine path"),
    ],
)
def test_rule_sees_bad_prose(text: str, problem: str) -> None:
    notebook = _good()
    notebook.cells.append(new_markdown_cell(text))
    assert any(problem in found for found in _problems(notebook))


def test_formats_that_say_their_decimals_pass() -> None:
    assert not open_formats("{glue:text}`a`, {glue:text}`b:.2f` and {glue:text}`c:,.0f`")


def test_rules_see_bad_cells() -> None:
    notebook = _good()
    notebook.cells[1].source += "\n"
    notebook.cells[2].metadata["tags"] = []
    notebook.cells[3].source = "x = 1\n" * 41
    notebook.cells[4].outputs = [new_output("stream", text="1")]
    notebook.cells[5].metadata["tags"] = sorted(KEPT)
    notebook.cells[5].source = 'notebook.glue("size", 1)'
    notebook.cells[6].source = "if x:\n    plots.curves({})\nnotebook.table([])\nx = 1"
    found = " / ".join(_problems(notebook))
    for part in (
        "for Colab",
        "parameters",
        "more than 40 lines",
        "never shows the plots.curves",
        "never shows the notebook.table",
        "without the tags",
        "keeps no output",
        "code cell 4 needs a number",
        "code cell 5 glues a number",
    ):
        assert part in found


def test_what_is_no_typed_result() -> None:
    assert not typed_results(
        "$\\alpha = 0.5$, `0.5`, {glue:text}`x:.2f`, version v1.2.3, 30,522 pieces, ratio of 3 to 4"
    )
    assert not typed_results("The paper has 93.5 {cite}`devlin2019bert`.")
    assert typed_results("The paper has 93.5 {cite}`devlin2019bert`.\n\nWe have 91.2.") == ["91.2"]
