"""Graphs of MXNet equal the model for any batch and any length, run without our code, and are close to it in 8 bits."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from export_support import LONGEST, V, make_model
from mxnet import nd

from d2lbert import UserError
from d2lbert.deploy import symbols
from d2lbert.deploy.export import export
from d2lbert.deploy.exported import load_trained
from d2lbert.deploy.formats import PARAMETERS_FILE, SYMBOL_FILE
from d2lbert.deploy.symbols import (
    INPUTS,
    SymbolModel,
    export_symbol,
    find_bounds,
    inputs_of,
    load_symbol,
    quantize,
    record,
)
from d2lbert.models import tokenizer_of
from d2lbert.mxnet.heads import HEADS, BertWithHead
from d2lbert.mxnet.training.evaluation import compute_logits
from d2lbert.outputs import Rows
from d2lbert.torch.training.evaluation import compute_logits as compute_logits_in_pytorch

SHAPES = 60
TEXTS = ["a warm and funny film", "dull, and far too long", "the plot is a mess", "wonderful"] * 4
CLASSES = {"texts": "ForSequenceClassification", "tokens": "ForTokenClassification", "answers": "ForQuestionAnswering"}
CLASSES["choices"] = "ForMultipleChoice"


def in_32_bits() -> bool:
    """Whether MXNet adds products of 8 bits in 32 bits on this processor.

    Without VNNI it adds pairs of them in 16 bits and cuts what does not fit: with a scale for each column many pairs
    do not.
    """
    largest, low, high = nd.full((1, 64), 127, dtype="int8"), nd.array([-1.0]), nd.array([1.0])
    ranges = {"min_data": low, "max_data": high, "min_weight": low, "max_weight": high}
    sums = nd.contrib.quantized_fully_connected(largest, largest, num_hidden=1, no_bias=True, **ranges)[0]
    return bool(sums.asnumpy().item() == 127 * 127 * 64)


def twin(head: str, folder: Path) -> BertWithHead:
    """A model of MXNet with the random numbers of the PyTorch edition's."""
    make_model("bert", head).save_pretrained(folder)
    return HEADS[CLASSES[head]].from_pretrained(folder)


def random_batch(seed: int) -> dict[str, np.ndarray]:
    """A batch of any size and length, padded."""
    chance = np.random.default_rng(seed)
    shape = chance.integers(1, 7), chance.integers(1, LONGEST + 1)
    lengths = chance.integers(1, shape[1] + 1, size=(shape[0], 1))
    ids, segments = chance.integers(0, V, size=shape), chance.integers(0, 2, size=shape)
    return dict(zip(INPUTS, (ids, (np.arange(shape[1]) < lengths).astype(int), segments), strict=True))


def rows_of(batch: dict[str, np.ndarray]) -> Rows[Any]:
    ids, mask, segments = (nd.array(batch[name], dtype="int32") for name in INPUTS)
    return Rows(ids, segments, mask)


def written(recorded: symbols.Recorded, folder: Path) -> Any:
    """A graph, written and read again, as a function of a batch."""
    folder.mkdir(exist_ok=True)
    recorded.save(folder)
    block = load_symbol(folder)
    return lambda batch: block(*(nd.array(batch[name]) for name in INPUTS)).asnumpy()


@pytest.mark.parametrize("head", CLASSES)
def test_a_graph_equals_the_model_over_random_shapes(head: str, tmp_path: Path) -> None:
    model = twin(head, tmp_path / "model")
    graph = written(record(model), tmp_path)
    shapes = set()
    for seed in range(SHAPES):
        batch = random_batch(seed)
        shapes.add(batch["input_ids"].shape)
        right, found = model(rows_of(batch)).asnumpy(), graph(batch)
        if not model.uses_pooler:  # nobody reads the logits of padding
            keep = batch["attention_mask"] > 0
            right, found = right[keep], found[keep]
        np.testing.assert_allclose(found, right, atol=2e-5, rtol=2e-5)
    assert len(shapes) > 40


