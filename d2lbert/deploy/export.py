"""Write a fine-tuned model for other engines: a program of PyTorch, ONNX in float32 or int8, or a library of TVM.

The written folder is a model folder: the graph beside ``config.json`` and the files of the tokenizer. What can be
read there needs no code of this project; :class:`~d2lbert.deploy.exported.ExportedModel` reads it, too.

Source: ONNX, Open Neural Network Exchange, operators of opset 20; ``torch.export``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from d2lbert.data.batching import pack, pad
from d2lbert.deploy.exported import ExportedModel, load_trained
from d2lbert.deploy.formats import FORMATS, LIBRARY_FILE, PROGRAM_FILE
from d2lbert.deploy.graphs import Exportable, Graph, arguments, graph_of
from d2lbert.deploy.quantize import errors_only, quantize
from d2lbert.deploy.tvm import check_library, compile_program, require_compiler
from d2lbert.errors import UserError, require, unknown_name
from d2lbert.storage.claims import claimed, publish
from d2lbert.tasks.base import longest_input
from d2lbert.torch.runtime import to_tensors
from d2lbert.weights.folder import CONFIG_FILE, ONNX_FILE, write_json

if TYPE_CHECKING:
    from d2lbert.text import Tokenizer

# The first with GELU and LayerNormalization as operators of their own. Newer ones run in fewer engines.
OPSET = 20
# --format -> the file of the graph, where it is not ONNX.
_FILES = {"torch": PROGRAM_FILE, "tvm": LIBRARY_FILE}
_BATCH, _LONGEST = 32, 128  # texts that are calibrated with at a time, and the most tokens of one


def export(
    source: str, out: str | Path, format: str = "onnx", packed: bool = False, texts: Sequence[str] | None = None
) -> Path:
    """Write a fine-tuned model in a format, as a new folder.

    Args:
        source: a folder, or a name of the zoo such as ``minilm-sst2``; adapters are merged into their encoder.
        out: the new folder.
        format: one of :data:`~d2lbert.deploy.formats.FORMATS`. ``onnx-int8`` has weights and products of 8 bits: see
            :func:`~d2lbert.deploy.quantize.quantize`. ``tvm`` takes longer than the others; what it computes is
            compared with the model before it is written.
        packed: take rows of several texts each, instead of one text to a row.
        texts: calibrate ``onnx-int8``: some hundred of those that the model will read. They must be training texts, if
            the model is scored afterwards.

    Returns:
        the file of the graph.

    Raises:
        UserError: there is no such format or model, the model has no head, the folder is not new or empty, a package
            is missing, there are no texts to calibrate with or the format takes none, or a compiled model does not
            compute what the model does.
    """
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if texts is not None and format != "onnx-int8":
        raise UserError(f"format {format} takes no texts: only onnx-int8 is calibrated")
    if format == "tvm":
        require_compiler()
    model, tokenizer = load_trained(source)
    if isinstance(model, ExportedModel):
        raise UserError(f"{source} is exported already: name the model that it was made of")
    graph = graph_of(model, packed)
    with claimed(out) as folder:
        publish(folder, lambda staging: _write(graph, tokenizer, format, staging, texts))
    return folder / _FILES.get(format, ONNX_FILE)


def _write(graph: Graph, tokenizer: Tokenizer, format: str, folder: Path, texts: Sequence[str] | None) -> None:
    if format == "torch":
        torch.export.save(to_program(graph), folder / PROGRAM_FILE)
    elif format == "tvm":
        compile_program(to_program(graph), folder)
    else:
        write_onnx(to_onnx(graph), folder / ONNX_FILE)
    if format == "onnx-int8":
        batches = None if texts is None else _to_calibrate(graph, tokenizer, texts)
        quantize(folder / ONNX_FILE, folder / ONNX_FILE, batches=batches)
    tokenizer.save_pretrained(folder)
    model = graph.model
    write_json(folder / CONFIG_FILE, {**model.config.to_dict(), **model.config_fields()})
    if format == "tvm":
        check_library(graph, folder)


def _to_calibrate(graph: Graph, tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[dict[str, np.ndarray]]:
    """Yield texts as inputs of a graph, by name, in batches. What the model cannot read of a text is cut."""
    encodings = tokenizer.encode_batch(list(texts), max_length=min(_LONGEST, longest_input(graph.model)))
    for start in range(0, len(encodings), _BATCH):
        batch = encodings[start : start + _BATCH]
        rows = to_tensors(pack(batch) if "sequence_ids" in graph.inputs else pad(batch))
        yield {name: tensor.numpy() for name, tensor in arguments(rows, graph.inputs).items()}


def to_program(graph: Exportable) -> torch.export.ExportedProgram:
    """Return the operations of a graph as PyTorch lists them. Batch and length stay free."""
    with torch.no_grad():
        return torch.export.export(graph, graph.example(), dynamic_shapes=graph.axes(), strict=False)


def to_onnx(graph: Exportable) -> Any:
    """Return a graph as a ``ModelProto`` of ONNX, whose axes are named batch, length and, of packed rows, texts.

    Raises:
        UserError: a package is missing.
    """
    require("export to ONNX", "deploy", "onnx", "onnxscript")
    # What the exporter says of itself is kept back: operators of packages that are not here, names that it merges.
    with torch.no_grad(), errors_only("torch.onnx._internal.exporter._registration"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*The axis name.*")
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        program = torch.onnx.export(
            graph,
            graph.example(),
            dynamic_shapes=graph.axes(),
            input_names=graph.inputs,
            output_names=graph.outputs,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    for node in proto.graph.node:  # where in which file the operation was called: of no use elsewhere, and private
        del node.metadata_props[:]
        node.doc_string = ""
    return proto


def write_onnx(proto: Any, path: Path) -> None:
    """Write a ``ModelProto`` to a file.

    Raises:
        UserError: it has more than 2 GB, the most that one file of ONNX holds.
    """
    import onnx
    from google.protobuf.message import EncodeError

    try:
        onnx.save(proto, path)
    except (EncodeError, ValueError):
        raise UserError(f"{path.name} would have over 2 GB, the most that ONNX holds: use --format torch") from None
