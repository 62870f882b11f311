"""A folder for browsers: what it holds, what its manifest says, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from safetensors.numpy import load_file

from d2lbert import UserError
from d2lbert.deploy.browser.export import export_for_browser, store_in_half
from d2lbert.deploy.exported import load_trained
from d2lbert.storage.files import sha256_of
from d2lbert.torch.training.evaluation import compute_logits

ADAPTERS = ("mood", "likeness", "names", "answers")


@pytest.fixture(scope="module")
def shared(folders: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four sets of adapters of one encoder."""
    out = tmp_path_factory.mktemp("browser") / "shared"
    assert export_for_browser({name: folders[name] for name in ADAPTERS}, out) == out / "browser.json"
    return out


@pytest.fixture(scope="module")
def manifest(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "browser.json").read_text())


def test_an_encoder_is_written_once(shared: Path, manifest: dict[str, Any]) -> None:
    files = {path.name for path in shared.iterdir()}
    assert files == {"browser.json", "model.onnx", "vocab.txt", *(f"{name}.safetensors" for name in ADAPTERS)}
    small = [(shared / f"{name}.safetensors").stat().st_size for name in ADAPTERS]
    assert sum(small) < 0.1 * (shared / "model.onnx").stat().st_size
    assert set(manifest["tasks"]) == set(ADAPTERS)


def test_the_manifest_tells_every_file(shared: Path, manifest: dict[str, Any]) -> None:
    described = [manifest["graph"], manifest["vocabulary"], *(task["adapter"] for task in manifest["tasks"].values())]
    assert {one["file"] for one in described} == {path.name for path in shared.iterdir()} - {"browser.json"}
    for one in described:
        path = shared / one["file"]
        assert (one["bytes"], one["sha256"]) == (path.stat().st_size, sha256_of(path))


def test_the_manifest_tells_what_a_page_must_know(manifest: dict[str, Any]) -> None:
    tasks = manifest["tasks"]
    assert {name: task["task"] for name, task in tasks.items()} == {
        "mood": "classification",
        "likeness": "classification",
        "names": "tagging",
        "answers": "question_answering",
    }
    assert tasks["mood"]["labels"] == ["bad", "good"]
    assert (tasks["mood"]["longest"], tasks["answers"]["longest"], manifest["positions"]) == (128, 384, 512)
    assert {name: task["output"] for name, task in tasks.items()} == {
        "mood": "text_logits",
        "likeness": "text_logits",
        "names": "token_logits",
        "answers": "token_logits",
    }
    assert manifest["special_ids"] == {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}
    assert (manifest["lowercase"], manifest["strip_accents"]) == (True, True)
    assert (manifest["layers"], manifest["heads"], manifest["format"]) == (2, 2, "onnx-web")


def test_the_files_give_what_the_model_gives(shared: Path, folders: dict[str, str], manifest: dict[str, Any]) -> None:
    """The adapters are stored in 16 bits, so to three decimals."""
    session = onnxruntime.InferenceSession(shared / "model.onnx", providers=["CPUExecutionProvider"])
    for name in ADAPTERS:
        model, tokenizer = load_trained(folders[name])
        encoding = tokenizer.encode("A warm and funny film", "what is it?", max_length=64)
        right = compute_logits(model, [encoding], tokenizer)[0]
        ids = np.array([encoding.ids])
        texts = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": np.array([encoding.segment_ids])}
        stored = load_file(shared / manifest["tasks"][name]["adapter"]["file"])
        assert {array.dtype for array in stored.values()} == {np.dtype(np.float16)}
        given = {key: array.astype(np.float32) for key, array in stored.items()}
        found = session.run([manifest["tasks"][name]["output"]], texts | given)[0][0]
        np.testing.assert_allclose(found, right, atol=5e-3)


def test_half_the_bytes_where_no_number_changes(tmp_path: Path) -> None:
    """The shipped weights are numbers of 16 bits: the graph holds them so, and computes the same."""
    export_for_browser({"tiny": "d2lbert-tiny"}, tmp_path / "tiny")
    path = tmp_path / "tiny" / "model.onnx"
    assert path.stat().st_size < 1.01 * Path("data/checkpoints/d2lbert-tiny/model.safetensors").stat().st_size
    manifest = json.loads((tmp_path / "tiny" / "browser.json").read_text())
    assert manifest["tasks"] == {"tiny": {"task": "fill_mask", "longest": 512, "adapter": None}}
    proto = onnx.load(path)
    large = [one for one in proto.graph.initializer if np.prod(one.dims) >= 1000]
    assert {one.data_type for one in large} == {onnx.TensorProto.FLOAT16}


def test_a_number_that_does_not_fit_stays(tmp_path: Path) -> None:
    whole, fine = np.arange(2000, dtype=np.float32), np.full(2000, 0.1, np.float32)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "whole"], ["y"]), onnx.helper.make_node("Add", ["y", "fine"], ["z"])],
        "sum",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2000])],
        [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [2000])],
        [onnx.numpy_helper.from_array(whole, "whole"), onnx.numpy_helper.from_array(fine, "fine")],
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    store_in_half(proto)
    onnx.checker.check_model(proto, full_check=True)
    kinds = {one.name: one.data_type for one in proto.graph.initializer}
    assert kinds == {"whole_half": onnx.TensorProto.FLOAT16, "fine": onnx.TensorProto.FLOAT}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": whole})[0], whole + whole + fine)


def test_a_whole_model_is_a_graph_of_its_own(folder: Path, tmp_path: Path) -> None:
    export_for_browser({"own": str(folder)}, tmp_path / "own", "onnx-web-int8")
    manifest = json.loads((tmp_path / "own" / "browser.json").read_text())
    assert manifest["tasks"]["own"] == {
        "task": "classification",
        "labels": ["a", "b", "c"],
        "longest": 64,
        "null_threshold": None,
        "output": "logits",
        "adapter": None,
    }
    kinds = {one.data_type for one in onnx.load(tmp_path / "own" / "model.onnx").graph.initializer}
    assert onnx.TensorProto.INT8 in kinds


def test_a_page_reads_as_far_as_in_training(folders: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(folders["mood"], tmp_path / "mood")
    config = json.loads((tmp_path / "mood" / "config.json").read_text())
    (tmp_path / "mood" / "config.json").write_text(json.dumps({**config, "trained_length": 200}))
    export_for_browser({"mood": str(tmp_path / "mood")}, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "browser.json").read_text())["tasks"]["mood"]["longest"] == 200


def test_a_mistake_is_one_line(folders: dict[str, str], folder: Path, shared: Path, tmp_path: Path) -> None:
    mistakes = [
        ({"a": folders["mood"], "b": str(folder)}, "a and b are not adapters of one encoder"),
        ({"a": folders["mood"], "b": "minilm-sst2"}, "a and b are not adapters of one encoder"),
        ({"a": folders["choice"]}, "a is a BertForMultipleChoice, which the browser does not have: choose"),
        ({"a": "minilm"}, "names no head that is known here"),
        ({"a": str(shared)}, "is for browsers: name the model that it was made of"),
    ]
    for sources, line in mistakes:
        with pytest.raises(UserError, match=line) as error:
            export_for_browser(sources, tmp_path / "out")
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="unknown format 'onnx-webb': did you mean onnx-web"):
        export_for_browser({"a": folders["mood"]}, tmp_path / "out", "onnx-webb")
    assert list(tmp_path.iterdir()) == []
