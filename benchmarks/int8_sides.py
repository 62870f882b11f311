"""A fine-tuned classifier in several engines and precisions: what the benchmarks of deployment compare.

An engine takes a batch that is laid out, padded or packed, and returns logits (N, C).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import onnxruntime
import torch

from benchmarks.twins import twin
from d2lbert.data.batching import pack
from d2lbert.deploy.export import to_onnx, write_onnx
from d2lbert.deploy.exported import ExportedModel
from d2lbert.deploy.graphs import COLUMNS, PACKED, arguments, graph_of
from d2lbert.deploy.quantize import quantize
from d2lbert.text import Encoding
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import to_tensors

Engine = Callable[[Any], np.ndarray]
Text = TypeVar("Text")  # as characters or encoded
BATCH = 32  # texts
CALIBRATION = 256  # training texts that calibrate


def in_pytorch(model: torch.nn.Module, precision: torch.dtype = torch.float32) -> Engine:
    """Return a model of ours as an engine."""

    def run(batch: Any) -> np.ndarray:
        with torch.inference_mode(), torch.autocast("cpu", precision, enabled=precision is not torch.float32):
            return model(to_tensors(batch)).float().numpy()

    return run


def in_transformers(model: BertForSequenceClassification, attention: str) -> Engine:
    """Return the same model in ``transformers`` as an engine."""
    reference = twin(model, "BertForSequenceClassification").eval()
    reference.set_attn_implementation(attention)

    def run(batch: Any) -> np.ndarray:
        ids, mask = torch.from_numpy(batch.token_ids), torch.from_numpy(batch.mask)
        with torch.inference_mode():
            return reference(input_ids=ids, attention_mask=mask).logits.numpy()

    return run


def int8_in_pytorch(model: BertForSequenceClassification, by_row: bool = False) -> Engine:
    """Return a copy whose linear layers have int8 weights, and inputs that are quantized as they come.

    Args:
        by_row: a step for each row of a matrix, instead of one for the whole.
    """
    torch.backends.quantized.engine = "onednn"
    library = torch.ao.quantization
    kind = library.per_channel_dynamic_qconfig if by_row else library.default_dynamic_qconfig
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that another package will take its place
        return in_pytorch(library.quantize_dynamic(copy.deepcopy(model), {torch.nn.Linear: kind}))


def graph_file(model: BertForSequenceClassification, folder: Path, packed: bool) -> Path:
    """Write the model's graph in float32, for packed or for padded rows."""
    path = folder / f"{'packed' if packed else 'padded'}.onnx"
    write_onnx(to_onnx(graph_of(model, packed)), path)
    return path


def int8_file(graph: Path, name: str, **options: Any) -> Path:
    """Write a copy of a graph in int8; the options are those of :func:`d2lbert.deploy.quantize.quantize`."""
    path = graph.with_stem(f"{graph.stem} {name}")
    quantize(graph, path, **options)
    return path


def in_onnx_runtime(graph: Path, model: BertForSequenceClassification) -> Engine:
    """Return a graph of the model as an engine."""
    return in_pytorch(ExportedModel(graph, model.config, list(model.labels)))


def batches_of(texts: Sequence[Text]) -> list[list[Text]]:
    """Return texts in batches of :data:`BATCH`, in their order."""
    return [list(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]


def to_calibrate(
    encodings: Sequence[Encoding], inputs: Sequence[str] = (*PACKED, COLUMNS)
) -> list[dict[str, np.ndarray]]:
    """Return inputs of a graph for packed rows, by name: batches of texts.

    Args:
        inputs: the names; a head that scores tokens has no columns.
    """
    batches = [arguments(to_tensors(pack(batch)), inputs) for batch in batches_of(encodings)]
    return [{name: tensor.numpy() for name, tensor in batch.items()} for batch in batches]


def largest_sum(width: int) -> int:
    """Return ONNX Runtime's sum of ``width`` products of the largest input of 8 bits, 255, and the largest weight, 127.

    It is less than 255 * 127 * ``width`` where the processor adds pairs of products in 16 bits.
    """
    weights = onnx.numpy_helper.from_array(np.full((width, width), 127, np.int8), "weights")
    inputs = onnx.helper.make_tensor_value_info("inputs", onnx.TensorProto.UINT8, [1, width])
    sums = onnx.helper.make_tensor_value_info("sums", onnx.TensorProto.INT32, [1, width])
    product = onnx.helper.make_node("MatMulInteger", ["inputs", "weights"], ["sums"])
    graph = onnx.helper.make_graph([product], "product", [inputs], [sums], [weights])
    # The versions of ONNX that have known this operator for long.
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"inputs": np.full((1, width), 255, np.uint8)})
    return int(found[0, 0])
