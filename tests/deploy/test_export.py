"""Exported graphs equal the model for any batch and any length, in the exporter's formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from export_support import LONGEST, compared_shapes, make_model
from torch import Tensor

from d2lbert import UserError
from d2lbert.deploy import export as module
from d2lbert.deploy.export import export, to_onnx, to_program
from d2lbert.deploy.exported import load_trained
from d2lbert.deploy.graphs import Graph, graph_of
from d2lbert.torch.training.evaluation import compute_logits

SHAPES = 200
KINDS = [
    ("bert", "texts", False),
    ("bert", "texts", True),
    ("bert", "tokens", False),
    ("bert", "answers", True),
    ("albert", "texts", False),
    ("distilbert", "tokens", True),
    ("pruned", "texts", True),
]


def assert_equal_over_shapes(graph: Graph, run: Callable[..., np.ndarray]) -> None:
    shapes = compared_shapes(graph, run, SHAPES)
    assert len(shapes) > 80
    assert {1, LONGEST} <= {length for _, length in shapes}


@pytest.mark.parametrize(("encoder", "head", "packed"), KINDS)
def test_onnx_equals_the_model_over_random_shapes(encoder: str, head: str, packed: bool) -> None:
    graph = graph_of(make_model(encoder, head), packed)
    proto = to_onnx(graph)
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    taken = {one.name for one in session.get_inputs()}  # an input that the encoder has no use for is left out

    def run(*inputs: Tensor) -> np.ndarray:
        fed = {name: tensor.numpy() for name, tensor in zip(graph.inputs, inputs, strict=True) if name in taken}
        return session.run(None, fed)[0]

    assert_equal_over_shapes(graph, run)


@pytest.mark.parametrize(("encoder", "head", "packed"), KINDS)
def test_a_program_equals_the_model_over_random_shapes(encoder: str, head: str, packed: bool, tmp_path: Path) -> None:
    graph = graph_of(make_model(encoder, head), packed)
    torch.export.save(to_program(graph), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    assert_equal_over_shapes(graph, lambda *inputs: program(*inputs).detach().numpy())


def test_a_wrong_mask_would_be_noticed() -> None:
    """The comparison above can fail: a graph that ignores its mask differs."""
    graph = graph_of(make_model("bert", "texts"))

    def careless(ids: Tensor, mask: Tensor, segments: Tensor) -> Any:
        return graph(ids, torch.ones_like(mask), segments).detach().numpy()

    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_equal_over_shapes(graph, careless)


def test_a_graph_says_its_axes_and_nothing_of_this_machine() -> None:
    proto = to_onnx(graph_of(make_model("bert", "texts"), packed=True))
    shapes = {
        one.name: [axis.dim_param or axis.dim_value for axis in one.type.tensor_type.shape.dim]
        for one in [*proto.graph.input, *proto.graph.output]
    }
    assert shapes["input_ids"] == ["batch", "length"]
    assert shapes["columns"] == ["batch", "texts"]
    assert shapes["logits"] == ["batch", "texts", 3]
    assert str(Path(module.__file__).parent).encode() not in proto.SerializeToString()
    assert b"graphs.py" not in proto.SerializeToString()


@pytest.mark.parametrize("format", ["torch", "onnx", "onnx-int8"])
def test_a_folder_has_the_graph_and_what_a_reader_needs(folder: Path, format: str, tmp_path: Path) -> None:
    file = export(str(folder), tmp_path / "out", format)
    graph = "model.pt2" if format == "torch" else "model.onnx"
    assert file == tmp_path / "out" / graph
    tokenizer = {"vocab.txt", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in file.parent.iterdir()} == {graph, "config.json", *tokenizer}
    assert json.loads((file.parent / "config.json").read_text()) == json.loads((folder / "config.json").read_text())


def test_eight_bits_are_a_quarter(folder: Path, tmp_path: Path) -> None:
    sizes = [export(str(folder), tmp_path / name, name).stat().st_size for name in ("onnx", "onnx-int8")]
    assert sizes[0] > 2.5 * sizes[1]  # the vectors are short here: 12 numbers to a scale


@pytest.mark.parametrize("packed", [False, True])
def test_texts_calibrate_eight_bits(packed: bool, tmp_path: Path) -> None:
    texts = ["a warm and funny film", "dull from start to end", "who cares", "a film that is neither here nor there"]
    export("minilm-sst2", tmp_path / "out", "onnx-int8", packed, texts)
    nodes = [node.op_type for node in onnx.load(tmp_path / "out" / "model.onnx").graph.node]
    assert "QuantizeLinear" in nodes
    assert "DynamicQuantizeLinear" not in nodes
    (graph, tokenizer), (model, _) = load_trained(str(tmp_path / "out")), load_trained("minilm-sst2")
    encodings = tokenizer.encode_batch(texts, max_length=64)
    found, right = (compute_logits(one, encodings, tokenizer) for one in (graph, model))
    assert 0 < np.abs(found - right).max() < 0.5
    assert (found.argmax(-1) == right.argmax(-1)).all()


def test_adapters_are_merged_into_the_graph(tmp_path: Path) -> None:
    export("minilm-sst2", tmp_path / "graph")
    graph, tokenizer = load_trained(str(tmp_path / "graph"))
    model, _ = load_trained("minilm-sst2")
    encodings = tokenizer.encode_batch(["a warm and funny film", "dull"], max_length=64)
    right = compute_logits(model, encodings, tokenizer)
    np.testing.assert_allclose(compute_logits(graph, encodings, tokenizer), right, atol=1e-4)
    assert (right.argmax(-1) == [1, 0]).all()  # the encoder without its adapters knows nothing of this
    names = [one.name for one in onnx.load(tmp_path / "graph" / "model.onnx").graph.initializer]
    assert not any("adapter" in name or "lora" in name for name in names)


def test_what_is_exported_is_not_exported_again(folder: Path, tmp_path: Path) -> None:
    for format, line in (("onnx", "is exported already: name the model that"), ("torch", "is for torch.export.load")):
        export(str(folder), tmp_path / format, format)
        with pytest.raises(UserError, match=line):
            export(str(tmp_path / format), tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("source", "format", "texts", "line"),
    [
        ("minilm-sst2", "onnx-int4", None, "unknown format 'onnx-int4': did you mean onnx-int8 or onnx"),
        ("minilm-sst2", "onnx", ["a"], "format onnx takes no texts: only onnx-int8 is calibrated"),
        ("minilm-sst2", "onnx-int8", [], "no batch to calibrate with: give some texts"),
        ("minilm", "onnx", None, "names no head that is known here"),
        ("nothing-here", "onnx", None, "nothing-here"),
    ],
)
def test_a_mistake_is_one_line(source: str, format: str, texts: list[str] | None, line: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=line) as error:
        export(source, tmp_path / "out", format, texts=texts)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_empty_is_left_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty: choose a new folder"):
        export(str(folder), tmp_path, "torch")
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_nothing_is_left_of_an_export_that_fails(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    def full(*_: Any) -> None:
        raise UserError("the disk is full")

    monkeypatch.setattr(module, "write_onnx", full)
    with pytest.raises(UserError, match="the disk is full"):
        export(str(folder), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
