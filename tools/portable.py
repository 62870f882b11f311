"""A chapter as any notebook viewer shows it: what only the site understands becomes plain Markdown.

Numbers and citations stand as text, boxes are quotes, links are absolute. The prose then tells the numbers of one run,
and the second cell says which.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from addresses import Addresses
from citations import Bibliography
from myst_nb.core.variables import format_plain_text

from d2lbert.errors import UserError

RECORD = "application/papermill.record/text/plain"
# What is code or mathematics stays; a role is looked for before code, because both have backticks.
_PIECES = re.compile(
    r"(?P<fence>^(?P<ticks>`{3,}|~{3,}).*?^(?P=ticks)[ \t]*$)"
    r"|\{(?P<role>[\w:.-]+)\}`(?P<content>[^`]*)`"
    r"|(?P<code>(?P<quote>`+)(?!`)(?:(?!\n\n).)+?(?<!`)(?P=quote)(?!`))"
    r"|(?P<math>\$\$.+?\$\$|(?<!\\)\$[^$\n]+\$)"
    r"|(?P<opening>\]\(|\b(?:href|src)=\")(?P<target>[^)\s\"]+)",
    flags=re.DOTALL | re.MULTILINE,
)
_BOX = re.compile(r"^:::\{(?P<kind>[\w-]+)\}[ ]*(?P<title>.*)\n(?P<body>(?:.*\n)*?):::[ \t]*$", flags=re.MULTILINE)
_OPTION = re.compile(r"^:\w+:.*\n", flags=re.MULTILINE)
_BAND = "How this page was run"
# What Jupyter and Colab fold, by the tag that folds it on the site; the first tag of a cell that stands here counts.
# What the first cell of code says must be seen.
_FOLDS: dict[str, dict[str, Any]] = {
    "colab": {"jupyter": {"source_hidden": True}, "cellView": "form"},
    "hide-input": {"jupyter": {"source_hidden": True}, "cellView": "form"},
    "hide-cell": {"jupyter": {"source_hidden": True, "outputs_hidden": True}, "cellView": "form"},
}


@dataclass
class Page:
    """What the text of a chapter is resolved with.

    Fields:
        path: of the chapter, relative to the root.
        title: its heading.
        addresses, works: where links and citations lead.
        numbers: glued values by name, as they were written.
        cited: the works that were met.
    """

    path: Path
    title: str
    addresses: Addresses
    works: Bibliography
    numbers: dict[str, str]
    cited: set[str] = field(default_factory=set)


def portable(
    notebook: nbformat.NotebookNode, path: Path, addresses: Addresses, works: Bibliography
) -> nbformat.NotebookNode:
    """Return an executed chapter as a notebook for any viewer; the given one stays as it is.

    Args:
        notebook: the executed copy, as ``tools/run_notebook.py`` leaves it.
        path: of the chapter, relative to the root.

    Raises:
        UserError: the text has markup that nothing is known of, or the copy lacks a number or the box about its run.
    """
    title = re.findall(r"^# (.+)$", notebook.cells[0].source, flags=re.MULTILINE)[0]
    page = Page(path, title, addresses, works, glued(notebook))
    try:
        cells = [_cell(cell, page) for cell in notebook.cells]
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    band = next((cell for cell in cells if cell.source.startswith(f"> **{_BAND}.**")), None)
    if band is None:
        raise UserError(f"{path}: the copy does not say how it was run: run make book")
    band.source = _header(band.source, page)
    if page.cited:
        works_list = nbformat.v4.new_markdown_cell(f"## References\n\n{works.references(page.cited)}")
        works_list.id = "references"
        cells.append(works_list)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    nbformat.validate(made)
    return made


def glued(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Return the values that ``notebook.glue`` wrote, by name."""
    found = {}
    for output in _outputs(notebook):
        record = output.get("metadata", {}).get("scrapbook")
        if record:
            found[record["name"]] = output.data[RECORD]
    return found


