"""Write MXNet's file of arrays without MXNet, for tests: what its own writer writes, and what no writer would."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from d2lbert.config.bert import BertConfig

DENSE, NUMPY = 0xF993FAC9, 0xF993FACA
# What NumPy calls MXNet's kinds of number, from 0 on.
_CODES = ("<f4", "<f8", "<f2", "|u1", "<i4", "|i1", "<i8", "|b1", "<i2", "<u2", "<u4", "<u8")
KINDS = {code: number for number, code in enumerate(_CODES)}


def array_header(shape: Sequence[int], number: int, magic: int = DENSE, storage: int = 0) -> bytes:
    """What stands before the numbers of an array."""
    sizes = struct.pack(f"<{len(shape)}q", *shape)
    return struct.pack("<Iii", magic, storage, len(shape)) + sizes + struct.pack("<iii", 1, 0, number)


def file_of(arrays: Sequence[bytes], names: Sequence[str]) -> bytes:
    """A whole file of arrays, each with its header, and names."""
    texts = [name.encode() for name in names]
    parts = [struct.pack("<QQQ", 0x112, 0, len(arrays)), *arrays, struct.pack("<Q", len(names))]
    return b"".join(parts + [struct.pack("<Q", len(text)) + text for text in texts])


def params_bytes(tensors: Mapping[str, np.ndarray], magic: int = DENSE) -> bytes:
    """The file of some arrays."""
    arrays = [
        array_header(array.shape, KINDS[array.dtype.newbyteorder("<").str], magic) + array.tobytes()
        for array in tensors.values()
    ]
    return file_of(arrays, list(tensors))


def write_params(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write the file of some arrays in float32, one after the other, so that it may be large."""
    with path.open("wb") as stream:
        stream.write(struct.pack("<QQQ", 0x112, 0, len(tensors)))
        for array in tensors.values():
            stream.write(array_header(array.shape, 0))
            stream.write(array.astype("<f4", copy=False).data)
        stream.write(file_of([], list(tensors))[24:])


def write_sparsely(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write arrays of zeros of any size; the disk stores none of the zeros."""
    with path.open("wb") as stream:
        stream.write(struct.pack("<QQQ", 0x112, 0, len(shapes)))
        for shape in shapes.values():
            stream.write(array_header(shape, 0))
            stream.seek(4 * int(np.prod(shape)), 1)
        stream.write(file_of([], list(shapes))[24:])


def gluonnlp_shapes(config: BertConfig, decoder: bool = True, classifier: bool = True) -> dict[str, tuple[int, ...]]:
    """The parameters of GluonNLP's BERT by its names, as its save_parameters writes them."""
    width, inner, words = config.hidden_size, config.intermediate_size, (config.vocab_size, config.hidden_size)
    shapes: dict[str, tuple[int, ...]] = {"encoder.position_weight": (config.max_position_embeddings, width)}
    shapes |= _norm("encoder.layer_norm", width)
    for layer in range(config.num_hidden_layers):
        cell = f"encoder.transformer_cells.{layer}"
        for part in ("query", "key", "value"):
            shapes |= _dense(f"{cell}.attention_cell.proj_{part}", width, width)
        shapes |= _dense(f"{cell}.proj", width, width) | _dense(f"{cell}.ffn.ffn_1", inner, width)
        shapes |= _dense(f"{cell}.ffn.ffn_2", width, inner) | _norm(f"{cell}.ffn.layer_norm", width)
        shapes |= _norm(f"{cell}.layer_norm", width)
    shapes |= {"word_embed.0.weight": words, "token_type_embed.0.weight": (config.type_vocab_size, width)}
    shapes |= _dense("pooler", width, width) | (_dense("classifier", 2, width) if classifier else {})
    if decoder:
        shapes |= _dense("decoder.0", width, width) | _norm("decoder.2", width)
        shapes |= {"decoder.3.weight": words, "decoder.3.bias": words[:1]}
    return shapes


def _dense(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.gamma": (width,), f"{name}.beta": (width,)}


def random_tensors(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, np.ndarray]:
    """Random numbers of these shapes; the decoder has the word embeddings."""
    generator = np.random.default_rng(seed)
    tensors = {
        name: (generator.standard_normal(shape, dtype=np.float32) * np.float32(0.1)) for name, shape in shapes.items()
    }
    if "decoder.3.weight" in tensors:
        tensors["decoder.3.weight"] = tensors["word_embed.0.weight"]
    return tensors


def vocab_json(vocab: Sequence[str], old: bool = False) -> dict[str, Any]:
    """What a ``.vocab`` file of GluonNLP holds, in its form before version 0.7 or since."""
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "padding_token": "[PAD]"}
    special_or_none: dict[str, str | None] = {**special, "bos_token": None, "eos_token": None}
    return {
        "idx_to_token": list(vocab),
        "token_to_idx": {piece: index for index, piece in enumerate(vocab)},
        "reserved_tokens": list(special.values()),
        "unknown_token": "[UNK]",
        **(special_or_none if old else {"identifiers_to_tokens": special_or_none}),
    }


def write_vocab(path: Path, vocab: Sequence[str]) -> None:
    """Write a ``.vocab`` file."""
    path.write_text(json.dumps(vocab_json(vocab)))
