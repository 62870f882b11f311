"""A fine-tuned model of the MXNet edition as a graph that needs no code of ours: files, 8 bits, and running it.

``hybridize()`` makes many small graphs of our models, with Python between them. Here a whole model is recorded as one
graph, a *symbol*. It is saved with its parameters in the two files that ``HybridBlock.export`` writes, too, and
``mxnet.gluon.SymbolBlock.imports`` reads them wherever MXNet is installed.

In 8 bits, a column of a weight matrix W is stored as whole numbers q from -127 to 127 and one scale s, with W = s q.
The inputs of a product get one scale each, chosen with some batches before (calibration); oneDNN, the library of
kernels that is part of MXNet, multiplies whole numbers. Source: Jacob et al. 2018; ``mxnet.contrib.quantization``.

Shape legend: B rows of a batch, L length of a row, D hidden size, C labels.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from d2lbert.data.batching import pad
from d2lbert.deploy.formats import MXNET_FORMATS, PARAMETERS_FILE, SYMBOL_FILE
from d2lbert.errors import UserError, unknown_name
from d2lbert.models import tokenizer_of
from d2lbert.mxnet.attention import Tensor
from d2lbert.mxnet.bert import BertModel
from d2lbert.mxnet.blocks import Block
from d2lbert.mxnet.heads import BertWithHead, head_class
from d2lbert.outputs import Rows
from d2lbert.storage.claims import claimed, publish
from d2lbert.tasks.base import longest_input
from d2lbert.text import Tokenizer
from d2lbert.weights.folder import CONFIG_FILE, ONNX_FILE, write_json
from d2lbert.weights.heads import read_null_threshold, read_trained_length
from d2lbert.zoo.folders import locate

# d2lbert.mxnet, imported above, has made NumPy ready for it.
from mxnet import cpu, gluon, nd, runtime, sym  # isort: skip
from mxnet.base import MXNetError  # isort: skip
from mxnet.contrib import quantization  # isort: skip

# The names that other programs use, in the order of the arguments; each (B, L), in float32 as MXNet's arrays are.
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
CALIBRATIONS = {
    "naive": "the smallest and the largest number seen",
    "entropy": "the cut that keeps most of the distribution of the numbers seen, by their relative entropy",
}
BATCH = 32  # texts that are calibrated with at a time
os.environ.setdefault("MXNET_SUBGRAPH_VERBOSE", "0")  # else each graph prints a line about oneDNN


class PaddedTexts(Block):
    """Any head, over rows of one text each, padded to the longest; nothing in it is left to Python.

    Args:
        model: a head of :mod:`d2lbert.mxnet.heads`.
    """

    def __init__(self, model: BertWithHead) -> None:
        super().__init__()
        self.model = model

    def hybrid_forward(
        self, F: ModuleType, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> Tensor:
        """Return logits, (B, C) or, of a head that scores tokens, (B, L, C). In the mask 1 is a token, 0 padding."""
        bert = self.model.bert
        # 0, 1, 2, ... as many as the ids have columns: a symbol does not know its length.
        positions = F.expand_dims(F.contrib.arange_like(input_ids, axis=1), axis=0)  # (1, L)
        x = bert.embeddings(input_ids, token_type_ids, positions)  # (B, L, D)
        mask = F.expand_dims(attention_mask, axis=1)  # (B, 1, L)
        if not self.model.uses_pooler:
            return self.model.logits_of(bert.encoder(x, mask).sequence)
        *blocks, last = bert.encoder.layers()
        for block in blocks:
            x, _ = block(x, mask)
        first = F.slice_axis(x, axis=1, begin=0, end=1)  # (B, 1, D): a text begins in column 0
        first, _ = last(first, mask, memory=x)
        return self.model.logits_of(F.tanh(bert.pooler(F.squeeze(first, axis=1))))


@dataclass(frozen=True)
class Recorded:
    """A graph with its parameters.

    Fields:
        symbol: the operations.
        parameters: of the symbol, by name.
    """

    symbol: Any
    parameters: dict[str, nd.NDArray]

    def save(self, folder: str | Path) -> None:
        """Write ``model-symbol.json`` and ``model-0000.params``, as ``HybridBlock.export`` does."""
        self.symbol.save(str(Path(folder) / SYMBOL_FILE))
        nd.save(str(Path(folder) / PARAMETERS_FILE), {f"arg:{name}": one for name, one in self.parameters.items()})

    def operations(self) -> list[str]:
        """Return the kind of each operation, in the order in which they are computed."""
        return [node["op"] for node in json.loads(self.symbol.tojson())["nodes"] if node["op"] != "null"]


def record(model: BertWithHead) -> Recorded:
    """Return a fine-tuned model as one graph, for any number of texts of any length up to its positions.

    Args:
        model: a head of :mod:`d2lbert.mxnet.heads`, on the processor. Dropout is on in training alone.
    """
    graph = PaddedTexts(model)
    symbol = graph(*(sym.var(name, dtype="float32") for name in INPUTS))
    wanted = set(symbol.list_arguments())  # a head that scores tokens has no use for the pooler
    return Recorded(symbol, {one.name: one.data() for one in graph.collect_params().values() if one.name in wanted})


def find_bounds(
    recorded: Recorded, batches: Iterable[Mapping[str, np.ndarray]], calibration: str = "naive"
) -> dict[str, tuple[float, float]]:
    """Return from which to which number each input of a product is kept in 8 bits, by its name: see :func:`quantize`.

    Args:
        recorded: in float32.
        batches: inputs of the graph by name, to calibrate with: see :func:`inputs_of`.
        calibration: a name of :data:`CALIBRATIONS`.

    Raises:
        UserError: there is no such calibration, no batch, or this build of MXNet cannot compute in 8 bits.
    """
    if calibration not in CALIBRATIONS:
        raise unknown_name("calibration", calibration, CALIBRATIONS)
    _check_build(calibration)
    symbol, _, seen = _in_8_bits(recorded, calibration)
    _show(symbol, recorded.parameters, batches, seen)
    if calibration == "entropy":
        return _thresholds(seen.hist_dict)
    return {name: (float(low), float(high)) for name, (low, high) in seen.min_max_dict.items()}


def quantize(recorded: Recorded, bounds: Mapping[str, tuple[float, float]], per_channel: bool = True) -> Recorded:
    """Return a graph whose dense layers multiply in 8 bits; embeddings, LayerNorm, softmax and GELU stay in float32.

    Args:
        recorded: in float32.
        bounds: of the same graph, from :func:`find_bounds`.
        per_channel: a scale for each column of a weight matrix. Otherwise one for the whole matrix: less exact, but a
            smaller file, since MXNet stores whole numbers only then. A processor without VNNI adds pairs of products in
            16 bits and cuts what does not fit, so measure on the machine that will serve.

    Raises:
        UserError: the bounds are of another graph.
    """
    _, graph, seen = _in_8_bits(recorded, "naive", per_channel)
    if set(bounds) != set(seen.include_layer):
        raise UserError("these bounds are of another graph: find them for the one that is quantized")
    seen.min_max_dict = dict(bounds)
    graph, parameters, _ = quantization.calib_graph(
        graph, recorded.parameters, {}, seen, calib_mode="customize", quantized_dtype="int8", logger=None
    )
    return Recorded(graph.get_backend_symbol("MKLDNN_QUANTIZE"), parameters)


def _in_8_bits(recorded: Recorded, calibration: str, per_channel: bool = True) -> tuple[Any, Any, Any]:
    """Return the graph in float32 as oneDNN computes it, the same in 8 bits without bounds, and what finds them."""
    symbol = recorded.symbol.get_backend_symbol("MKLDNN_QUANTIZE")  # fuses what oneDNN computes at once
    graph, _, _, seen = quantization.quantize_graph(
        symbol,
        recorded.parameters,
        {},
        calib_mode=calibration,
        quantized_dtype="int8",
        quantize_mode="smart",  # "full" takes embeddings and sums, too: a sixth of SST-2's labels then change
        quantize_granularity="channel-wise" if per_channel else "tensor-wise",
    )
    return symbol, graph, seen


def _check_build(calibration: str) -> None:
    """Check what MXNet needs for 8 bits.

    Raises:
        UserError: this build cannot compute in 8 bits, or lacks what the calibration needs.
    """
    if not runtime.Features().is_enabled("MKLDNN"):
        raise UserError("this build of MXNet has no oneDNN, so no int8: export to onnx-int8 instead")
    if calibration == "entropy" and quantization.stats is None:
        raise UserError("entropy calibration needs scipy: run pip install scipy, or choose naive")


def _show(symbol: Any, parameters: dict[str, Any], batches: Iterable[Mapping[str, np.ndarray]], seen: Any) -> None:
    """Compute batches, and let ``seen`` look at what goes into each product.

    Raises:
        UserError: there are none.
    """
    empty = True
    for batch in batches:
        arrays = {name: nd.array(array, dtype="float32") for name, array in batch.items()}
        program = symbol.bind(cpu(), {**parameters, **arrays})
        program.set_monitor_callback(seen.collect, monitor_all=True)
        program.forward(is_train=False)
        nd.waitall()
        empty = False
    if empty:
        raise UserError("no batch to calibrate with: give some texts")


def _thresholds(histograms: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return from which to which number each input is kept, by relative entropy.

    MXNet returns the bounds as arrays of one number and hands them to ``ctypes`` as they are, which ended in a
    TypeError from NumPy 2.4 on ("only 0-dimensional arrays can be converted to Python scalars"). Here they are numbers.
    """
    bounds = quantization._get_optimal_thresholds(histograms, "int8")
    return {name: (float(np.ravel(low)[0]), float(np.ravel(high)[0])) for name, (low, high) in bounds.items()}


