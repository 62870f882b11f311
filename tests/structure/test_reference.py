"""The reference has every public name once, docstrings as lists of fields, links both ways, and needs no framework."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from chapter_names import Names, names_by_chapter, names_in
from command_reference import command_sections, commands
from nbformat.v4 import new_code_cell, new_notebook
from package_source import ROOT, aliases, definition, modules, read_module, resolve
from reference_areas import PAGES, documented, public_names, reference_cell, sections
from reference_pages import page_text, write_reference
from signatures import class_signature, described, settings_of, signature
from typer.testing import CliRunner

from d2lbert.cli import app
from d2lbert.config import BertConfig

AREAS = sorted(PAGES.glob("*.md"))
OBJECT = re.compile(r"^\.\. py:(?:class|function|data):: (\w+)", flags=re.MULTILINE)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages of the reference by their names."""
    folder = tmp_path_factory.mktemp("site")
    write_reference(folder)
    return {path.stem: path.read_text(encoding="utf-8") for path in (folder / "reference").glob("*.md")}


def names_on(page: str) -> list[str]:
    """The full names that a written page describes."""
    parts = re.split(r"^\.\. py:currentmodule:: (\S+)$", page, flags=re.MULTILINE)[1:]
    return [
        f"{module}.{name}"
        for module, text in zip(parts[::2], parts[1::2], strict=True)
        for name in OBJECT.findall(text)
    ]


def test_every_public_name_stands_in_the_reference_once(written: dict[str, str]) -> None:
    counts = Counter(name for page in written.values() for name in names_on(page))
    assert len(public_names()) > 200
    assert public_names() - set(counts) == set(), "name its module in site/reference"
    assert {name for name, count in counts.items() if count > 1} == set()
    assert set(counts) == set(documented())


def test_public_names_are_those_of_the_packages_and_those_that_chapters_import() -> None:
    for package in ("d2lbert", "d2lbert.torch", "d2lbert.text", "d2lbert.data", "d2lbert.config", "d2lbert.plots"):
        offered = importlib.import_module(package).__all__
        assert {resolve(f"{package}.{name}") for name in offered} <= public_names(), package
    assert "d2lbert.torch.training.finetuning.fine_tune" in public_names()


def test_pages_stand_in_the_table_of_contents() -> None:
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    (listed,) = [part["chapters"] for part in contents["parts"] if part["caption"] == "Reference"]
    assert sorted(page["file"] for page in listed) == [f"reference/{path.stem}" for path in AREAS]


@pytest.mark.parametrize("path", AREAS, ids=lambda path: path.stem)
def test_chapters_that_a_page_names_are_there(path: Path, written: dict[str, str]) -> None:
    for section in sections(path.read_text(encoding="utf-8")):
        assert (ROOT / "chapters" / f"{section.chapter}.ipynb").is_file(), section
    links = re.findall(r":doc:`[^<`]+ </([^>]+)>`", written[path.stem])
    assert all((ROOT / f"{link}.ipynb").is_file() for link in links)


def test_every_class_leads_to_a_chapter(written: dict[str, str]) -> None:
    for page in written.values():
        described_here = re.split(r"^(?=\.\. py:)", page, flags=re.MULTILINE)
        classes = [text for text in described_here if text.startswith(".. py:class::")]
        assert [text.splitlines()[0] for text in classes if "\n   Chapters: :doc:`" not in text] == []


def test_a_class_names_first_the_chapter_that_builds_it(written: dict[str, str]) -> None:
    text = written["torch_encoders"].split(".. py:class:: MultiHeadAttention")[1]
    assert re.search(r"Chapters: :doc:`([^<]+) <", text)[1] == "Self-attention"
    assert "</chapters/transformer/decoder>" in text.split("Chapters: ")[1].splitlines()[0]


def test_every_chapter_leads_to_what_it_imports() -> None:
    for path, names in names_by_chapter().items():
        cell = reference_cell(names)
        linked = set(re.findall(r"\{py:obj\}`[\w.]+ <([\w.]+)>`", cell))
        assert linked == {*names.used, *(name for name in names.built if name in documented())}, path
        assert bool(cell) == bool(linked)


def test_names_of_a_chapter() -> None:
    cells = [
        "%matplotlib inline\nfrom d2lbert import data, plots\nfrom d2lbert.torch import attention as a, BertModel",
        "examples = data.load('sst2')\na.masked_softmax(x)\nplots.bars(y)\ndata.nothing\nother.load(z)",
        "class MultiHeadAttention:\n    pass\n\nclass OfTheChapter:\n    pass",
    ]
    found = names_in(new_notebook(cells=[new_code_cell(source) for source in cells]))
    assert set(found.used) == {
        "d2lbert.torch.bert.BertModel",
        "d2lbert.data.registry.load",
        "d2lbert.torch.attention.masked_softmax",
    }
    assert found.built == ("d2lbert.torch.attention.MultiHeadAttention",)
    box = reference_cell(found)
    assert "Built here, and in the package: {py:obj}`MultiHeadAttention <" in box
    assert "Used here: {py:obj}`BertModel <d2lbert.torch.bert.BertModel>` · {py:obj}`load <" in box
    assert reference_cell(Names(("d2lbert.storage.files.flush",), ())) == ""


DOCSTRING = """Say it.

    A second paragraph.

    Args:
        first, second: two
            numbers.
        third: (B, L), a tensor.

    Returns:
        Weights (B, M): not negative.

    Raises:
        UserError: something is wrong,
            and it is long.
    """


