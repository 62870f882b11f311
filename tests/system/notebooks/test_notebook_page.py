"""A page has its map, names its folds and shows which data is a toy."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from contents import chapters, title
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebook_page import make_page

from d2lbert import plots

ROOT = Path(__file__).resolve().parents[3]


def test_page(tmp_path: Path) -> None:
    cell = new_code_cell("x", metadata={"tags": ["solution", "hide-cell"]})
    text = "Toy data. sst2: a sample\nToy data. wic: a sample\nToy data. sst2: a sample\nelse\n"
    cell.outputs = [new_output("stream", name="stdout", text="1"), new_output("stream", name="stderr", text=text)]
    nbformat.write(new_notebook(cells=[new_markdown_cell("# Middle"), cell]), tmp_path / "executed.ipynb")
    before, here, after = chapters(ROOT)[3:6]
    heading, place, shown = make_page(tmp_path / "executed.ipynb", here, ROOT, {}).cells
    assert heading.source == "# Middle"
    assert place.source.count("**") == 2, "one part is marked as ours"
    for name, other in (("Last", before), ("Next", after)):
        assert f"{name}: [{title(ROOT / other)}](" in place.source
        assert (
            ROOT / here.parent / place.source.split(f"{name}: [")[1].split("](")[1].split(")")[0]
        ).resolve() == ROOT / other
    assert shown.metadata["mystnb"]["code_prompt_show"] == "Show the solution"
    number, box, rest = shown.outputs
    assert number.text == "1"
    assert box.data["text/plain"] == "sst2: a sample\n\nwic: a sample", "each set once"
    assert box.data["text/plain"] in box.data["text/markdown"]
    assert ":class: toy" in box.data["text/markdown"]
    assert rest.text == "else"


def test_ends_of_the_book_have_one_neighbour(tmp_path: Path) -> None:
    nbformat.write(new_notebook(cells=[new_markdown_cell("# A")]), tmp_path / "executed.ipynb")
    order = chapters(ROOT)
    first = make_page(tmp_path / "executed.ipynb", order[0], ROOT, {}).cells[1].source
    last = make_page(tmp_path / "executed.ipynb", order[-1], ROOT, {}).cells[1].source
    assert "Last:" not in first
    assert "Next:" in first
    assert "Next:" not in last
    assert "About 5 minutes to read. · Last:" in last
    assert "Last:" in last


def test_a_figure_to_play_with_loads_its_script_on_its_page_alone(tmp_path: Path) -> None:
    cells = [new_markdown_cell("# A"), new_code_cell("x"), new_code_cell("y")]
    figure = plots.Interactive("some-figure", {}, caption="c", table=[{"a": 1}])
    cells[1].outputs = [new_output("execute_result", data=figure._repr_mimebundle_())]
    cells[2].outputs = [new_output("display_data", data={"text/html": "<p>d2l-other</p>"})]
    nbformat.write(new_notebook(cells=cells), tmp_path / "executed.ipynb")
    played, other = make_page(tmp_path / "executed.ipynb", chapters(ROOT)[3], ROOT, {}).cells[2:]
    shown = played.outputs[0].data["text/html"]
    script = '<script type="module" src="../../figures/some-figure.js"></script>'
    assert shown == figure.html + script, "chapters lie two folders deep"
    assert other.outputs[0].data["text/html"] == "<p>d2l-other</p>"


def test_the_quiz_stands_before_the_exercises(tmp_path: Path) -> None:
    text = new_markdown_cell("## Summary\n\nAll.\n\n## Exercises\n\n**Exercise 1 (by hand).**")
    nbformat.write(new_notebook(cells=[new_markdown_cell("# A"), text]), tmp_path / "executed.ipynb")
    (attention,) = [path for path in chapters(ROOT) if path.stem == "attention"]
    made = make_page(tmp_path / "executed.ipynb", attention, ROOT, {}).cells[2].source
    before, quiz, after = re.split(r"(<d2l-quiz.*?</d2l-quiz>)", made, flags=re.DOTALL)
    assert before.endswith("## Check yourself\n\nAnswer from memory. Each answer tells you why.\n\n")
    assert "\n\n" not in quiz, "an empty line ends a block of HTML"
    assert 'src="../../quiz/quiz.js"' in after
    assert after.endswith("</script>\n\n## Exercises\n\n**Exercise 1 (by hand).**")


def test_a_demonstration_stands_where_the_chapter_says(tmp_path: Path) -> None:
    cell = new_markdown_cell("Before.\n\n<!-- demo: gap -->\n\nAfter.")
    nbformat.write(new_notebook(cells=[new_markdown_cell("# A"), cell]), tmp_path / "executed.ipynb")
    path = chapters(ROOT)[1]
    made = make_page(tmp_path / "executed.ipynb", path, ROOT, {"gap": "<div>a form</div>"}).cells[2].source
    script = '<script type="module" src="../../browser/demo.js"></script>'
    assert made == f"Before.\n\n<div>a form</div>\n{script}\n\nAfter."
    with pytest.raises(KeyError):
        make_page(tmp_path / "executed.ipynb", path, ROOT, {})