def inputs_of(texts: Sequence[str], tokenizer: Tokenizer, max_length: int = 128) -> list[dict[str, np.ndarray]]:
    """Return the inputs of a graph by name, in padded batches of 32 texts.

    Args:
        max_length: tokens; longer texts are cut.
    """
    encodings = tokenizer.encode_batch(list(texts), max_length=max_length)
    batches = [pad(encodings[start : start + BATCH]) for start in range(0, len(encodings), BATCH)]
    return [dict(zip(INPUTS, (batch.token_ids, batch.mask, batch.segment_ids), strict=True)) for batch in batches]


class SymbolModel(Block):
    """A recorded graph with the interface of the head that it was made of.

    Args:
        folder: that :func:`export_symbol` has written.
        head: which must have been exported; by default the one that ``config.json`` names.

    Attributes:
        config: of the encoder.
        labels: the names of the C outputs.
        packed: that the graph does not take rows of several texts.

    Raises:
        UserError: a file is missing or damaged, or is of another head.
    """

    packed = False

    def __init__(self, folder: str | Path, head: type[BertWithHead] | None = None) -> None:
        super().__init__()
        path = Path(folder) / CONFIG_FILE
        head = head or head_class(path)
        self.config = BertModel.config_class.from_json(path)
        self.labels = tuple(head.read_labels(path, {}))
        self.null_threshold, self.trained_length = read_null_threshold(path), read_trained_length(path)
        self.graph = load_symbol(folder)

    def forward(self, rows: Rows[Tensor]) -> Tensor:
        """Return logits: (B, C), or (B, L, C) of a head that scores tokens.

        Args:
            rows: padded ones.

        Raises:
            UserError: an id is outside the vocabulary, or a row is longer than the positions. The graph itself would
                take the last vector for them, and say nothing.
        """
        ids, length = rows.token_ids, rows.token_ids.shape[1]
        if length > self.config.max_position_embeddings:
            longest = self.config.max_position_embeddings
            raise UserError(f"input of {length} tokens, but the model has {longest} positions: truncate the text")
        for number in (int(ids.min().asscalar()), int(ids.max().asscalar())):
            if not 0 <= number < self.config.vocab_size:
                raise UserError(
                    f"id {number} is not from 0 to {self.config.vocab_size - 1}, the rows of its embeddings"
                )
        mask = nd.ones_like(ids) if rows.mask is None else rows.mask
        segments = nd.zeros_like(ids) if rows.segment_ids is None else rows.segment_ids
        return self.graph(*(one.astype("float32") for one in (ids, mask, segments)))