def resolve(text: str, page: Page) -> str:
    """Return Markdown of a chapter without roles, boxes and relative links.

    Raises:
        UserError: it has a role or a box that nothing is known of, or a number that was not glued.
    """
    resolved = _PIECES.sub(lambda piece: _piece(piece, page), _BOX.sub(_quote, text))
    if re.search(r"^:::", resolved, flags=re.MULTILINE):
        raise UserError("a box is not closed, or lies in another: close it with ::: on a line of its own")
    return resolved


def _outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def _cell(cell: nbformat.NotebookNode, page: Page) -> nbformat.NotebookNode:
    tags = cell.metadata.get("tags", [])
    if cell.cell_type == "markdown":
        made = nbformat.v4.new_markdown_cell(resolve(cell.source, page))
    else:
        made = nbformat.v4.new_code_cell(cell.source, execution_count=cell.execution_count)
        made.outputs = [_output(output, page) for output in cell.outputs if not _is_record(output)]
        made.metadata = nbformat.from_dict(next((fold for tag, fold in _FOLDS.items() if tag in tags), {}))
    made.id = cell.id
    if tags:
        made.metadata["tags"] = tags
    return made


def _is_record(output: nbformat.NotebookNode) -> bool:
    return "scrapbook" in output.get("metadata", {})


def _output(output: nbformat.NotebookNode, page: Page) -> nbformat.NotebookNode:
    made = nbformat.from_dict(output)
    if "text/markdown" in made.get("data", {}):
        made.data["text/markdown"] = resolve(made.data["text/markdown"], page)
    return made


def _header(band: str, page: Page) -> str:
    """Return the quote that says which page this is and how it was run; the commit is a link."""
    commit = re.compile(r"\bcommit ([0-9a-f]{7,40})\b")
    band = commit.sub(lambda found: f"commit [{found[1]}]({page.addresses.commit(found[1])})", band)
    book = f"[{page.title}]({page.addresses.page(page.path)}), a page of the book [d2lbert]({page.addresses.site})"
    return (
        f"> This notebook is {book}. Its text tells the numbers of the run below; yours may differ a little.\n>\n{band}"
    )


def _quote(box: re.Match[str]) -> str:
    """Return a box as a quote that begins with its title in bold."""
    if box["kind"] not in ("note", "admonition"):
        raise UserError(f"a box of the kind {box['kind']!r}: chapters have notes alone")
    body = _OPTION.sub("", box["body"]).strip()
    title = box["title"].strip() or ("" if body.startswith("**") else "Note")
    lines = f"**{title}.** {body}" if title else body
    return "\n".join(f"> {line}".rstrip() for line in lines.splitlines())


def _piece(piece: re.Match[str], page: Page) -> str:
    if piece["role"]:
        if piece["role"] not in _ROLES:
            raise UserError(f"the role {{{piece['role']}}}: teach tools/portable.py what becomes of it")
        return _ROLES[piece["role"]](piece, page)
    if piece["target"]:
        return piece["opening"] + page.addresses.resolve(piece["target"], page.path)
    return piece[0]


def _number(piece: re.Match[str], page: Page) -> str:
    """Return a glued value in the format of the site, with nothing in it that Markdown would read."""
    name, _, form = piece["content"].partition(":")
    if name not in page.numbers:
        raise UserError(f"the number {name!r} was not glued: run make book")
    text = format_plain_text(page.numbers[name], form or "s")
    return re.sub(r"([\\`*_\[\]<>|$~])", r"\\\1", text)


def _citation(piece: re.Match[str], page: Page) -> str:
    keys = _keys(piece, page)
    cited = page.works.in_brackets(keys)
    before = piece.string[: piece.start()].rpartition("\n\n")[2]
    return cited if before.count("(") > before.count(")") else f"({cited})"


def _citation_in_text(piece: re.Match[str], page: Page) -> str:
    return page.works.in_text(_keys(piece, page))


def _keys(piece: re.Match[str], page: Page) -> list[str]:
    keys = [key.strip() for key in piece["content"].split(",")]
    page.cited.update(keys)
    return keys


_ROLES: dict[str, Callable[[re.Match[str], Page], str]] = {
    "glue:text": _number,
    "cite": _citation,
    "cite:p": _citation,
    "cite:t": _citation_in_text,
}
