"""Weights and matrix products of 8 bits for graphs of ONNX, by ONNX Runtime.

A column of a weight matrix W is stored as whole numbers q and one scale s, with W = s q: q from -64 to 64 where 7 bits
are used, from -127 to 127 where 8 are. The inputs of a product get a scale and a zero point, too, from the smallest and
the largest number; whole numbers are multiplied and summed in 32 bits, and the sum is scaled back (Jacob et al. 2018).
Embeddings are stored so, too, and looked up; LayerNorm, softmax and GELU stay in float32.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from d2lbert.errors import UserError, require
from d2lbert.storage.files import atomic

# Operators with a weight. Products of two activations, as in attention, are cheap and lose most in 8 bits.
_OPERATORS = ["MatMul", "Gemm", "Gather"]


def quantize(
    source: str | Path,
    target: str | Path,
    reduce_range: bool = True,
    batches: Iterable[Mapping[str, np.ndarray]] | None = None,
) -> None:
    """Write an int8 copy of an ONNX file.

    Args:
        source, target: files; they may be the same one.
        reduce_range: use 7 of the 8 bits of weights. A processor with AVX2 or AVX-512 but without VNNI adds pairs of
            products in 16 bits, which products of 8 by 8 bits can exceed, and then cuts the sum without a word. 7 bits
            are exact everywhere.
        batches: inputs of the graph by name, to calibrate with: the smallest and the largest number of each matrix that
            is multiplied give its scale, once for all ("static"). Without them each input gets a scale of its own while
            the graph runs ("dynamic").

    Raises:
        UserError: a package is missing, there are no batches, or the file cannot be written.
    """
    require("int8 in ONNX", "deploy", "onnx", "onnxruntime")
    from onnxruntime.quantization import QuantType, quantize_dynamic, quantize_static

    options = {"per_channel": True, "reduce_range": reduce_range, "weight_type": QuantType.QInt8}
    # The advice that is kept back: to infer shapes first. They are in the graph already.
    with atomic(target) as temporary, errors_only(""):
        if batches is None:
            quantize_dynamic(str(source), str(temporary), op_types_to_quantize=_OPERATORS, **options)
        else:
            quantize_static(
                str(source),
                str(temporary),
                _Reader(batches),
                op_types_to_quantize=_OPERATORS,
                nodes_to_quantize=_with_weights(source),
                activation_type=QuantType.QUInt8,
                # A sum goes on as a float32, as it does with scales that are found while the graph runs.
                extra_options={"OpTypesToExcludeOutputQuantization": _OPERATORS},
                **options,
            )


class _Reader:
    """Batches as ONNX Runtime asks for them: one at a time, and None at the end.

    Raises:
        UserError: there are none.
    """

    def __init__(self, batches: Iterable[Mapping[str, np.ndarray]]) -> None:
        found = list(batches)
        if not found:
            raise UserError("no batch to calibrate with: give some texts")
        self._rest = iter(found)

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return next(self._rest, None)


def _with_weights(path: str | Path) -> list[str]:
    """Return the names of the operators of a graph that read a stored weight."""
    import onnx

    graph = onnx.load(path).graph
    weights = {one.name for one in graph.initializer}
    return [node.name for node in graph.node if node.op_type in _OPERATORS and not weights.isdisjoint(node.input)]


@contextlib.contextmanager
def errors_only(logger_name: str) -> Iterator[None]:
    """Keep back what a library says of itself, but for errors.

    Args:
        logger_name: of the library's logger; "" is the one of all.
    """
    logger = logging.getLogger(logger_name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
