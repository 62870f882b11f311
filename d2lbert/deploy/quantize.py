"""Weights and matrix products of 8 bits for graphs of ONNX, by ONNX Runtime.

A row of a weight matrix W is stored as whole numbers q from -127 to 127 and one scale s, with W = s q. At run time the
inputs of a product get a scale and a zero point of their own, from their smallest and largest number; whole numbers are
multiplied and summed in 32 bits, and the sum is scaled back (Jacob et al. 2018). Embeddings are stored so, too, and
looked up; LayerNorm, softmax and GELU stay in float32.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from d2lbert.deploy.formats import require
from d2lbert.storage.files import atomic

# Operators with a weight. Products of two activations, as in attention, are cheap and lose most in 8 bits.
_OPERATORS = ["MatMul", "Gemm", "Gather"]


def quantize(source: str | Path, target: str | Path, reduce_range: bool = True) -> None:
    """Write an int8 copy of an ONNX file, with scales for inputs that are found while it runs ("dynamic").

    Args:
        source, target: files; they may be the same one.
        reduce_range: use 7 of the 8 bits of weights. A processor with AVX2 or AVX-512 but without VNNI adds pairs of
            products in 16 bits, which products of 8 by 8 bits can exceed, and then cuts the sum without a word. 7 bits
            are exact everywhere.

    Raises:
        UserError: a package is missing, or the file cannot be written.
    """
    require("onnx", "onnxruntime")
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with atomic(target) as temporary, _quiet():
        quantize_dynamic(
            str(source),
            str(temporary),
            op_types_to_quantize=_OPERATORS,
            per_channel=True,
            reduce_range=reduce_range,
            weight_type=QuantType.QInt8,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep back the advice to infer shapes first: they are in the graph already."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
