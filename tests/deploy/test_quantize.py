"""Weights of 8 bits: what is stored, and how far the results are off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from d2lbert.deploy.quantize import quantize
from d2lbert.errors import UserError

K, N = 64, 16


@pytest.fixture
def product(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A graph y = x W with columns of very different size, and W."""
    weights = np.random.default_rng(0).normal(size=(K, N)).astype(np.float32) * np.geomspace(
        0.01, 10, N, dtype=np.float32
    )
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", K])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", N])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path, weights


def stored(path: Path) -> dict[str, np.ndarray]:
    return {one.name: numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}


def test_each_column_has_a_scale_of_its_own(product: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    source, weights = product
    quantize(source, tmp_path / "int8.onnx", reduce_range=False)
    found = stored(tmp_path / "int8.onnx")
    (whole,) = [array for array in found.values() if array.dtype == np.int8 and array.shape == (K, N)]
    (scales,) = [array for name, array in found.items() if name.endswith("w_scale")]
    assert scales.shape == (N,)
    np.testing.assert_allclose(whole * scales, weights, atol=0.51 * scales.max())
    assert (np.abs(whole * scales - weights) <= 0.501 * scales).all()  # at most half a step


def test_seven_bits_leave_room_for_sums_of_sixteen(product: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    source, _ = product
    quantize(source, tmp_path / "int8.onnx")
    (whole,) = [array for array in stored(tmp_path / "int8.onnx").values() if array.shape == (K, N)]
    largest = np.abs(whole.astype(int)).max()
    # Two products with inputs of up to 255 fit into the 15 bits beside a sign; and no more room than that is left.
    assert 2**14 < 2 * 255 * largest < 2**15


def test_a_product_of_eight_bits_is_close(product: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    source, weights = product
    quantize(source, tmp_path / "int8.onnx")
    x = np.random.default_rng(1).normal(size=(32, K)).astype(np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "int8.onnx", providers=["CPUExecutionProvider"])
    found, right = session.run(None, {"x": x})[0], x @ weights
    error = np.sqrt(((found - right) ** 2).mean(0)) / right.std(0)  # by column
    assert (error < 0.02).all()
    assert (error > 0).all()


def test_calibration_finds_the_scale_of_inputs_once(product: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    source, weights = product
    x = np.random.default_rng(1).uniform(-1, 3, size=(4, 32, K)).astype(np.float32)
    quantize(source, tmp_path / "static.onnx", batches=[{"x": batch} for batch in x])
    found = stored(tmp_path / "static.onnx")
    step, zero = found["x_scale"].item(), found["x_zero_point"].item()
    assert step == pytest.approx((x.max() - x.min()) / 255)
    assert zero == pytest.approx(-x.min() / step, abs=0.51)
    session = onnxruntime.InferenceSession(tmp_path / "static.onnx", providers=["CPUExecutionProvider"])
    inside, outside = session.run(None, {"x": x[0]})[0], session.run(None, {"x": 2 * x[0]})[0]
    np.testing.assert_allclose(inside, x[0] @ weights, atol=0.05 * np.abs(x[0] @ weights).max())
    # What is beyond the largest number seen is cut off: numbers up to 6 count as 3.
    cut = np.clip(2 * x[0], x.min(), x.max()) @ weights
    np.testing.assert_allclose(outside, cut, atol=0.05 * np.abs(cut).max())


def test_nothing_to_calibrate_with_is_said(product: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no batch to calibrate with: give some texts"):
        quantize(product[0], tmp_path / "static.onnx", batches=[])
    assert not (tmp_path / "static.onnx").exists()


def test_a_file_may_be_replaced_by_its_copy(product: tuple[Path, np.ndarray]) -> None:
    source, _ = product
    quantize(source, source)
    assert any(array.dtype == np.int8 for array in stored(source).values())
    assert [path.name for path in source.parent.iterdir()] == ["product.onnx"]