def load_symbol(folder: str | Path) -> gluon.SymbolBlock:
    """Return the graph of a folder as a Gluon block; it takes the three :data:`INPUTS` in their order, as float32.

    This is all that another program needs, and it is MXNet's own: ``SymbolBlock.imports(symbol, INPUTS, parameters)``.

    Raises:
        UserError: a file is missing or damaged.
    """
    paths = [Path(folder) / name for name in (SYMBOL_FILE, PARAMETERS_FILE)]
    for path in paths:
        if not path.is_file():
            raise UserError(f"{folder} lacks {path.name}: write it with d2lbert export --format mxnet")
    with warnings.catch_warnings():
        # MXNet says that it does not know the type of the inputs; it is that of the arrays that come.
        warnings.simplefilter("ignore")
        try:
            return gluon.SymbolBlock.imports(str(paths[0]), list(INPUTS), str(paths[1]))
        except (MXNetError, AssertionError, ValueError) as error:
            reason = (str(error).strip().splitlines() or ["damaged"])[-1][:100]
            raise UserError(f"{folder} holds no graph that MXNet can run ({reason}): export it again") from None


def export_symbol(
    source: str,
    out: str | Path,
    format: str = "mxnet",
    texts: Sequence[str] = (),
    calibration: str = "naive",
    per_channel: bool = True,
) -> Path:
    """Write a fine-tuned model as a graph of MXNet, as a new folder.

    Args:
        source: a folder, or a name of the zoo such as ``minilm-sst2``; adapters are merged into their encoder.
        out: the new folder. Beside the graph are ``config.json`` and the files of the tokenizer.
        format: one of :data:`~d2lbert.deploy.formats.MXNET_FORMATS`.
        texts: calibrate ``mxnet-int8``: some hundred of those that the model will read. They must be training texts, if
            the score of the result is to mean anything. They are cut as the model cuts what it reads.
        calibration: of :func:`find_bounds`.
        per_channel: of :func:`quantize`.

    Returns:
        the file of the graph.

    Raises:
        UserError: there is no such format or model, the model has no head or is none of this edition, there is no text
            to calibrate with, or the folder is not new or empty.
    """
    if format not in MXNET_FORMATS:
        raise unknown_name("format", format, MXNET_FORMATS)
    path = locate(source)
    if (path / SYMBOL_FILE).is_file() or (path / ONNX_FILE).is_file():
        raise UserError(f"{source} is exported already: name the model that it was made of")
    model = head_class(path / CONFIG_FILE).from_pretrained(path)
    tokenizer = tokenizer_of(path, model.config)
    recorded = record(model)
    if format == "mxnet-int8":
        bounds = find_bounds(recorded, inputs_of(texts, tokenizer, longest_input(model)), calibration)
        recorded = quantize(recorded, bounds, per_channel)

    def write(folder: Path) -> None:
        recorded.save(folder)
        tokenizer.save_pretrained(folder)
        write_json(folder / CONFIG_FILE, {**model.config.to_dict(), **model.config_fields()})

    with claimed(out) as folder:
        publish(folder, write)
    return folder / SYMBOL_FILE
