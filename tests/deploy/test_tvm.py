"""A library of TVM equals the model for any batch and any length; without TVM nothing is written.

What needs TVM is skipped where it is not: ``pip install apache-tvm``.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from export_support import compared_shapes, make_model

from d2lbert import UserError
from d2lbert.data import Sentence
from d2lbert.deploy import export as exporting
from d2lbert.deploy import tvm as module
from d2lbert.deploy.export import export, to_program
from d2lbert.deploy.exported import load_trained
from d2lbert.deploy.graphs import graph_of
from d2lbert.deploy.tvm import CompiledModel, check_library, compile_program
from d2lbert.outputs import Rows
from d2lbert.tasks.table import named_task
from d2lbert.torch.training.evaluation import compute_logits, evaluate

TEXTS = ["a warm and funny film", "no", "it was long , and I was never bored .", "what a strange afternoon this is"]


@pytest.fixture(scope="module")
def library(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classifier, compiled."""
    pytest.importorskip("tvm", reason="TVM is not installed: pip install apache-tvm")
    out = tmp_path_factory.mktemp("compiled") / "model"
    assert export(str(folder), out, "tvm") == out / "model.so"
    return out


def without_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "tvm" else find(name, *more))


def test_without_tvm_nothing_is_begun(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    without_tvm(monkeypatch)
    # Of a model that does not exist, too: nothing is downloaded for a format that cannot be written.
    for source in (str(folder), "nothing-here"):
        with pytest.raises(UserError, match=r"^--format tvm needs tvm: run pip install apache-tvm$"):
            export(source, tmp_path / "out", "tvm")
    assert list(tmp_path.iterdir()) == []
    shutil.copytree(folder, tmp_path / "library")
    with pytest.raises(UserError, match=r"^a library of TVM needs tvm: run pip install apache-tvm$"):
        CompiledModel.from_folder(tmp_path / "library")


@pytest.mark.parametrize("step", ["compile_program", "check_library"])
def test_nothing_is_left_of_a_model_that_cannot_be_compiled(
    step: str, monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise UserError("no such loop")

    monkeypatch.setattr(exporting, "require_compiler", lambda: None)
    monkeypatch.setattr(exporting, "to_program", lambda graph: None)
    monkeypatch.setattr(exporting, "compile_program", lambda program, out: (out / "model.so").touch())
    monkeypatch.setattr(exporting, step, fail)
    with pytest.raises(UserError, match="no such loop"):
        export(str(folder), tmp_path / "out", "tvm")
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_is_not_whole_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_require_tvm", lambda purpose: None)
    shutil.copytree(folder, tmp_path / "cut")
    (tmp_path / "cut" / "model.so").write_bytes(b"half")
    with pytest.raises(UserError, match=r"tvm\.json"):
        CompiledModel.from_folder(tmp_path / "cut")
    (tmp_path / "cut" / "tvm.json").write_text(json.dumps({"sha256": "0" * 64}))
    with pytest.raises(UserError, match=r"model\.so is not the library that tvm\.json tells of: export it again"):
        CompiledModel.from_folder(tmp_path / "cut")


def test_what_loads_models_for_the_commands_runs_no_library(folder: Path, tmp_path: Path) -> None:
    # To load one is to run what it brings along.
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "model.so").touch()
    with pytest.raises(UserError, match=r"is for d2lbert\.deploy\.tvm\.CompiledModel: name the model that it was made"):
        load_trained(str(tmp_path / "model"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "head", "packed"),
    [
        ("bert", "texts", False),
        ("bert", "tokens", False),
        ("albert", "answers", False),
        ("distilbert", "tokens", True),
        ("pruned", "texts", True),
    ],
)
def test_it_equals_the_model_over_random_shapes(encoder: str, head: str, packed: bool, tmp_path: Path) -> None:
    pytest.importorskip("tvm", reason="TVM is not installed: pip install apache-tvm")
    graph = graph_of(make_model(encoder, head), packed)
    compile_program(to_program(graph), tmp_path)
    labels = [str(number) for number in range(graph(*graph.example()).shape[-1])]
    model = CompiledModel(tmp_path / "model.so", graph.model.config, labels)
    assert (model.inputs, model.packed) == (graph.inputs, packed)

    def run(*inputs: torch.Tensor) -> np.ndarray:
        return model.compute({name: one.numpy() for name, one in zip(graph.inputs, inputs, strict=True)})

    assert len(compared_shapes(graph, run, 20)) > 15


@pytest.mark.slow
def test_a_folder_has_the_library_and_what_a_reader_needs(library: Path, folder: Path) -> None:
    tokenizer = {"vocab.txt", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in library.iterdir()} == {"model.so", "tvm.json", "config.json", *tokenizer}
    assert json.loads((library / "config.json").read_text()) == json.loads((folder / "config.json").read_text())
    # For any processor of this kind: it names none.
    assert "mcpu" not in json.loads((library / "tvm.json").read_text())["target"]


@pytest.mark.slow
def test_its_logits_and_scores_are_those_of_the_head(library: Path, folder: Path) -> None:
    head, tokenizer = load_trained(str(folder))
    model = CompiledModel.from_folder(library)
    assert model.labels == head.labels
    encodings = [tokenizer.encode(text) for text in TEXTS]
    right = compute_logits(head, encodings, tokenizer)
    np.testing.assert_allclose(compute_logits(model, encodings, tokenizer, batch_size=3), right, atol=1e-4)
    examples = [Sentence(text, label) for text, label in zip(TEXTS, "abca", strict=True)]
    task = named_task("classification").of_model(head.labels, None)
    assert evaluate(model, task, tokenizer, examples)[0] == evaluate(head, task, tokenizer, examples)[0]


@pytest.mark.slow
def test_a_number_beyond_a_table_is_refused(library: Path) -> None:
    model = CompiledModel.from_folder(library)
    ids, beyond = torch.ones(1, 4, dtype=torch.int64), model.config.vocab_size
    model(Rows(ids * (beyond - 1)))
    for wrong in (ids * beyond, -ids):
        with pytest.raises(UserError, match=f"input_ids has a number outside 0 to {beyond - 1}: is the tokenizer"):
            model(Rows(wrong))
    with pytest.raises(UserError, match="token_type_ids has a number outside 0 to 1"):
        model(Rows(ids, ids * 2))
    model(Rows(torch.ones(1, 64, dtype=torch.int64)))
    with pytest.raises(UserError, match="a text of 65 tokens, but the model has 64 positions"):
        model(Rows(torch.ones(1, 65, dtype=torch.int64)))


@pytest.mark.slow
def test_what_does_not_fit_is_one_line(
    library: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="give no threads here"):
        CompiledModel.from_folder(library, threads=2)

    def changed(name: str, change: Callable[[Path], object]) -> Path:
        shutil.copytree(library, tmp_path / name)
        change(tmp_path / name)
        return tmp_path / name

    def with_two_labels(copy: Path) -> None:
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps({**config, "id2label": {"0": "a", "1": "b"}}))

    def of_another_kind(copy: Path) -> None:
        content = b"\x7fELF of another kind of processor"
        (copy / "model.so").write_bytes(content)
        facts = json.loads((copy / "tvm.json").read_text())
        (copy / "tvm.json").write_text(json.dumps({**facts, "sha256": module.sha256_of(copy / "model.so")}))

    with pytest.raises(UserError, match=r"has 3 outputs, but its config.json names 2: export it again"):
        CompiledModel.from_folder(changed("labels", with_two_labels))
    with pytest.raises(UserError, match=r"model\.so is no library that TVM can run here .*: export it again") as error:
        CompiledModel.from_folder(changed("kind", of_another_kind))
    assert "\n" not in str(error.value)
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(UserError, match=r"TVM links with /nowhere/c\+\+, which is not here: install g\+\+"):
        export(str(folder), tmp_path / "out", "tvm")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_library_of_another_model_is_noticed(library: Path, folder: Path) -> None:
    model, _ = load_trained(str(folder))
    check_library(graph_of(model), library)
    with torch.no_grad():  # what short texts do not show
        model.bert.embeddings.position.weight[40:] *= -1
    with pytest.raises(UserError, match=r"^TVM's logits are not the model's \(apart by .*\): use --format onnx$"):
        check_library(graph_of(model), library)