PROGRAM = """
import sys

sys.modules["d2lbert"] = None  # an import of our package fails from here on
import numpy

# MXNet asks for these names, and NumPy 2 has dropped them. On NumPy 1.23 nothing of this is needed.
for name in sys.argv[4].split():
    if not hasattr(numpy, name):
        setattr(numpy, name, numpy.nan)
numpy.bool = numpy.bool_
import mxnet

folder, batch, out = sys.argv[1:4]
names = ["input_ids", "attention_mask", "token_type_ids"]
model = mxnet.gluon.SymbolBlock.imports(folder + "/model-symbol.json", names, folder + "/model-0000.params")
arrays = numpy.load(batch)
numpy.save(out, model(*(mxnet.nd.array(arrays[name]) for name in names)).asnumpy())

# The older way to run the same files: a module.
symbol, given, more = mxnet.model.load_checkpoint(folder + "/model", 0)
module = mxnet.mod.Module(symbol, data_names=names, label_names=None)
module.bind([(name, arrays[name].shape) for name in names], for_training=False)
module.set_params(given, more)
module.forward(mxnet.io.DataBatch([mxnet.nd.array(arrays[name]) for name in names]), is_train=False)
assert abs(module.get_outputs()[0].asnumpy() - numpy.load(out)).max() < 1e-5
try:
    import d2lbert
except ImportError:
    print("without d2lbert")
"""
DROPPED = "PZERO NZERO NINF PINF NAN NaN Inf alltrue sometrue in1d msort trapz round_ product mirr npv pmt ppmt pv rate"


