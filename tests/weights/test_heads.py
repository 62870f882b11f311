"""A head in a model folder: read, written, and refused where it is damaged or of another head."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.weights.heads import (
    HEADS,
    HeadInFolder,
    check_head,
    check_head_is_named,
    head_fields,
    head_of,
    named_head,
    read_label_names,
    read_null_threshold,
    read_trained_length,
)


def _config(folder: Path, **content: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(content))
    return folder / "config.json"


def test_the_end_of_a_name_is_the_head() -> None:
    assert head_of("AlbertForTokenClassification") == "ForTokenClassification"
    assert head_of("BertModel") == ""


@pytest.mark.parametrize("head", HEADS)
def test_what_is_written_is_read(head: str, tmp_path: Path) -> None:
    labels = ["B-x", "O", "é"]
    path = _config(tmp_path, **head_fields("AlbertModel", f"Bert{head}", labels))
    assert json.loads(path.read_text())["architectures"] == [f"Albert{head}"]
    assert named_head(path) == head
    assert read_label_names(path, f"Bert{head}", None) == labels
    assert json.loads(path.read_text())["label2id"] == {"B-x": 0, "O": 1, "é": 2}


@pytest.mark.parametrize("names", [[], ["BertModel"], ["BertForMaskedLM"], ["BertForTokenClassification"] * 2])
def test_a_head_that_is_not_known_or_not_one(names: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="names no head that is known here"):
        named_head(_config(tmp_path, architectures=names))


def test_another_head_is_named_in_its_own_words(tmp_path: Path) -> None:
    path = _config(tmp_path, architectures=["DistilBertForTokenClassification"])
    with pytest.raises(UserError, match="is of DistilBertForTokenClassification, not of DistilBertForMultipleChoice"):
        check_head(path, "BertForMultipleChoice")
    assert check_head(path, "BertForTokenClassification")["architectures"]
    with pytest.raises(UserError, match="give a list with one name"):
        check_head(_config(tmp_path, architectures="BertModel"), "BertForMultipleChoice")


def test_choices_must_be_named(tmp_path: Path) -> None:
    check_head_is_named(_config(tmp_path, architectures=["BertForMultipleChoice"]), "BertForMultipleChoice")
    for content in ({}, {"architectures": ["BertModel"]}):
        with pytest.raises(UserError, match="has no head for choices; fine-tune it first"):
            check_head_is_named(_config(tmp_path, **content), "BertForMultipleChoice")


def test_labels_without_names_are_counted(tmp_path: Path) -> None:
    path = _config(tmp_path)
    assert read_label_names(path, "BertForTokenClassification", np.zeros((3, 4))) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    for layer in (None, np.zeros(3)):
        with pytest.raises(UserError, match="names no labels"):
            read_label_names(path, "BertForTokenClassification", layer)
    assert read_label_names(tmp_path / "missing.json", "BertForTokenClassification", np.zeros((1, 4))) == ["LABEL_0"]


@pytest.mark.parametrize("names", [{"1": "a"}, ["a", "b"]])
def test_damaged_labels(names: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="id2label is no table from the numbers"):
        read_label_names(_config(tmp_path, id2label=names), "BertForTokenClassification", None)


@pytest.mark.parametrize(("problem", "outputs"), [("multi_label_classification", 3), ("regression", 2)])
def test_several_labels_or_numbers_for_a_text_are_refused(problem: str, outputs: int, tmp_path: Path) -> None:
    labels = {str(index): f"name {index}" for index in range(outputs)}
    for fields in ({}, {"id2label": labels}):
        path, layer = _config(tmp_path, problem_type=problem, **fields), np.zeros((outputs, 4))
        with pytest.raises(UserError, match=f"problem_type is '{problem}' with {outputs} outputs, and d2lbert gives"):
            read_label_names(path, "BertForSequenceClassification", layer)
        assert len(read_label_names(path, "BertForTokenClassification", layer)) == outputs  # it reads no such field


@pytest.mark.parametrize(
    ("problem", "outputs"),
    [("regression", 1), ("single_label_classification", 2), (None, 1), (None, 3)],
)
def test_one_label_or_one_number_for_a_text_is_read(problem: str | None, outputs: int, tmp_path: Path) -> None:
    path, layer = _config(tmp_path, problem_type=problem), np.zeros((outputs, 4))
    assert len(read_label_names(path, "BertForSequenceClassification", layer)) == outputs


def test_thresholds(tmp_path: Path) -> None:
    assert read_null_threshold(_config(tmp_path)) is None
    assert read_null_threshold(_config(tmp_path, null_threshold=-2.5)) == -2.5
    with pytest.raises(UserError, match="null_threshold is 'high'; give a number, or null"):
        read_null_threshold(_config(tmp_path, null_threshold="high"))


@pytest.mark.parametrize("damaged", ["256", 2, 256.0, True, [256]])
def test_the_length_of_training(damaged: object, tmp_path: Path) -> None:
    assert read_trained_length(_config(tmp_path)) is None
    assert read_trained_length(_config(tmp_path, trained_length=None)) is None
    assert read_trained_length(_config(tmp_path, trained_length=256)) == 256
    with pytest.raises(UserError, match=re.escape(f"trained_length is {damaged!r}; give a number of tokens, 3 or mo")):
        read_trained_length(_config(tmp_path, trained_length=damaged))


class BertForTokenClassification(HeadInFolder):
    """A head of two labels with a field of its own."""

    uses_pooler = False

    def __init__(self) -> None:
        arrays = {"pooler.dense.bias": np.float32([1, 2]), "layer.bias": np.float32([3])}
        self.bert = SimpleNamespace(config=BertConfig(), tensors=lambda: arrays)
        self.labels = ("O", "B-x")

    def head_arrays(self) -> dict[str, np.ndarray]:
        return {"classifier.weight": np.float32([[4], [5]])}

    def _more_fields(self) -> dict[str, object]:
        return {"own": 7}


def test_a_model_with_a_head_writes_its_folder(tmp_path: Path) -> None:
    BertForTokenClassification().save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    assert (content["architectures"], content["own"]) == (["BertForTokenClassification"], 7)
    assert BertConfig.from_json(tmp_path / "config.json") == BertConfig()
    arrays = {name: array.tolist() for name, array in load_file(tmp_path / "model.safetensors").items()}
    assert arrays == {"bert.pooler.dense.bias": [1, 2], "bert.layer.bias": [3], "classifier.weight": [[4], [5]]}
    assert BertForTokenClassification.read_labels(tmp_path / "config.json", {}) == ["O", "B-x"]


def test_labels_without_names_are_counted_by_the_layer_of_the_head(tmp_path: Path) -> None:
    tensors = {"classifier.weight": np.zeros((3, 4)), "qa_outputs.weight": np.zeros((2, 4))}
    assert len(BertForTokenClassification.read_labels(tmp_path / "config.json", tensors)) == 3


def test_a_file_may_lack_a_pooler_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BertForTokenClassification()
    assert {name: array.tolist() for name, array in model._optional_tensors().items()} == {"pooler.dense.bias": [1, 2]}
    monkeypatch.setattr(BertForTokenClassification, "uses_pooler", True)
    assert model._optional_tensors() == {}
