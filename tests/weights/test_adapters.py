"""Folders of adapters: both files, and configurations that describe something else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.weights.adapters import (
    AdapterFolder,
    base_of,
    is_adapter_folder,
    merge_into,
    read_adapters,
    write_adapters,
)

# Ways in which peft begins that take the first adapters out of the base weights.
CHANGE_THE_BASE = ("pissa", "pissa_niter_4", "olora", "corda", "lora_ga", "loftq")
RANDOM = np.random.default_rng(0)
TENSORS = {
    "classifier.weight": RANDOM.normal(size=(2, 4)).astype(np.float32),
    "encoder.layer.0.output.dense.lora_A.weight": RANDOM.normal(size=(3, 5)).astype(np.float32),
    "encoder.layer.0.output.dense.lora_B.weight": RANDOM.normal(size=(4, 3)).astype(np.float32),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    content = AdapterFolder("some/encoder", 3, 6.0, TENSORS)
    write_adapters(tmp_path / "adapters", content, "bert", ["classifier.weight"], "SEQ_CLS")
    return tmp_path / "adapters"


def test_what_is_written_is_read(folder: Path) -> None:
    content = read_adapters(folder)
    assert (content.base, content.rank, content.alpha) == ("some/encoder", 3, 6.0)
    assert content.layers == ["encoder.layer.0.output.dense"]
    assert set(content.tensors) == set(TENSORS)
    assert all(np.array_equal(content.tensors[name], TENSORS[name]) for name in TENSORS)
    assert is_adapter_folder(folder)
    assert not is_adapter_folder(folder.parent)
    assert base_of(folder) == "some/encoder"


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("peft_type", "IA3", "peft_type is 'IA3', which d2lbert does not compute; use adapters where it is 'LORA'"),
        ("use_dora", True, "use_dora is True"),
        ("use_rslora", True, "use_rslora is True"),
        ("bias", "all", "bias is 'all'"),
        ("rank_pattern", {"query": 2}, "rank_pattern is"),
        *(("init_lora_weights", name, f"init_lora_weights is '{name}'.* where it is True") for name in CHANGE_THE_BASE),
        ("alora_invocation_tokens", [3, 4], r"alora_invocation_tokens is \[3, 4\]"),
        ("arrow_config", {"top_k": 3}, "arrow_config is"),
        ("kasa_config", {}, "kasa_config is"),
        ("trainable_token_indices", [5], "trainable_token_indices is"),
        ("use_bdlora", {"nblocks": 2}, "use_bdlora is"),
        ("use_qalora", True, "use_qalora is True"),
        ("r", 0, "r is 0 and lora_alpha 6.0; give a rank of 1 or more"),
        ("lora_alpha", "6", "lora_alpha '6'"),
        ("base_model_name_or_path", None, "names no encoder: write its name or folder as base_model_name_or_path"),
    ],
)
def test_other_adapters_are_refused(folder: Path, field: str, value: object, complaint: str) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(UserError, match=complaint):
        read_adapters(folder)


@pytest.mark.parametrize("value", [True, False, None, "gaussian", "eva", "orthogonal", "mica"])
def test_how_the_adapters_alone_began_does_not_matter(folder: Path, value: object) -> None:
    path = folder / "adapter_config.json"
    fields = {"init_lora_weights": value, "alora_invocation_tokens": None, "use_qalora": False, "kasa_config": None}
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    assert read_adapters(folder).rank == 3


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(UserError, match=r"^no adapter_model\.safetensors in "):
        read_adapters(folder)


def test_a_number_too_large_for_half_precision_is_refused(tmp_path: Path) -> None:
    tensors = {**TENSORS, "classifier.weight": np.full((2, 4), 1e6, np.float32)}
    with np.errstate(over="ignore"), pytest.raises(UserError, match="NaN or infinity, so nothing was written"):
        write_adapters(tmp_path, AdapterFolder("x", 3, 6.0, tensors), "bert", ["classifier.weight"], None, half=True)
    assert not list(tmp_path.iterdir())


def test_an_adapter_is_added_to_its_layer_alone(folder: Path) -> None:
    layer, other = "encoder.layer.0.output.dense.weight", "encoder.layer.1.output.dense.weight"
    before = {layer: np.ones((4, 5), np.float32), other: np.ones((4, 5), np.float32)}
    merged = merge_into(before, read_adapters(folder), folder)
    down, up = (TENSORS[f"encoder.layer.0.output.dense.lora_{one}.weight"] for one in "AB")
    expected = [[1 + 2 * sum(up[i, k] * down[k, j] for k in range(3)) for j in range(5)] for i in range(4)]
    assert np.allclose(merged[layer], expected, atol=1e-6)
    assert merged[layer].dtype == np.float32
    assert merged[other] is before[other]
    assert (before[layer] == 1).all()


def test_adapters_of_another_encoder_are_not_merged(folder: Path) -> None:
    content = read_adapters(folder)
    layer = "encoder.layer.0.output.dense.weight"
    with pytest.raises(UserError, match=r"adapts encoder\.layer\.0\.output\.dense, which some/encoder does not have"):
        merge_into({}, content, folder)
    with pytest.raises(UserError, match=r"has shape \(3, 5\) but the configuration asks for \(3, 6\)"):
        merge_into({layer: np.ones((4, 6), np.float32)}, content, folder)
    whole = AdapterFolder("some/encoder", 3, 6.0, {**TENSORS, "pooler.dense.weight": np.ones((4, 4), np.float32)})
    with pytest.raises(UserError, match=r"hold 'pooler\.dense\.weight', which the configuration has no place for"):
        merge_into({layer: np.ones((4, 5), np.float32), "pooler.dense.weight": np.zeros((4, 4))}, whole, folder)
    without = AdapterFolder("some/encoder", 3, 6.0, {"classifier.weight": TENSORS["classifier.weight"]})
    with pytest.raises(UserError, match="holds no adapters"):
        merge_into({layer: np.ones((4, 5), np.float32)}, without, folder)