@pytest.mark.parametrize("format", ["mxnet", "mxnet-int8"])
def test_a_folder_runs_without_our_code(format: str, folder: Path, tmp_path: Path) -> None:
    texts = TEXTS if format == "mxnet-int8" else []
    export_symbol(str(folder), tmp_path / "out", format, texts)
    tokenizer = tokenizer_of(folder, SymbolModel(tmp_path / "out").config)
    np.savez(tmp_path / "batch.npz", **inputs_of(TEXTS, tokenizer)[0])
    arguments = [tmp_path / "out", tmp_path / "batch.npz", tmp_path / "logits.npy", DROPPED]
    # -I: neither the current folder nor PYTHONPATH leads to our package.
    command = [sys.executable, "-I", "-W", "ignore", "-c", PROGRAM, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "without d2lbert"
    model, tokenizer = load_trained(str(folder))
    right = compute_logits_in_pytorch(model, tokenizer.encode_batch(TEXTS), tokenizer)
    found = np.load(tmp_path / "logits.npy")
    own = compute_logits(SymbolModel(tmp_path / "out"), tokenizer.encode_batch(TEXTS), tokenizer)
    np.testing.assert_allclose(found, own, atol=1e-5)
    off = np.abs(found - right).max()
    close = 0.1 if in_32_bits() else 1.0
    assert off < 1e-4 if format == "mxnet" else 1e-4 < off < close * np.abs(right).max()


def test_a_folder_has_what_a_reader_needs(folder: Path, tmp_path: Path) -> None:
    file = export_symbol(str(folder), tmp_path / "out")
    assert file == tmp_path / "out" / SYMBOL_FILE
    tokenizer = {"vocab.txt", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in file.parent.iterdir()} == {SYMBOL_FILE, PARAMETERS_FILE, "config.json", *tokenizer}
    assert json.loads((file.parent / "config.json").read_text()) == json.loads((folder / "config.json").read_text())


def test_a_graph_keeps_the_length_of_training_and_is_calibrated_with_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = symbols.head_class(folder / "config.json").from_pretrained(folder)
    model.trained_length = 9
    model.save_pretrained(tmp_path / "model")
    tokenizer_of(folder, model.config).save_pretrained(tmp_path / "model")
    lengths = []
    real = symbols.inputs_of
    monkeypatch.setattr(symbols, "inputs_of", lambda *given: lengths.append(given[2]) or real(*given))
    export_symbol(str(tmp_path / "model"), tmp_path / "out", "mxnet-int8", TEXTS)
    assert (SymbolModel(tmp_path / "out").trained_length, lengths) == (9, [9])


def test_gluon_reads_what_it_would_have_written_itself(folder: Path, tmp_path: Path) -> None:
    model = symbols.head_class(folder / "config.json").from_pretrained(folder)
    graph = symbols.PaddedTexts(model)
    graph.hybridize()
    batch = [nd.array(np.ones((2, 5))), nd.array(np.ones((2, 5))), nd.array(np.zeros((2, 5)))]
    graph(*batch)
    graph.export(str(tmp_path / "gluon"))
    record(model).save(tmp_path)
    theirs, ours = (json.loads((tmp_path / name).read_text())["nodes"] for name in ("gluon-symbol.json", SYMBOL_FILE))
    assert [node["op"] for node in ours] == [node["op"] for node in theirs]
    assert set(nd.load(str(tmp_path / "gluon-0000.params"))) == set(nd.load(str(tmp_path / PARAMETERS_FILE)))


def test_adapters_are_merged_and_labels_are_kept(tmp_path: Path) -> None:
    export_symbol("minilm-sst2", tmp_path / "graph")
    graph = SymbolModel(tmp_path / "graph")
    tokenizer = tokenizer_of(tmp_path / "graph", graph.config)
    model, _ = load_trained("minilm-sst2")
    encodings = tokenizer.encode_batch(["a warm and funny film", "dull"], max_length=64)
    found = compute_logits(graph, encodings, tokenizer)
    np.testing.assert_allclose(found, compute_logits_in_pytorch(model, encodings, tokenizer), atol=1e-4)
    assert [graph.labels[index] for index in found.argmax(-1)] == ["positive", "negative"]


def test_onnx_of_the_same_model_comes_from_its_twin(folder: Path, tmp_path: Path) -> None:
    """A folder that the MXNet edition writes is exported by PyTorch's."""
    model = symbols.head_class(folder / "config.json").from_pretrained(folder)
    model.save_pretrained(tmp_path / "model")
    tokenizer = tokenizer_of(folder, model.config)
    tokenizer.save_pretrained(tmp_path / "model")
    export(str(tmp_path / "model"), tmp_path / "onnx")
    graph, _ = load_trained(str(tmp_path / "onnx"))
    encodings = tokenizer.encode_batch(TEXTS[:4])
    right = compute_logits(model, encodings, tokenizer)
    np.testing.assert_allclose(compute_logits_in_pytorch(graph, encodings, tokenizer), right, atol=1e-4)


def test_the_exporter_of_mxnet_cannot_write_onnx(tmp_path: Path) -> None:
    """It imports a module that onnx has dropped; and it knows no erf, of which GELU is made (MXNet 1.9.1)."""
    record(twin("texts", tmp_path / "model")).save(tmp_path)
    files = [str(tmp_path / name) for name in (SYMBOL_FILE, PARAMETERS_FILE)]
    with pytest.raises((ImportError, AttributeError), match=r"need to be installed|op type erf"):
        mxnet.onnx.export_model(*files, [(2, 7)] * 3, [np.float32] * 3, str(tmp_path / "model.onnx"))


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[BertWithHead, list[dict[str, np.ndarray]]]:
    """A model, and batches to calibrate with."""
    return twin("texts", tmp_path_factory.mktemp("model")), [random_batch(seed) for seed in range(8)]


@pytest.fixture(scope="module")
def exact(calibrated: Any) -> symbols.Recorded:
    """The model as a graph in float32."""
    return record(calibrated[0])


@pytest.fixture(scope="module")
def bounds_of(exact: symbols.Recorded, calibrated: Any) -> Callable[[str], dict[str, tuple[float, float]]]:
    """The bounds of the graph by the name of the calibration; those of entropy take long, so they are found once."""
    return functools.cache(functools.partial(find_bounds, exact, calibrated[1]))


@pytest.mark.parametrize("calibration", ["naive", pytest.param("entropy", marks=pytest.mark.slow)])
@pytest.mark.parametrize("per_channel", [True, False])
def test_eight_bits_are_close(
    calibrated: Any, exact: symbols.Recorded, bounds_of: Any, calibration: str, per_channel: bool, tmp_path: Path
) -> None:
    model, batches = calibrated
    reduced = quantize(exact, bounds_of(calibration), per_channel)
    dense = exact.operations().count("FullyConnected")
    assert dense == 14  # six in each of two blocks, the pooler, the classifier
    assert reduced.operations().count("_sg_mkldnn_fully_connected") == dense
    assert "FullyConnected" not in reduced.operations()
    whole = [one for one in reduced.parameters.values() if one.dtype == np.int8]
    assert bool(whole) != per_channel
    graph = written(reduced, tmp_path)
    right = np.concatenate([model(rows_of(batch)).asnumpy() for batch in batches])
    found = np.concatenate([graph(batch) for batch in batches])
    error = np.sqrt(((found - right) ** 2).mean()) / right.std()
    assert 1e-4 < error < (0.15 if in_32_bits() or not per_channel else 0.4)


@pytest.mark.slow
def test_calibration_sets_the_scale_of_inputs(calibrated: Any, exact: symbols.Recorded, bounds_of: Any) -> None:
    """The bounds in the graph are the smallest and the largest number seen; entropy cuts off what is rare."""
    model, batches = calibrated
    found = {}
    for calibration in symbols.CALIBRATIONS:
        nodes = json.loads(quantize(exact, bounds_of(calibration)).symbol.tojson())["nodes"]
        bounds = [node["attrs"] for node in nodes if node["op"] == "_contrib_quantize_v2"]
        found[calibration] = [(float(one["min_calib_range"]), float(one["max_calib_range"])) for one in bounds]
    embedded = [model.bert.embed(rows_of(batch)).asnumpy() for batch in batches]
    extremes = min(x.min() for x in embedded), max(x.max() for x in embedded)
    assert any(np.allclose(one, extremes, rtol=1e-5) for one in found["naive"])
    naive, entropy = (max(abs(low), high) for low, high in (found["naive"][0], found["entropy"][0]))
    assert entropy <= naive * 1.001
    assert found["naive"] != found["entropy"]


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy before 2.4 takes such arrays")
def test_mxnet_itself_cannot_set_bounds_of_entropy(calibrated: Any) -> None:
    """Its bounds are arrays of one number, which are no numbers from NumPy 2.4 on."""
    bounds = {"name": (np.array([-1.0]), np.array([1.0]))}
    with pytest.raises(TypeError, match="only 0-dimensional arrays"):
        symbols.quantization._calibrate_quantized_sym(record(calibrated[0]).symbol, bounds)


def test_what_calibration_lacks_is_said(calibrated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batches = calibrated
    with pytest.raises(UserError, match="no batch to calibrate with: give some texts"):
        find_bounds(record(model), [])
    with pytest.raises(UserError, match="unknown calibration 'naiv': did you mean naive"):
        find_bounds(record(model), batches, "naiv")
    with monkeypatch.context() as patch:
        patch.setattr(symbols.quantization, "stats", None)
        with pytest.raises(UserError, match="entropy calibration needs scipy: run pip install scipy, or choose naive"):
            find_bounds(record(model), batches, "entropy")
    monkeypatch.setattr(mxnet.runtime.Features, "is_enabled", lambda self, name: name != "MKLDNN")
    with pytest.raises(UserError, match="has no oneDNN, so no int8: export to onnx-int8"):
        find_bounds(record(model), batches)


def test_bounds_of_another_graph_are_refused(bounds_of: Any, tmp_path: Path) -> None:
    tagger = record(twin("tokens", tmp_path))
    with pytest.raises(UserError, match="these bounds are of another graph: find them for the one"):
        quantize(tagger, bounds_of("naive"))


def test_a_graph_refuses_what_it_would_misread(folder: Path, tmp_path: Path) -> None:
    export_symbol(str(folder), tmp_path / "out")
    model = SymbolModel(tmp_path / "out")
    ids = nd.array(np.full((1, 3), 5), dtype="int32")
    assert model(Rows(ids)).shape == (1, 3)
    with pytest.raises(UserError, match=re.escape("id 30522 is not from 0 to")):
        model(Rows(ids + 30517))
    with pytest.raises(UserError, match="input of 65 tokens, but the model has 64 positions"):
        model(Rows(nd.array(np.ones((1, 65)), dtype="int32")))


def test_damaged_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_symbol(str(folder), out)
    content = (out / PARAMETERS_FILE).read_bytes()
    (out / PARAMETERS_FILE).write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="holds no graph that MXNet can run") as error:
        load_symbol(out)
    assert "\n" not in str(error.value)
    (out / PARAMETERS_FILE).unlink()
    with pytest.raises(UserError, match=r"lacks model-0000\.params: write it with d2lbert export --format mxnet"):
        load_symbol(out)


@pytest.mark.parametrize(
    ("source", "format", "line"),
    [
        ("minilm-sst2", "mxnet-int4", "unknown format 'mxnet-int4': did you mean mxnet-int8"),
        ("minilm-sst2", "mxnet-int8", "no batch to calibrate with"),
        ("minilm", "mxnet", "names no head that is known here"),
        ("nothing-here", "mxnet", "nothing-here"),
    ],
)
def test_a_mistake_is_one_line(source: str, format: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=line) as error:
        export_symbol(source, tmp_path / "out", format)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_what_is_exported_is_not_exported_again(folder: Path, tmp_path: Path) -> None:
    export_symbol(str(folder), tmp_path / "out")
    with pytest.raises(UserError, match="is exported already: name the model that"):
        export_symbol(str(tmp_path / "out"), tmp_path / "again")
    with pytest.raises(UserError, match="is a graph of MXNet: add --edition mxnet"):
        load_trained(str(tmp_path / "out"))
