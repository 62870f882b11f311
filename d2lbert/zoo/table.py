"""The table of pretrained models, ``data/zoo.toml``: which there are, and what a loader must know about each."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from d2lbert.config.bert import BertConfig
from d2lbert.config.gpt import GptConfig
from d2lbert.config.relatives import AlbertConfig, DistilBertConfig, PrunedBertConfig
from d2lbert.errors import UserError, unknown_name
from d2lbert.storage.places import home
from d2lbert.weights.bert import bert_file_shapes
from d2lbert.weights.gpt import gpt_file_shapes
from d2lbert.weights.relatives import albert_file_shapes, distilbert_file_shapes, pruned_bert_file_shapes

# Kind of network, as in the table and in ``config.json`` -> the class of its configuration.
CONFIGS: dict[str, type[BertConfig] | type[GptConfig]] = {
    "bert": BertConfig,
    "albert": AlbertConfig,
    "distilbert": DistilBertConfig,
    "pruned_bert": PrunedBertConfig,
    "gpt2": GptConfig,
}
_FILE_SHAPES: dict[str, Callable[[Any], dict[str, tuple[int, ...]]]] = {
    "bert": bert_file_shapes,
    "albert": albert_file_shapes,
    "distilbert": distilbert_file_shapes,
    "pruned_bert": pruned_bert_file_shapes,
    "gpt2": gpt_file_shapes,
}
_MOST_TEXT = 64_000_000  # bytes; the largest vocabularies have five million


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One pretrained model.

    Fields:
        name, dataset: as in GluonNLP's ``get_model``; the data set is empty where a name has only one.
        aliases: other labels of the entry.
        licence: as stated by its authors.
        citation: its key in ``references.bib``.
        source: ``"hub"``, ``"package"``, ``"book"``, or ``"none"`` where no public weights match the entry.
        kind: the network: ``"bert"``, ``"albert"``, ``"distilbert"``, ``"gpt2"``, ``"elmo"``, ``"transformer"`` or
            ``"seq2seq"``; or ``"adapter"``: a head and low-rank adapters for the encoder called ``name``, trained on
            ``dataset``.
        task: of an adapter, as the command line calls it.
        lowercase: whether its vocabulary was learned from text in lower case.
        config: the sizes of a BERT, one of its relatives or a GPT-2.
        unused_embeddings: how many of the last embeddings may have no piece in the vocabulary.
        vocabulary_file: for the hub: the file of the vocabulary, where it is not that of most models of the kind.
        repository, revision, weights: for the hub: the repository, its commit, and the file of the weights. For the
            book: the commit of its own repository, where the installed package leaves the model out.
        sha256: file name -> digest, where it is known.
        megabytes: size of the weights; 0 where there are none.
        package, folder: for a Python package or the book: the package to install, and the folder of the weights.
        checkout_only: of the book's own: it is in a checkout, but not in the installed package, since its licence does
            not allow every use, or for its size. :mod:`d2lbert.zoo.book` downloads it.
        reason, nearest: why there are no weights, and the label of the most similar entry.
        gluonnlp: the SHA-1 of the files that GluonNLP published of it, ``"params"`` and ``"vocab"``; empty where there
            are none that are read here.
        note: what a user should know.
        seen: data sets of the book that it met before: ``source``, the number of its ``pairs``, and which sets that
            ``touches``; empty where nothing is known.
    """

    name: str
    licence: str
    citation: str
    dataset: str = ""
    source: str = "hub"
    kind: str = "bert"
    task: str = ""
    lowercase: bool = True
    config: BertConfig | GptConfig = field(default_factory=BertConfig)
    aliases: tuple[str, ...] = ()
    unused_embeddings: int = 0
    vocabulary_file: str = ""
    repository: str = ""
    revision: str = ""
    weights: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    megabytes: int = 0
    package: str = ""
    folder: str = ""
    checkout_only: bool = False
    reason: str = ""
    nearest: str = ""
    gluonnlp: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    seen: Sequence[Mapping[str, Any]] = ()

    @property
    def label(self) -> str:
        """The name and the data set in one word, as the command line takes it."""
        return f"{self.name}{'-' if self.kind == 'adapter' else ':'}{self.dataset}" if self.dataset else self.name

    @property
    def vocabulary(self) -> str:
        """The file of the vocabulary on the hub."""
        if self.vocabulary_file:
            return self.vocabulary_file
        return "tokenizer.json" if self.kind in ("albert", "gpt2") else "vocab.txt"

    @property
    def params_file(self) -> str:
        """What GluonNLP called its file of the weights; only of a model with its digest in :attr:`gluonnlp`."""
        return f"{self.name}_{self.dataset}-{self.gluonnlp['params'][:8]}.params"

    @property
    def vocab_file(self) -> str:
        """What GluonNLP called its file of the vocabulary; only of a model with its digest in :attr:`gluonnlp`."""
        return f"{self.dataset}-{self.gluonnlp['vocab'][:8]}.vocab"

    @property
    def in_table(self) -> bool:
        """Whether the table tells what the model is; otherwise its own files do."""
        return bool(self.licence)

    def file_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor of the encoder, by its name in the file of the weights."""
        return _FILE_SHAPES[self.kind](self.config)

    def most_bytes(self, name: str) -> int:
        """Return a size that no file of the model reaches: twice that of its numbers, or some megabytes for a text."""
        if name != self.weights:
            return _MOST_TEXT
        numbers = [math.prod(shape) for shape in self.file_shapes().values()]
        # An output layer may be there, as large as the embeddings.
        return 8 * (sum(numbers) + max(numbers)) + _MOST_TEXT


def entries() -> tuple[ModelEntry, ...]:
    """Return all entries, in the order of the table."""
    return _read(home() / "zoo.toml")


def find_entry(name: str, dataset: str | None = None) -> ModelEntry:
    """Return the entry of a model.

    Args:
        name: such as ``"bert_tiny"``, or with the data set, ``"bert_12_768_12:wiki_cn_cased"``, ``"minilm-sst2"``.
        dataset: the data set, where it is not in the name. A name with only one data set needs none; nor does an
            encoder for which there are adapters, which have data sets.

    Raises:
        UserError: the name or data set is unknown (the message names similar ones), or the name has several data sets
            and none is given.
    """
    for entry in entries():
        if (name if dataset is None else f"{name}:{dataset}") in entry.aliases:
            return entry
    if dataset is None and (labelled := [entry for entry in entries() if entry.label == name]):
        return labelled[0]
    name, colon, suffix = name.partition(":")
    requested = dataset if dataset is not None else suffix if colon else None
    candidates = [entry for entry in entries() if entry.name == name]
    if not candidates:
        for absent in _absent(home() / "zoo.toml"):
            if name.lower().replace("-", "_").startswith(tuple(absent["begins"])):
                raise UserError(f"the zoo has no {name}: {absent['why']}")
        adapters = {entry.label for entry in entries() if entry.kind == "adapter"}
        raise unknown_name("model", name, {entry.name for entry in entries()} | adapters)
    datasets = [entry.dataset for entry in candidates]
    if requested is None and len(candidates) == 1:
        return candidates[0]
    if requested is None:
        choices = ", ".join(datasets)
        raise UserError(
            f"model {name!r} has several data sets: choose a dataset_name, as in {candidates[0].label}, of {choices}"
        )
    if datasets == [""]:
        raise UserError(f"model {name!r} has no data set {requested!r}: leave dataset_name out")
    if requested not in datasets:
        raise unknown_name(f"data set of {name}", requested, [known for known in datasets if known])
    return candidates[datasets.index(requested)]


@functools.cache
def _read(path: Path) -> tuple[ModelEntry, ...]:
    try:
        return tuple(_entry(table) for table in _tables(path)["model"])
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; install d2lbert again") from None
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise UserError(f"{path} is not a table of models: {error}; restore the file") from None


@functools.cache
def _absent(path: Path) -> tuple[dict[str, Any], ...]:
    """Return the models that the zoo does not have although readers may look for them: how names begin, and why."""
    return tuple(_tables(path)["absent"])


def _tables(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _entry(table: dict[str, Any]) -> ModelEntry:
    config = CONFIGS.get(table.get("kind", "bert"), BertConfig)
    changes = {"config": config.from_dict(table.get("config", {})), "aliases": tuple(table.get("aliases", ()))}
    return ModelEntry(**{**table, **changes})
