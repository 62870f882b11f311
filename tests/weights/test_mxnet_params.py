"""MXNet's file of arrays, read without MXNet: what MXNet wrote, and damage of every kind."""

from __future__ import annotations

import struct
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from params_support import DENSE, NUMPY, array_header, file_of, params_bytes

from d2lbert import UserError
from d2lbert.weights.mxnet_params import read_params, read_params_header

DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
SOME = {
    "encoder.position_weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "word_embed.0.weight": np.array([[0.5, -1.25]], dtype=np.float16),
    "counts é": np.array([1, -2, 3], dtype=np.int64),
}
WHOLE = params_bytes(SOME)


def read_bytes(data: bytes) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.params"
        path.write_bytes(data)
        return read_params(path)


def refusal_of(data: bytes) -> str:
    """The message, which must be one line that names the file and says what to do."""
    with pytest.raises(UserError) as caught:
        read_bytes(data)
    message = str(caught.value)
    assert "\n" not in message
    assert "x.params" in message
    assert ": copy the file again" in message or ": give " in message or ": save it " in message
    return message


def test_names_kinds_and_shapes_come_without_the_arrays(tmp_path: Path) -> None:
    (tmp_path / "x.params").write_bytes(WHOLE)
    header = read_params_header(tmp_path / "x.params")
    assert [(name, info.dtype, info.shape) for name, info in header.items()] == [
        ("encoder.position_weight", "F32", (2, 3)),
        ("word_embed.0.weight", "F16", (1, 2)),
        ("counts é", "I64", (3,)),
    ]


def test_real_numbers_become_float32_and_whole_ones_stay() -> None:
    arrays = read_bytes(WHOLE)
    assert {name: array.dtype for name, array in arrays.items()} == dict(
        zip(SOME, (np.float32, np.float32, np.int64), strict=True)
    )
    assert all(np.array_equal(arrays[name], SOME[name]) for name in SOME)
    assert read_bytes(params_bytes({})) == {}


def test_bfloat16() -> None:
    numbers = np.array([1.5, -2.0, 3.0e10], dtype=np.float32)
    upper = (numbers.view(np.uint32) >> 16).astype("<u2")
    array = read_bytes(file_of([array_header((3,), 12) + upper.tobytes()], ["a"]))["a"]
    np.testing.assert_allclose(array, numbers, rtol=0.01)


def test_a_number_alone_and_an_array_without_any_are_of_numpys_kind() -> None:
    alone, empty = np.array(2.5, dtype=np.float32), np.zeros((0, 3), dtype=np.float32)
    arrays = read_bytes(params_bytes({"alone": alone, "empty": empty}, NUMPY))
    assert arrays["alone"] == 2.5
    assert arrays["alone"].shape == ()
    assert arrays["empty"].shape == (0, 3)
    assert "has 0 dimensions" in refusal_of(params_bytes({"alone": alone}))
    assert "has the shape (0, 3)" in refusal_of(params_bytes({"empty": empty}))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_mxnet_writes_and_reads(dtype: str, tmp_path: Path) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    from mxnet import nd

    values = np.array([[[0, 1, 3], [2, 0, 1]]]).astype(dtype)
    nd.save(str(tmp_path / "x.params"), {"a": nd.array(values, dtype=dtype), "b.c": nd.zeros((4,), dtype=dtype)})
    arrays = read_params(tmp_path / "x.params")
    assert np.array_equal(arrays["a"], values)
    assert arrays["b.c"].shape == (4,)
    ours = params_bytes({"a": values, "b.c": np.zeros(4, dtype)})
    assert (tmp_path / "x.params").read_bytes() == ours  # so the files of the tests below are MXNet's


def test_what_gluon_writes(tmp_path: Path) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    from mxnet.gluon import nn

    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.LayerNorm(in_channels=3))
    net.initialize()
    net.save_parameters(str(tmp_path / "x.params"))
    arrays = read_params(tmp_path / "x.params")
    assert list(arrays) == ["0.weight", "0.bias", "1.gamma", "1.beta"]
    for name, parameter in net._collect_params_with_prefix().items():
        assert np.array_equal(arrays[name], parameter.data().asnumpy())


def test_numpys_kind_and_sparse_arrays_of_mxnet(tmp_path: Path) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    import mxnet as mx

    path = tmp_path / "x.params"
    with mx.util.np_shape(True):
        mx.nd.save(str(path), {"alone": mx.nd.array(np.float32(3)), "two": mx.nd.ones((2,))})
    assert path.read_bytes()[24:28] == struct.pack("<I", NUMPY)
    assert {name: array.tolist() for name, array in read_params(path).items()} == {"alone": 3.0, "two": [1.0, 1.0]}
    mx.nd.save(str(path), {"a": mx.nd.array([[0, 1]]).tostype("csr")})
    assert r"is not stored dense (2): save it by" in refusal_of(path.read_bytes())
    mx.nd.save(str(path), [mx.nd.ones((2,))])
    assert "its arrays have no names: give a file" in refusal_of(path.read_bytes())


