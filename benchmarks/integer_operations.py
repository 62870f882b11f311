"""What a graph of ONNX with weights of 8 bits computes: its matrix products, and where the time of a run goes.

ONNX Runtime names the operators that it has fused, the shapes of their inputs and their times in a profile.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.operations import OTHER, Product, median_time

# Operators that multiply by a weight of 8 bits, and those that multiply floats.
INTEGER, FLOAT = ("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulInteger"), ("MatMul", "FusedMatMul")
PARTS = {
    **dict.fromkeys(INTEGER, "matrix products"),
    **dict.fromkeys(FLOAT, "attention"),
    "Softmax": "attention",
    "DynamicQuantizeLinear": "finding scales",
    "LayerNormalization": "LayerNorm",
    "SkipLayerNormalization": "LayerNorm",
    "Gelu": "GELU",
    "BiasGelu": "GELU",
    "Gather": "embeddings and loss",
}


class IntegerProduct(NamedTuple):
    """A product of 8-bit numbers, summed in 32 bits: (rows, inner) by (inner, columns)."""

    rows: int
    inner: int
    columns: int

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.inner * self.columns

    def seconds(self, rounds: int = 7) -> float:
        """Return the median time of the product alone in ONNX Runtime, with as many threads as PyTorch has."""
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper

        numbers = np.random.default_rng(0)
        weight = numbers.integers(-127, 128, (self.inner, self.columns), dtype=np.int8)
        graph = helper.make_graph(
            [helper.make_node("MatMulInteger", ["one", "weight"], ["product"])],
            "product",
            [helper.make_tensor_value_info("one", TensorProto.UINT8, [self.rows, self.inner])],
            [helper.make_tensor_value_info("product", TensorProto.INT32, [self.rows, self.columns])],
            [numpy_helper.from_array(weight, "weight")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), _options(), providers=["CPUExecutionProvider"]
        )
        one = {"one": numbers.integers(0, 256, (self.rows, self.inner), dtype=np.uint8)}
        session.run(None, one)
        return median_time(lambda: session.run(None, one), rounds)


def _options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return options


class Profile(NamedTuple):
    """What one run of a graph did.

    Fields:
        products: how often each matrix product was run.
        parts: the seconds of each kind of operation.
    """

    products: Counter[Any]
    parts: dict[str, float]


def profile(graph: Path, inputs: Mapping[str, np.ndarray], runs: int = 5) -> Profile:
    """Run a graph some times, as ONNX Runtime's profiler sees it, and return what one run did on average."""
    import onnxruntime

    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder) / "run")
        session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        for _ in range(runs):
            session.run(None, dict(inputs))
        events = json.loads(Path(session.end_profiling()).read_text())
    products: Counter[Any] = Counter()
    parts: dict[str, float] = defaultdict(float)
    for event in events:
        if event["name"].endswith("_kernel_time"):
            operator, microseconds = event["args"]["op_name"], event["dur"]
            parts[PARTS.get(operator, OTHER)] += microseconds / 1e6 / runs
            if operator in (*INTEGER, *FLOAT):
                products[_product(operator, event["args"]["input_type_shape"])] += 1
    return Profile(Counter({product: count // runs for product, count in products.items()}), dict(parts))


def _product(operator: str, inputs: list[dict[str, list[int]]]) -> Product | IntegerProduct:
    """Return the product of an operator, from the types and shapes of its inputs."""
    shapes = [next(iter(one.values())) for one in inputs]
    *batch, rows, inner = shapes[0]
    if operator in FLOAT:
        one, other = (
            torch.empty(int(np.prod(batch)), rows, inner),
            torch.empty(int(np.prod(batch)), inner, shapes[1][-1]),
        )
        return Product(tuple(one.shape), one.stride(), tuple(other.shape), other.stride())
    # A weight is no input of a run, but the zero points of its columns are.
    columns = next(one["int8"][-1] for one in inputs if "int8" in one)
    return IntegerProduct(int(np.prod(batch)) * rows, inner, columns)
