"""A chapter that trains in code of its own names the device, and so a GPU is not forgotten.

What the package trains takes the best device by itself. That the batches are moved, too, is seen where the chapter runs
on the pretend accelerator (``tests/pretend/check_chapters.py``).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest
from chapter_rules import code

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").rglob("*.ipynb"))
TEXTS = {path.stem: "\n".join(cell.source for cell in code(nbformat.read(path, as_version=4))) for path in CHAPTERS}

# Chapters that compute gradients on the processor, and why.
ON_THE_PROCESSOR = {
    "deeper_failing_runs": "a check: 100 steps of a single number",
    "deeper_normalization": "it measures one gradient of each encoder and trains none",
    "pruning": "twenty steps of a matrix of nine numbers",
    "scaling": "it measures how fast the processor of this machine trains",
    "sharing": "a check: the gradient of a shared block is the sum over its uses",
}


def parsed(text: str) -> list[ast.AST]:
    """All nodes of a chapter's code."""
    return list(ast.walk(ast.parse(re.sub(r"^(\s*)[%!].*", r"\1pass", text, flags=re.MULTILINE))))


def trains(text: str) -> bool:
    """Whether code has a gradient, an optimizer's step, which takes no argument, or the package's ``descend``."""
    for node in parsed(text):
        if isinstance(node, ast.Call) and (
            called(node) in ("backward", "descend") or (called(node) == "step" and not (node.args or node.keywords))
        ):
            return True
    return False


def called(call: ast.Call) -> str:
    """The name of what is called, whatever it belongs to."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def names_device(text: str) -> bool:
    """Whether code asks for the best device and does something with the answer."""
    nodes = parsed(text)
    asked = {node for node in nodes if isinstance(node, ast.Call) and called(node) == "best_device"}
    kept = {node.value: node.targets[0] for node in nodes if isinstance(node, ast.Assign) and node.value in asked}
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return any(call not in kept or getattr(kept[call], "id", "") in read for call in asked)


@pytest.mark.parametrize("chapter", TEXTS)
def test_a_chapter_that_trains_names_the_device(chapter: str) -> None:
    stays = trains(TEXTS[chapter]) and not names_device(TEXTS[chapter])
    assert stays == (chapter in ON_THE_PROCESSOR), (
        "name the device once, device = best_device(), and move model and batches there"
        if stays
        else "it is listed as one that stays on the processor, and does not"
    )


def test_the_list_is_of_chapters() -> None:
    assert len(TEXTS) == len(CHAPTERS)
    assert set(ON_THE_PROCESSOR) <= set(TEXTS)


@pytest.mark.parametrize("chapter", [name for name, text in TEXTS.items() if trains(text) and names_device(text)])
def test_a_device_that_is_taken_out_of_a_chapter_is_missed(chapter: str) -> None:
    assert not names_device(TEXTS[chapter].replace("best_device()", "torch.device('cpu')"))


@pytest.mark.parametrize(
    "line",
    [
        "loss.backward()",
        "(forward + backward).backward()",
        "optimizer.step()",
        "found = descend(loss, model, optimizer, 1.0)",
        "optim.descend(loss, model, optimizer, 1.0)",
    ],
)
def test_training_is_seen(line: str) -> None:
    assert trains(f"%pip install x\nfor batch in batches:\n    {line}")


def test_what_is_no_training() -> None:
    assert not trains("h, c = lstm.step(x, h, c)\nlogits = model.step(token, state=state)\nbackward = loss")


def test_a_device_must_be_used() -> None:
    assert names_device("device = best_device()\nmodel.to(device)")
    assert names_device("model.to(runtime.best_device())")
    assert not names_device("device = best_device()\nmodel.to('cuda')")
    assert not names_device("from d2lbert.torch.runtime import best_device")
