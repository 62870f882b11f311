"""What a file of safetensors holds, read without the tensors themselves: their names, kinds of number and shapes.

So a file is checked against a configuration before any memory is taken for a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from d2lbert.errors import UserError

WEIGHTS_FILE = "model.safetensors"
REAL_NUMBERS = ("F64", "F32", "F16", "BF16")  # what safetensors calls them; all become float32


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of a file.

    Fields:
        name: as it stands in the file.
        dtype: the kind of number, in the words of safetensors, such as ``"F32"`` or ``"BF16"``.
        shape: of the tensor.
        start: the place of its first byte in the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def is_real(self) -> bool:
        """Whether it holds real numbers that this package reads."""
        return self.dtype in REAL_NUMBERS


def canonical_name(name: str) -> str:
    """Return a tensor's name in Hugging Face's current spelling and without the encoder's prefix, such as ``bert.``.

    Old files have TensorFlow's ``gamma`` and ``beta`` for weight and bias of LayerNorm.
    """
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    return re.sub(r"^(bert|ernie|albert|distilbert|pruned_bert)\.", "", name)


def read_header(folder: str | Path, name: str = WEIGHTS_FILE) -> dict[str, TensorInfo]:
    """Return what a file of safetensors in a model folder holds, by canonical names. No tensor is read.

    Raises:
        UserError: the file is missing, cannot be read, is damaged, or holds a tensor twice under two names.
    """
    path = Path(folder) / name
    length, fields = _read_fields(path)
    infos = [
        TensorInfo(name, field["dtype"], tuple(field["shape"]), 8 + length + field["data_offsets"][0])
        for name, field in fields.items()
        if name != "__metadata__"
    ]
    return by_canonical_names(infos, path)


def by_canonical_names(infos: Iterable[TensorInfo], path: Path) -> dict[str, TensorInfo]:
    """Return the tensors of a file by their canonical names.

    Raises:
        UserError: two tensors have one canonical name.
    """
    header: dict[str, TensorInfo] = {}
    for info in infos:
        canonical = canonical_name(info.name)
        if canonical in header:
            raise UserError(
                f"{path} holds {header[canonical].name!r} and {info.name!r}, two tensors for one parameter: "
                "remove the wrong one"
            )
        header[canonical] = info
    return header


def _read_fields(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the length of the header in bytes, and the header."""
    try:
        with path.open("rb") as file, safe_open(path, "np"):  # opening it checks the header and the file's length
            length = int.from_bytes(file.read(8), "little")
            return length, json.loads(file.read(length))
    except FileNotFoundError:
        raise UserError(
            f"no {path.name} in {path.parent}: give a folder in Hugging Face's layout with safetensors weights"
        ) from None
    except SafetensorError as error:
        raise UserError(f"{path} is damaged ({error}): copy the file again") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check its permissions") from None


def read_bfloat16(path: Path, info: TensorInfo) -> np.ndarray:
    """Return a tensor of bfloat16 in float32. NumPy lacks the type: its 16 bits are the upper half of a float32."""
    upper = np.fromfile(path, dtype="<u2", count=int(np.prod(info.shape)), offset=info.start)
    return (upper.astype(np.uint32) << 16).view(np.float32).reshape(info.shape)
