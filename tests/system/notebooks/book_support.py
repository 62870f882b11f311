"""A book of two short chapters, and the copies that a run of them would leave."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
from colab_cell import SOURCE, TAGS
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[3]
CONTENTS = """\
format: jb-book
root: index
parts:
  - caption: First words
    chapters:
      - file: chapters/words/pieces
  - caption: Attention & more
    chapters:
      - file: chapters/attention/soft
"""
BAND = (
    ":::{admonition} How this page was run\n:class: run-band\nOn 2026-01-02, commit abcdef1, in **3 s**. "
    "Data: sst2 (sample).\n:::"
)
EXERCISE = [
    new_markdown_cell(
        "## Exercises\n\n**Exercise 1 (by hand).** How many?\n\n<details><summary>Solution</summary>\n\nExactly seven "
        "geese.\n\n</details>"
    ),
    new_markdown_cell(
        "**Exercise 2 (build).** Write `double`.\n\n<details><summary>Hint</summary>\n\nAdd.\n\n</details>"
    ),
    new_code_cell(
        'import math\n\n\ndef double(x, times=1):\n    """Double x (n,)."""\n    # twice as much\n'
        "    larger = math.fsum([x] * 2 * times)\n    return larger\n",
        metadata={"tags": ["solution", "hide-cell"]},
    ),
    new_code_cell('assert double(2) == 4\nprint("correct")', metadata={"tags": ["check", "hide-input"]}),
]


def chapter(*cells: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a notebook with the first cells that every chapter has."""
    first = [
        new_markdown_cell("# Title\n\nWords."),
        new_code_cell(SOURCE, metadata={"tags": TAGS}),
        new_code_cell("seed = 0", metadata={"tags": ["parameters"]}),
    ]
    copies = [nbformat.from_dict(cell) for cell in (*first, *cells)]
    for number, cell in enumerate(copies):
        cell.id = f"cell-{number}"
    return new_notebook(cells=copies, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})


def executed(notebook: nbformat.NotebookNode, **numbers: str) -> nbformat.NotebookNode:
    """Return the copy that a run leaves: the box about the run, and numbers as ``notebook.glue`` writes them."""
    made = nbformat.from_dict(notebook)
    for name, value in numbers.items():
        record = {"scrapbook": {"name": name, "mime_prefix": "application/papermill.record/"}}
        data = {"application/papermill.record/text/plain": value}
        made.cells[2].outputs.append(new_output("display_data", data=data, metadata=record))
    made.cells.insert(1, new_markdown_cell(BAND))
    return made


def write_book(root: Path) -> Path:
    """Write a checkout with two chapters that were run; return its folder."""
    for name in ("_config.yml", "references.bib"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, root / name)
    for name in ("binder", "requirements"):
        shutil.copytree(ROOT / name, root / name)
    (root / "_toc.yml").write_text(CONTENTS)
    soft = chapter(new_markdown_cell("A score of {glue:text}`score:.1f` {cite}`devlin2019bert`."), *EXERCISE)
    pieces = chapter(new_markdown_cell("See the [next chapter](../attention/soft.ipynb)."), new_code_cell("1 + 1"))
    pieces.cells[-1].outputs = [new_output("execute_result", data={"text/plain": "2"}, execution_count=1)]
    for path, notebook in (("words/pieces", pieces), ("attention/soft", soft)):
        for folder, version in ((root, notebook), (root / "_build" / "executed", executed(notebook, score="93.47"))):
            target = folder / "chapters" / f"{path}.ipynb"
            target.parent.mkdir(parents=True)
            nbformat.write(version, target)
    return root
