"""GluonNLP's files of a BERT, which the user has: ``.params`` and ``.vocab`` become a model folder in the cache.

GluonNLP kept both in one folder, ``~/.mxnet/models``, as ``<model>_<data set>-<digits>.params`` and
``<data set>-<digits>.vocab``; the digits begin the SHA-1 of the file, which GluonNLP lists and the table repeats. It
downloaded them from MXNet's own store, as zip files below ``gluon/models`` and ``gluon/dataset/vocab``. Nothing is
downloaded here: MXNet has been retired since 2023, and nobody promises that the store still answers.

A file of the published name must have the published SHA-1. A file of any other name may be of one's own training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from d2lbert.config.bert import BertConfig
from d2lbert.errors import UserError
from d2lbert.storage.cache import locked
from d2lbert.storage.files import read_json, remembered_sha256_of
from d2lbert.storage.places import cache_folder
from d2lbert.text.encoding import PAD
from d2lbert.text.gluonnlp import read_vocab
from d2lbert.text.tokenizer_json import SETTINGS_FILE, TOKENIZER_FILE, VOCABULARY_FILE
from d2lbert.text.wordpiece import WordPiece
from d2lbert.weights.bert import PRETRAINING_HEADS
from d2lbert.weights.folder import CONFIG_FILE, WEIGHTS_FILE, check_header, write_folder, write_json
from d2lbert.weights.gluonnlp import by_hugging_face_names, without_second_copy
from d2lbert.weights.mxnet_params import PARAMS_SUFFIX, read_array, read_params_header
from d2lbert.zoo.table import ModelEntry, entries

STORE = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/gluon"  # MXNet's own, in its version 1.9.1
_ORIGIN_FILE = "origin.json"


def is_params(path: str | Path) -> bool:
    """Whether a path names a ``.params`` file, or is a folder of such files, and no model folder."""
    path = Path(path)
    if path.is_dir():
        return not (path / CONFIG_FILE).is_file() and any(path.glob(f"*{PARAMS_SUFFIX}"))
    return path.suffix == PARAMS_SUFFIX


def entry_of_params(path: Path) -> ModelEntry:
    """Return the model that the name of a ``.params`` file tells: ``<model>_<data set>``, perhaps with digits.

    Raises:
        UserError: it tells none that GluonNLP had.
    """
    for entry in entries():
        if entry.gluonnlp and f"{entry.name}_{entry.dataset}" in (path.stem, path.stem.rpartition("-")[0]):
            return entry
    raise UserError(
        f"the name of {path} tells no model of GluonNLP: name the file as GluonNLP does, <model>_<data set>.params, or "
        "say which it is: get_model(model, data set, path=file)"
    )


def params_folder(entry: ModelEntry, path: Path) -> Path:
    """Return the folder of a model that was made of a ``.params`` file and the ``.vocab`` file beside it.

    It is made once, in the cache, and from then on used again, as long as its files are those that were written.

    Args:
        entry: the model; it tells the sizes, and whether case is folded.
        path: the ``.params`` file, or a folder that has it under the name that GluonNLP gave it.

    Raises:
        UserError: GluonNLP had no such BERT; a file is missing, damaged, not the published one in spite of its name, or
            does not fit the model.
    """
    if not entry.gluonnlp:
        raise UserError(
            f"GluonNLP had no BERT called {entry.label}: give a model folder, or the name of one that it had"
        )
    path = path / entry.params_file if path.is_dir() else path
    if not path.is_file():
        raise UserError(f"no file {path}: check the path")
    vocab = _vocab_file(entry, path)
    digests = {"params": _sha1(path), "vocab": _sha1(vocab)}
    _check_digest(path, digests["params"], entry.params_file, entry.gluonnlp["params"])
    _check_digest(vocab, digests["vocab"], entry.vocab_file, entry.gluonnlp["vocab"])
    folder = _cache_folder(entry, digests["params"])
    with locked(folder):
        if not _is_whole(folder, digests):
            _convert(entry, path, vocab, folder)
            write_json(folder / _ORIGIN_FILE, _origin(folder, digests))
    if digests["params"] != entry.gluonnlp["params"]:
        warnings.warn(
            f"{path} is not the file that GluonNLP published of {entry.label}: it is taken for your own training of it",
            stacklevel=4,
        )
    return folder


def converted_folder(entry: ModelEntry) -> Path | None:
    """Return the folder that :func:`params_folder` made earlier of the published file; None where it did not."""
    if not entry.gluonnlp:
        return None
    folder = _cache_folder(entry, entry.gluonnlp["params"])
    return folder if _is_whole(folder, entry.gluonnlp) else None


def advice(entry: ModelEntry) -> str:
    """Return where the files of a model were, and how to use them, for messages; "" where GluonNLP had none."""
    if not entry.gluonnlp:
        return ""
    files = f"{entry.params_file} and {entry.vocab_file}"
    return f"GluonNLP's {files}, once below {STORE}, are read if you have them: give the first as path= or --model"


def _vocab_file(entry: ModelEntry, path: Path) -> Path:
    """Return the vocabulary beside the weights: of the same name, or the published one."""
    own, published = path.with_suffix(".vocab"), path.with_name(entry.vocab_file)
    if own.is_file() or published.is_file():
        return own if own.is_file() else published
    raise UserError(
        f"{path} has no vocabulary beside it: put GluonNLP's {published.name} (or your own, as {own.name}) into "
        f"{path.parent}; a {VOCABULARY_FILE} may have other ids"
    )


def _check_digest(path: Path, found: str, published: str, known: str) -> None:
    """Refuse a file that has the name of a published one, and other bytes."""
    if path.name == published and found != known:
        raise UserError(
            f"{path} is not what GluonNLP published under this name (SHA-1 {found}, not {known}): it is damaged, "
            "copy it again; or, if it is of your own training, give it another name"
        )


def _convert(entry: ModelEntry, path: Path, vocab: Path, folder: Path) -> None:
    """Write the model folder; the weights are checked against the sizes before any is read."""
    tokenizer = WordPiece(read_vocab(vocab), entry.lowercase)
    config = _config(entry, tokenizer, vocab)
    header = by_hugging_face_names(read_params_header(path), path)
    expected = dataclasses.replace(entry, config=config).file_shapes()
    check_header(header, expected, path)
    tensors = without_second_copy({name: read_array(path, info) for name, info in header.items()}, path)
    fields: dict[str, Any] = {}
    if all(name in tensors for name in PRETRAINING_HEADS.values()):  # as BertForPretraining writes them
        fields = {"architectures": ["BertForPreTraining"], "tie_word_embeddings": True}
        tensors = {name if name.startswith("cls.") else f"bert.{name}": tensor for name, tensor in tensors.items()}
    write_folder(folder, config, tensors, fields)
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(folder)


def _config(entry: ModelEntry, tokenizer: WordPiece, vocab: Path) -> BertConfig:
    """Return the sizes, with as many embeddings as GluonNLP makes: one for each piece."""
    config, pieces = entry.config, len(tokenizer.vocab)
    assert isinstance(config, BertConfig)
    if not config.vocab_size - entry.unused_embeddings <= pieces <= config.vocab_size:
        raise UserError(f"{vocab} has {pieces:,} pieces, not {config.vocab_size:,}: it is of another model")
    return dataclasses.replace(config, vocab_size=pieces, pad_token_id=tokenizer.token_to_id[PAD])


def _cache_folder(entry: ModelEntry, sha1: str) -> Path:
    return cache_folder() / "models" / f"{entry.label.replace(':', '-')}-gluonnlp-{sha1[:8]}"


def _is_whole(folder: Path, digests: Mapping[str, str]) -> bool:
    """Whether a folder was made of files with these digests, and still has what was written then."""
    with contextlib.suppress(UserError):  # what says so may be missing or damaged
        return read_json(folder / _ORIGIN_FILE) == _origin(folder, digests)
    return False


def _origin(folder: Path, digests: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the digests of the files that a folder was made of, and those of the files in it."""
    files = [folder / name for name in (WEIGHTS_FILE, CONFIG_FILE, VOCABULARY_FILE, TOKENIZER_FILE, SETTINGS_FILE)]
    return {
        "sha1": dict(digests),
        "sha256": {file.name: remembered_sha256_of(file) for file in files if file.is_file()},
    }


def _sha1(path: Path) -> str:
    """Return the digest of a file; a process reads it again only after its modification time has changed."""
    try:
        return _sha1_at(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check its permissions") from None


@functools.cache
def _sha1_at(path: Path, modified: int) -> str:
    with path.open("rb") as stream:
        # It tells whole files from damaged ones, as GluonNLP's own check did; against malice SHA-1 is no help.
        return hashlib.file_digest(stream, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()
