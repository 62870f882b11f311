"""What the texts tell a reader to type is there: each command of d2lbert that they show, with each of its options."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from d2lbert import cli
from d2lbert.commands.group import COMMANDS, imported

ROOT = Path(__file__).resolve().parents[3]
PATTERNS = ("*.md", "chapters/*/*.md", "chapters/*/*.ipynb", "data/**/*.md", "benchmarks/**/*.py", "d2lbert/**/*.py")
TEXTS = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
# At the start of a line or of code in a line; what follows belongs to it until the code or the command ends.
_COMMAND = re.compile(r"(?:^[ ]*|[`;!][ ]*|\bdo )d2lbert +(?P<name>[a-z]+)\b(?P<rest>[^`;#\n]*)", flags=re.MULTILINE)


def written(text: str) -> list[tuple[str, str]]:
    """Return the commands that a text shows, each as its name and the rest of its line."""
    joined = text.replace("\\\n", " ")
    return [(found["name"], found["rest"]) for found in _COMMAND.finditer(joined)]


def problems(name: str, rest: str) -> list[str]:
    """Return what there is not of a command that a text shows."""
    if name not in {*COMMANDS, "data"}:
        return [f"d2lbert {name}: no such command"]
    known = {option for parameter in _parameters(name, rest) for option in (*parameter.opts, *parameter.secondary_opts)}
    return [f"d2lbert {name} {one}" for one in re.findall(r"(?<!\S)--[a-z-]+", rest) if one not in {*known, "--help"}]


def _parameters(name: str, rest: str) -> list[Any]:
    if name in COMMANDS:
        return list(imported(name).params)
    group: Any = typer.main.get_command(cli.app)
    return [
        one
        for command in group.commands["data"].commands.values()
        if command.name in rest.split()
        for one in command.params
    ]


def text_of(path: Path) -> str:
    """Return a page's text: of a notebook its cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def test_commands_in_texts_are_there() -> None:
    shown = [(path, *command) for path in TEXTS for command in written(text_of(path))]
    assert len(shown) > 40
    assert not [f"{path.relative_to(ROOT)}: {one}" for path, *command in shown for one in problems(*command)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```\nd2lbert finetune pair --data sst2\n```", ["d2lbert finetune --data"]),
        ("for s in 0 1; do d2lbert finetune pair --modle m --train sst2; done", ["d2lbert finetune --modle"]),
        ("call `d2lbert train`", ["d2lbert train: no such command"]),
        ("d2lbert predict pair \\\n    --file x", ["d2lbert predict --file"]),
        ("d2lbert data list --all-of-them", ["d2lbert data --all-of-them"]),
        ("call `d2lbert serve --model x --port 1`; the package d2lbert reads --data", []),
    ],
)
def test_wrong_commands_are_seen(text: str, found: list[str]) -> None:
    assert [problem for command in written(text) for problem in problems(*command)] == found
