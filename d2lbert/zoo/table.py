"""The table of pretrained models, ``data/zoo.toml``: what there is, and what a loader must know of it."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from d2lbert.config.bert import BertConfig
from d2lbert.config.relatives import AlbertConfig, DistilBertConfig
from d2lbert.errors import UserError, unknown_name
from d2lbert.storage.places import home

# The kind of a network, as in the table and in ``config.json``, and the class of its sizes.
CONFIGS: dict[str, type[BertConfig]] = {"bert": BertConfig, "albert": AlbertConfig, "distilbert": DistilBertConfig}


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One pretrained model.

    Fields:
        name, dataset: as in GluonNLP's ``get_model``; the data set is empty where a name has only one.
        licence: as its authors state it.
        citation: its key in ``references.bib``.
        source: ``"hub"``, ``"package"``, ``"book"``, or ``"none"`` where no public weights equal the entry.
        kind: the network: ``"bert"``, ``"albert"``, ``"distilbert"`` or ``"elmo"``.
        lowercase: whether its vocabulary was made of text in lower case.
        config: the sizes of a BERT or one of its relatives.
        repository, revision, weights: of the hub: the repository, its commit, and the file of the weights.
        sha256: file name -> digest, where it is known.
        megabytes: of the weights; 0 where there are none.
        package, folder: of a Python package or of the book: its name, and the folder inside.
        reason, nearest: why there are no weights, and the label of the entry that comes nearest.
        note: what a user should know.
    """

    name: str
    licence: str
    citation: str
    dataset: str = ""
    source: str = "hub"
    kind: str = "bert"
    lowercase: bool = True
    config: BertConfig = field(default_factory=BertConfig)
    repository: str = ""
    revision: str = ""
    weights: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    megabytes: int = 0
    package: str = ""
    folder: str = ""
    reason: str = ""
    nearest: str = ""
    note: str = ""

    @property
    def label(self) -> str:
        """The name and the data set in one word, as the command line takes it."""
        return f"{self.name}:{self.dataset}" if self.dataset else self.name

    @property
    def vocabulary(self) -> str:
        """The file of the vocabulary on the hub."""
        return "tokenizer.json" if self.kind == "albert" else "vocab.txt"


def entries() -> tuple[ModelEntry, ...]:
    """Return the whole table, in its order."""
    return _read(home() / "zoo.toml")


def find_entry(name: str, dataset: str | None = None) -> ModelEntry:
    """Return the entry of a model.

    Args:
        name: such as ``"bert_tiny"``, or with the data set, ``"bert_12_768_12:wiki_cn_cased"``.
        dataset: the data set, where it is not in the name. A name with one data set alone needs none.

    Raises:
        UserError: an unknown name or data set, with the nearest ones; or a name with several data sets and none given.
    """
    name, colon, inside = name.partition(":")
    wanted = dataset if dataset is not None else inside if colon else None
    known = [entry for entry in entries() if entry.name == name]
    if not known:
        raise unknown_name("model", name, {entry.name for entry in entries()})
    datasets = [entry.dataset for entry in known]
    if wanted is None and len(known) == 1:
        return known[0]
    if wanted is None:
        choices = ", ".join(datasets)
        raise UserError(
            f"model {name!r} has several data sets: choose a dataset_name, as in {known[0].label}, of {choices}"
        )
    if datasets == [""]:
        raise UserError(f"model {name!r} has no data set {wanted!r}: leave dataset_name out")
    if wanted not in datasets:
        raise unknown_name(f"data set of {name}", wanted, datasets)
    return known[datasets.index(wanted)]


@functools.cache
def _read(path: Path) -> tuple[ModelEntry, ...]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        return tuple(_entry(table) for table in tables["model"])
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; install d2lbert again") from None
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise UserError(f"{path} is not a table of models: {error}; restore the file") from None


def _entry(table: dict[str, Any]) -> ModelEntry:
    config = CONFIGS.get(table.get("kind", "bert"), BertConfig)
    return ModelEntry(**{**table, "config": config.from_dict(table.get("config", {}))})
