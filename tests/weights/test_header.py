"""What a file of weights holds, read without its tensors."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from d2lbert import UserError
from d2lbert.weights.folder import read_tensors
from d2lbert.weights.header import WEIGHTS_FILE, canonical_name, read_bfloat16, read_header


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bert.encoder.layer.0.output.LayerNorm.gamma", "encoder.layer.0.output.LayerNorm.weight"),
        ("ernie.embeddings.LayerNorm.beta", "embeddings.LayerNorm.bias"),
        ("albert.pooler.bias", "pooler.bias"),
        ("distilbert.transformer.layer.0.ffn.lin1.bias", "transformer.layer.0.ffn.lin1.bias"),
        ("classifier.bert.weight", "classifier.bert.weight"),
        ("gamma", "gamma"),
    ],
)
def test_canonical_names(name: str, expected: str) -> None:
    assert canonical_name(name) == expected


def test_names_kinds_and_shapes_come_without_the_tensors(tmp_path: Path) -> None:
    tensors = {
        "bert.pooler.dense.bias": torch.zeros(3),
        "half": torch.zeros(2, 5, dtype=torch.float16),
        "brain": torch.zeros((), dtype=torch.bfloat16),
        "count": torch.zeros(1, dtype=torch.int64),
        "quantised": torch.zeros(4, dtype=torch.float8_e4m3fn),
    }
    save_torch_file(tensors, tmp_path / WEIGHTS_FILE, metadata={"format": "pt"})
    header = read_header(tmp_path)
    assert {name: (info.name, info.dtype, info.shape) for name, info in header.items()} == {
        "pooler.dense.bias": ("bert.pooler.dense.bias", "F32", (3,)),
        "half": ("half", "F16", (2, 5)),
        "brain": ("brain", "BF16", ()),
        "count": ("count", "I64", (1,)),
        "quantised": ("quantised", "F8_E4M3", (4,)),
    }
    assert {name for name, info in header.items() if not info.is_real} == {"count", "quantised"}


def test_a_parameter_under_two_names_is_refused(tmp_path: Path) -> None:
    for one, two in (("bert.x", "x"), ("a.LayerNorm.gamma", "a.LayerNorm.weight"), ("bert.y", "albert.y")):
        save_file({one: np.zeros(1), two: np.ones(1)}, tmp_path / WEIGHTS_FILE)
        with pytest.raises(UserError, match="two tensors for one parameter: remove the wrong one") as caught:
            read_header(tmp_path)
        assert repr(one) in str(caught.value)
        assert repr(two) in str(caught.value)


@pytest.mark.parametrize("shape", [(), (7,), (3, 5)])
def test_bfloat16_equals_that_of_pytorch(tmp_path: Path, shape: tuple[int, ...]) -> None:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(1)).bfloat16()
    save_torch_file({"before": torch.ones(3), "x": numbers, "behind": torch.ones(2)}, tmp_path / WEIGHTS_FILE)
    array = read_bfloat16(tmp_path / WEIGHTS_FILE, read_header(tmp_path)["x"])
    assert array.dtype == np.float32
    assert array.shape == shape
    assert np.array_equal(array, numbers.float().numpy())


def forged(fields: dict[str, Any]) -> bytes:
    header = json.dumps(fields).encode()
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no tensors at all",
        (1 << 62).to_bytes(8, "little") + b"{}",
        forged({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}),  # and not a byte of it
        forged({"x": {"dtype": "F32", "shape": [1 << 62], "data_offsets": [0, 0]}}),
        len(b"[" * 200_000).to_bytes(8, "little") + b"[" * 200_000,
    ],
    ids=["empty", "text", "long header", "cut", "large", "deep"],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / WEIGHTS_FILE).write_bytes(content)
    with pytest.raises(UserError, match=r"model\.safetensors is damaged \(.*copy the file again") as caught:
        read_header(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^no model\.safetensors in "):
        read_header(tmp_path)
    (tmp_path / WEIGHTS_FILE).mkdir()
    with pytest.raises(UserError, match=r"^cannot read .*model\.safetensors: Is a directory; check"):
        read_header(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    tensors = {"bert.x": torch.ones(2, 3), "y": torch.ones(4, dtype=torch.bfloat16), "z": torch.ones(1)}
    save_torch_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})
    return folder


@given(data=st.data())
def test_damage_anywhere_in_the_header_is_one_line_or_another_header(whole: Path, data: st.DataObject) -> None:
    content = bytearray((whole / WEIGHTS_FILE).read_bytes())
    end = 8 + int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, end - 1))] = data.draw(st.sampled_from([*b'0123456789[]{}",:', 0, 255]))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / WEIGHTS_FILE).write_bytes(content[:cut])
        tensors, message = {}, ""
        try:
            tensors = read_tensors(folder)
        except UserError as error:
            message = str(error)
        assert "\n" not in message
        shapes = {} if message else {name: info.shape for name, info in read_header(folder).items()}
    assert {name: array.shape for name, array in tensors.items()}.items() <= shapes.items()
