"""Read MXNet's own file of arrays, ``.params``, without MXNet, into arrays of NumPy.

``mx.nd.save`` and Gluon's ``save_parameters`` write it. All numbers are little-endian:

* 8 bytes, the magic number 0x112, and 8 bytes that are zero;
* 8 bytes, how many arrays there are, then each array: 4 bytes, its magic number; 4, how it is stored (0: dense); 4, how
  many dimensions it has, then 8 for each of these; 4 + 4, the device that it was on; 4, the kind of its numbers; then
  the numbers themselves;
* 8 bytes, how many names there are, then each name: 8 bytes, its length; then its bytes.

Source: Apache MXNet 1.9.1, ``NDArray::Save``. Nothing in a file is believed: each size is compared with what is left of
the file before anything is read, so a damaged file neither takes much memory nor much time.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from d2lbert.errors import UserError
from d2lbert.weights.header import TensorInfo, read_bfloat16

PARAMS_SUFFIX = ".params"

_MAGIC = 0x112
_DENSE_ARRAY = 0xF993FAC9
_NUMPY_ARRAY = 0xF993FACA  # written while MXNet follows NumPy's shapes: a number alone, or an array without any
_MOST_DIMENSIONS = 32  # as in NumPy 1
_LEAST_BYTES = 32  # of an array and its name: 24 before its numbers, and the 8 of the name's length
_LONGEST_NAME = 4096  # bytes
# MXNet's number of each kind, its name in safetensors, and NumPy's. BF16 is read as in safetensors.
_KINDS = {
    0: ("F32", "<f4"),
    1: ("F64", "<f8"),
    2: ("F16", "<f2"),
    3: ("U8", "u1"),
    4: ("I32", "<i4"),
    5: ("I8", "i1"),
    6: ("I64", "<i8"),
    7: ("BOOL", "?"),
    8: ("I16", "<i2"),
    9: ("U16", "<u2"),
    10: ("U32", "<u4"),
    11: ("U64", "<u8"),
    12: ("BF16", "<u2"),
}
_DTYPES = {name: np.dtype(code) for name, code in _KINDS.values()}


def read_params_header(path: str | Path) -> dict[str, TensorInfo]:
    """Return what a ``.params`` file holds, by the names in it, in their order. No array is read.

    Raises:
        UserError: the file cannot be read, is damaged or no such file, or holds arrays that have no name or are sparse.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            return _Reader(stream, path).header()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path and its permissions") from None


def read_params(path: str | Path) -> dict[str, np.ndarray]:
    """Return the arrays of a ``.params`` file by their names: real numbers in float32, whole ones as they are.

    Raises:
        UserError: as :func:`read_params_header`.
    """
    path = Path(path)
    return {name: read_array(path, info) for name, info in read_params_header(path).items()}


def read_array(path: Path, info: TensorInfo) -> np.ndarray:
    """Return one array of a ``.params`` file, real numbers in float32.

    Args:
        path: the file.
        info: what :func:`read_params_header` says of the array.
    """
    if info.dtype == "BF16":
        return read_bfloat16(path, info)
    array = np.fromfile(path, _DTYPES[info.dtype], math.prod(info.shape), offset=info.start).reshape(info.shape)
    return array.astype(np.float32, copy=False) if info.is_real else array


class _Reader:
    """The header of one file, read from its beginning to its end."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path = stream, path
        self._left = path.stat().st_size

    def header(self) -> dict[str, TensorInfo]:
        if self._left < 24 or self._take("<Q", "its beginning")[0] != _MAGIC:
            raise UserError(f"{self._path} is no file of MXNet's arrays: give one that save_parameters has written")
        _, count = self._take("<QQ", "its beginning")
        if count * _LEAST_BYTES > self._left:
            raise self._damaged(f"it is too short for {count:,} arrays")
        arrays = [self._array(f"array {index + 1} of {count}") for index in range(count)]
        (names,) = self._take("<Q", "the names")
        if names == 0 < count:
            raise UserError(f"{self._path}: its arrays have no names: give a file that save_parameters has written")
        if names != count:
            raise self._damaged(f"it has {count:,} arrays and {names:,} names")
        header: dict[str, TensorInfo] = {}
        for kind, shape, start in arrays:
            name = self._name()
            if name in header:
                raise self._damaged(f"it has two arrays called {name!r}")
            header[name] = TensorInfo(name, kind, shape, start)
        if self._left:
            raise self._damaged(f"{self._left:,} bytes follow its end")
        return header

    def _array(self, what: str) -> tuple[str, tuple[int, ...], int]:
        """Return kind, shape and first byte of the next array, and go to what follows it."""
        magic, storage = self._take("<Ii", what)
        if magic not in (_DENSE_ARRAY, _NUMPY_ARRAY):
            raise self._damaged(f"{what} begins with {magic:#x}, which MXNet 1 does not write")
        if storage != 0:
            raise UserError(f"{self._path}: {what} is not stored dense ({storage}): save it by tostype('default')")
        (dimensions,) = self._take("<i", what)
        if not (magic == _DENSE_ARRAY) <= dimensions <= _MOST_DIMENSIONS:
            raise self._damaged(f"{what} has {dimensions} dimensions")
        shape = self._take(f"<{dimensions}q", what)
        if any(size < (magic == _DENSE_ARRAY) for size in shape):
            raise self._damaged(f"{what} has the shape {shape}")
        _, _, number = self._take("<iii", what)
        if number not in _KINDS:
            raise self._damaged(f"{what} has numbers of the unknown kind {number}")
        kind, start = _KINDS[number][0], self._stream.tell()
        self._skip(math.prod(shape) * _DTYPES[kind].itemsize, f"{what}, of shape {shape}")
        return kind, shape, start

    def _name(self) -> str:
        (length,) = self._take("<Q", "the names")
        if length > _LONGEST_NAME:
            raise self._damaged(f"a name is {length:,} bytes long")
        name = self._read(length, "the names")
        try:
            return name.decode("utf-8")
        except UnicodeDecodeError:
            raise self._damaged("a name is not UTF-8") from None

    def _take(self, layout: str, what: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self._read(struct.calcsize(layout), what))

    def _read(self, size: int, what: str) -> bytes:
        self._use(size, what)
        data = self._stream.read(size)
        if len(data) < size:  # somebody cuts the file while it is read
            raise self._damaged(f"it ends within {what}")
        return data

    def _skip(self, size: int, what: str) -> None:
        self._use(size, what)
        self._stream.seek(size, 1)

    def _use(self, size: int, what: str) -> None:
        if size > self._left:
            raise self._damaged(f"it ends within {what}")
        self._left -= size

    def _damaged(self, reason: str) -> UserError:
        return UserError(f"{self._path} is damaged ({reason}): copy the file again")
