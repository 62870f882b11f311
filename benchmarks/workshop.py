"""The classifier of the ledger, and what the steps of this book make of it: engines, their files and their sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import int8_sides
from benchmarks.compression.distillation import new_student
from benchmarks.compression.sharing import size_of
from benchmarks.pruned import Change, Whole
from d2lbert import notebook
from d2lbert.text import WordPiece


@dataclass(frozen=True)
class Made:
    """What a step has made of the classifier.

    Fields:
        engine: texts, laid out, to logits.
        packed: whether it takes packed rows.
        size: its parameters, and the bytes of its file.
        tokenizer: its own; none for the classifier's.
    """

    engine: int8_sides.Engine
    packed: bool
    size: dict[str, int]
    tokenizer: WordPiece | None = None


class Workshop:
    """The classifier, its examples, and a folder for files.

    Args:
        folder: for graphs.
        size: examples of each part, to try the script out; all by default.
    """

    def __init__(self, folder: Path, size: int | None = None) -> None:
        self.folder, self.whole = folder, Whole(size)
        self.model, self.tokenizer = self.whole.model.eval(), self.whole.tokenizer
        self.texts = [example.text for example in self.whole.parts["dev"]]
        self.truth = np.array([self.model.labels.index(example.label) for example in self.whole.parts["dev"]])

    def in_transformers(self) -> Made:
        """Return the classifier as ``transformers`` computes it, in padded rows."""
        return Made(int8_sides.in_transformers(self.model, "sdpa"), False, size_of(self.model))

    def changed(self, change: Change) -> Made:
        """Return a copy after a change, in packed rows."""
        model = self.whole.after(change).eval()
        return Made(int8_sides.in_pytorch(model), True, size_of(model))

    def exported(self, write: Callable[[Path], Path]) -> Made:
        """Return a graph for ONNX Runtime in packed rows.

        Args:
            write: returns the file that is measured, given the graph in 32 bits.
        """
        path = write(int8_sides.graph_file(self.model, self.folder, packed=True))
        size = {**size_of(self.model), "bytes": path.stat().st_size}
        return Made(int8_sides.in_onnx_runtime(path, self.model), True, size)

    def student(self, name: str) -> Made:
        """Return a student that has learned nothing, in packed rows."""
        model, tokenizer = new_student(name, self.model.labels, self.whole.parts["train"])
        best = best_way(name)
        return Made(
            int8_sides.in_pytorch(model.eval()), True, {key: best[key] for key in ("parameters", "bytes")}, tokenizer
        )

    def calibration(self) -> list[dict[str, np.ndarray]]:
        """Return the inputs that give the steps of a calibrated graph."""
        return int8_sides.to_calibrate(self.whole.encodings("train")[: int8_sides.CALIBRATION])


def best_way(name: str) -> dict[str, Any]:
    """Return what ``compression/distillation`` found for the best way to teach a student."""
    stored = notebook.results("compression/distillation")
    ways = stored["metrics"]["students"][name]
    way = max(ways, key=lambda one: ways[one]["accuracy"]["mean"])
    return {
        **ways[way],
        "way": way,
        "of": len(ways),
        "run": {key: stored[key] for key in ("command", "date", "commit")},
    }