def test_parts_of_a_docstring_are_lists_of_fields() -> None:
    assert [line.strip() for line in described(DOCSTRING) if line] == [
        "Say it.",
        "A second paragraph.",
        ":param first: two",
        "numbers.",
        ":param second: two",
        "numbers.",
        ":param third: (B, L), a tensor.",
        ":returns: Weights (B, M): not negative.",
        ":raises UserError: something is wrong,",
        "and it is long.",
    ]
    assert described("Text.")[-1] == "", "what follows is another paragraph"


@pytest.mark.parametrize("path", AREAS, ids=lambda path: path.stem)
def test_no_part_of_a_docstring_stays_raw(path: Path, written: dict[str, str]) -> None:
    raw = re.findall(
        r"^ *(?:Args|Returns|Raises|Yields|Fields|Attributes):\s*$", written[path.stem], flags=re.MULTILINE
    )
    assert raw == []
    sources = [ast.get_docstring(node) or "" for node in _documented_callables(path)]
    for word, field in (("Args", ":param "), ("Returns", ":returns: "), ("Raises", ":raises ")):
        asked = sum(f"\n{word}:\n" in f"\n{text}\n" for text in sources)
        assert written[path.stem].count(field) >= asked, word


def _documented_callables(path: Path) -> list[ast.FunctionDef | ast.ClassDef]:
    found = [definition(name) for name, page in documented().items() if page == path.stem]
    return [node for node in found if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def test_signatures_have_types_in_full_and_defaults() -> None:
    module = modules()["d2lbert.torch.bert"]
    found = class_signature(module.definitions["BertModel"], module)
    assert found.startswith("(config: d2lbert.config.bert.BertConfig, embeddings: nn.Module | None=None, ")
    function = modules()["d2lbert.torch.attention"].definitions["masked_softmax"]
    assert signature(function, module) == "(scores: Tensor, mask: Tensor | None=None) -> Tensor"


def test_settings_say_default_meaning_and_bounds_of_every_field() -> None:
    module = modules()["d2lbert.config.bert"]
    node = module.definitions["BertConfig"]
    lines, call = settings_of(node, module), class_signature(node, module)
    for name, rule in BertConfig.meanings.items():
        words = f" ({rule.bounds_in_words})" if rule.bounds else ""
        assert f"\n    {name}: {rule.meaning}{words}" in lines
        assert f"{name}: {type(getattr(BertConfig(), name)).__name__} = {getattr(BertConfig(), name)!r}" in call


def test_source_is_read_as_python_reads_it() -> None:
    source = (
        '"""Doc."""\nfrom d2lbert.text import WordPiece as Pieces\n# above\n# it\nA, B = 1, 2\nC = 3  # beside\n'
        "_D = 4\ntry:\n    import torch\nexcept ImportError:\n    pass\nif True:\n    def f(x): ...\n__all__ = ['A']\n"
    )
    found = read_module("m", source)
    assert list(found.definitions) == ["A", "B", "C", "f"]
    assert found.comments == {"A": "above it", "B": "above it", "C": "beside"}
    assert (found.docstring, found.offered) == ("Doc.", ["A"])
    assert found.imported == {"Pieces": "d2lbert.text.WordPiece"}


def test_names_are_found_where_they_are_defined() -> None:
    assert resolve("d2lbert.torch.BertModel") == "d2lbert.torch.bert.BertModel"
    assert resolve("d2lbert.torch.training.finetuning.Training") == "d2lbert.config.training.Training"
    assert resolve("d2lbert.text.CLS") == "d2lbert.text.encoding.CLS"
    assert resolve("d2lbert.text") == "d2lbert.text"
    assert resolve("d2lbert.text.Nothing") is resolve("numpy.array") is None
    assert aliases()["d2lbert.mxnet.bert.BertModel"] == "d2lbert.mxnet.BertModel"


def test_the_commands_have_the_options_that_help_prints() -> None:
    parts = dict(re.findall(r"^## `(d2lbert [^`]+)`\n(.*?)(?=^## |\Z)", command_sections(), re.DOTALL | re.MULTILINE))
    assert sorted(parts) == sorted(name for name, _ in commands())
    assert {"d2lbert pretrain", "d2lbert data fetch", "d2lbert models", "d2lbert doctor"} <= set(parts)
    for name, text in parts.items():
        shown = CliRunner().invoke(app, [*name.split()[1:], "--help"], env={"COLUMNS": "400", "TERM": "dumb"}).output
        rows = "\n".join(line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `"))
        assert set(re.findall(r"--[a-z0-9-]+", rows)) == _options(shown), name


def _options(text: str) -> set[str]:
    """The options in the table that ``--help`` prints, where each line begins with its option."""
    lines = [re.sub(r"\x1b\[[0-9;]*m|[│|*]", " ", line).strip() for line in text.splitlines()]
    first = [re.match(r"(?:--[a-z0-9-]+[\s/,]*)*", line)[0] for line in lines]
    return {option for words in first for option in re.findall(r"--[a-z0-9-]+", words)} - {"--help"}


def test_the_reference_is_the_same_without_frameworks(tmp_path: Path, written: dict[str, str]) -> None:
    script = (
        "import sys; sys.modules['mxnet'] = sys.modules['torch'] = None\n"
        "from pathlib import Path\nfrom reference_pages import write_reference\n"
        f"write_reference(Path({str(tmp_path)!r}))"
    )
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}"}
    run = subprocess.run([sys.executable, "-c", script], env=path, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert {file.stem: file.read_text(encoding="utf-8") for file in (tmp_path / "reference").iterdir()} == written


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<!-- d2lbert.nothing | bert/bert -->", "there is no module d2lbert.nothing"),
        ("<!-- d2lbert.torch.bert | bert/bert | BertModel, Nobody -->", "d2lbert.torch.bert defines no Nobody"),
    ],
)
def test_a_page_that_asks_for_what_is_not_there_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        page_text(text)