ONE = np.ones(1, dtype=np.float32).tobytes()
DAMAGED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is no file of MXNet's arrays"),
    "text": (b"PK" + bytes(100), "is no file of MXNet's arrays"),
    "safetensors": (struct.pack("<Q", 64) + b'{"a":{}}' + bytes(64), "is no file of MXNet's arrays"),
    "another magic": (file_of([array_header((1,), 0, 0xF993FAC8) + ONE], ["a"]), "begins with 0xf993fac8"),
    "kind of number": (file_of([array_header((1,), 99) + ONE], ["a"]), "unknown kind 99"),
    "negative kind": (file_of([array_header((1,), -1) + ONE], ["a"]), "unknown kind -1"),
    "storage": (file_of([array_header((1,), 0, DENSE, -1) + ONE], ["a"]), r"is not stored dense (-1)"),
    "negative size": (file_of([array_header((-1, -1), 0) + ONE], ["a"]), "has the shape (-1, -1)"),
    "huge size": (file_of([array_header((2**62,), 0) + ONE], ["a"]), "it ends within array 1 of 1"),
    "overflowing sizes": (file_of([array_header((2**32, 2**32), 0) + ONE], ["a"]), "it ends within array 1 of 1"),
    "no dimension": (file_of([array_header((), 0) + ONE], ["a"]), "has 0 dimensions"),
    "dimensions": (file_of([array_header((1,) * 33, 0) + ONE], ["a"]), "has 33 dimensions"),
    "billions of arrays": (struct.pack("<QQQ", 0x112, 0, 2**63) + WHOLE[24:], "it is too short for 9,223,"),
    "an array too many": (struct.pack("<QQQ", 0x112, 0, 4) + WHOLE[24:], "array 4 of 4 begins with 0x3"),
    "fewer names": (file_of([array_header((1,), 0) + ONE] * 2, ["a"]), "it has 2 arrays and 1 names"),
    "more names": (file_of([array_header((1,), 0) + ONE], ["a", "b"]), "it has 1 arrays and 2 names"),
    "two of one name": (file_of([array_header((1,), 0) + ONE] * 2, ["a", "a"]), "two arrays called 'a'"),
    "a long name": (WHOLE[:-17] + struct.pack("<Q", 2**60) + bytes(9), "a name is 1,152,921,504,606,846,976 bytes"),
    "a name cut off": (WHOLE[:-1], "it ends within the names"),
    "a name in Latin-1": (WHOLE[:-2] + b"\xff\xff", "a name is not UTF-8"),
    "what follows": (WHOLE + b"\0", "1 bytes follow its end"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage(name: str) -> None:
    data, message = DAMAGED[name]
    assert message in refusal_of(data)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.params", tmp_path):
        with pytest.raises(UserError, match=r"^cannot read .*; check the path"):
            read_params(path)


@given(st.integers(0, len(WHOLE) - 1))
def test_a_truncated_file_is_refused(length: int) -> None:
    refusal_of(WHOLE[:length])


def read_or_refuse(data: bytes) -> None:
    """The only outcomes: arrays no larger than the file, or one clear message; and little memory either way."""
    arrays: dict[str, np.ndarray] = {}
    refusal = None
    tracemalloc.start()
    try:
        arrays = read_bytes(data)
    except UserError as error:
        refusal = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert refusal is None or ("\n" not in refusal and "x.params" in refusal)
    assert sum(array.size for array in arrays.values()) <= len(data)
    assert peak < 20 * len(data) + 500_000


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte(place: int, change: int) -> None:
    data = bytearray(WHOLE)
    data[place] ^= change
    read_or_refuse(bytes(data))


@given(st.integers(0, len(WHOLE) // 4 - 2), st.binary(min_size=8, max_size=8) | st.sampled_from([b"\xff" * 8]))
def test_changed_sizes(place: int, number: bytes) -> None:
    read_or_refuse(WHOLE[: 4 * place] + number + WHOLE[4 * place + 8 :])


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes(data: bytes, as_arrays: bool) -> None:
    read_or_refuse(struct.pack("<QQ", 0x112, 0) + data if as_arrays else data)


@given(st.data())
def test_a_piece_taken_out_or_doubled(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(WHOLE) - 1))
    end = data.draw(st.integers(start + 1, len(WHOLE)))
    doubled = data.draw(st.booleans())
    read_or_refuse(WHOLE[:end] + WHOLE[start:] if doubled else WHOLE[:start] + WHOLE[end:])
