"""A tokenised corpus on disk: shards of plain arrays, opened as memory maps, with an index and checksums.

A folder holds ``index.json``, the tokenizer (``vocab.txt``, ``tokenizer_config.json``) and for each shard three NumPy
files: ``.tokens`` (T,), the token ids of all its documents one after the other; ``.sentences`` (S + 1,), the token at
which each sentence begins, and the end; ``.documents`` (N + 1,), the sentence at which each document begins, and the
end.

The text alone decides which document goes into which shard, so any number of processes writes the same bytes. The index
may tell what the shards were made from: see :mod:`d2lbert.data.pretraining.origin`.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from d2lbert.config.settings import Settings, setting
from d2lbert.data.examples import Document
from d2lbert.data.pretraining.corpus import read_documents
from d2lbert.data.pretraining.tokenizing import CorpusTokenizer
from d2lbert.errors import UserError
from d2lbert.storage.claims import contents
from d2lbert.storage.files import atomic, read_json, remove_unfinished, sha256_of, writable_folder, write_text
from d2lbert.text import WordPiece

INDEX_FILE = "index.json"
ORIGIN = "origin"  # in the index
FORMAT = "d2lbert tokens 1"
SPLITS = ("train", "dev")
_PARTS = ("tokens", "sentences", "documents")
_SHARD = re.compile(rf"({'|'.join(SPLITS)})-\d+-\d+")
_SHARD_FILE = re.compile(rf"{_SHARD.pattern}\.({'|'.join(_PARTS)})\.npy")
_SHARD_CHARACTERS = 16_000_000  # some 3.5 M tokens of English
_CHUNK_CHARACTERS = 1_000_000  # the text that is tokenised at a time
_HASHES = 10_000


class Shard(NamedTuple):
    """The three arrays of a shard; see the docstring of this module."""

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray


@dataclass(frozen=True)
class Preparation(Settings):
    """How a corpus becomes shards."""

    kind: ClassVar[str] = "preparation"

    # A document's own text decides whether it is held out, so a second copy of it goes the same way.
    dev_share: float = setting(
        0.01, "share of documents held out: training never sees them, validation does", at_least=0, below=1
    )
    shard_characters: int = setting(
        _SHARD_CHARACTERS, "a shard ends with the document that reaches so many characters", at_least=1
    )


def prepare(
    files: Sequence[Path],
    out: str | Path,
    tokenizer: WordPiece,
    settings: Preparation | None = None,
    workers: int = 1,
    origin: dict[str, Any] | None = None,
) -> TokenShards:
    """Tokenise a corpus into a folder of shards, and open the folder.

    The index is written last: a folder without one is unfinished, and the next run fills it again.

    Args:
        files: of the corpus; each becomes shards of its own. See :func:`d2lbert.data.pretraining.corpus.corpus_files`.
        out: the folder, created if necessary.
        tokenizer: the tokenizer to use; it is saved in the folder.
        settings: how the corpus becomes shards; None for the defaults.
        workers: the number of processes among which the files are divided.
        origin: what the shards are made from, to be kept in the index.

    Raises:
        UserError: the corpus cannot be read or holds no text, or the folder cannot be written.
    """
    folder = begin(out, tokenizer)
    job = partial(prepare_file, out=folder, tokenizer=tokenizer, settings=settings or Preparation())
    if workers > 1:
        # Fresh processes: a fork of this process could inherit a lock that one of its threads holds.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            entries = list(pool.map(job, range(len(files)), files))
    else:
        entries = [job(number, file) for number, file in enumerate(files)]
    return write_index(folder, tokenizer, entries, origin)


def begin(out: str | Path, tokenizer: WordPiece) -> Path:
    """Create the folder of the shards, or remove the index and all shards from it, and save the tokenizer in it.

    Raises:
        UserError: the folder cannot be written.
    """
    folder = writable_folder(out)
    (folder / INDEX_FILE).unlink(missing_ok=True)
    remove_unfinished(folder)
    for path in folder.iterdir():
        if _SHARD_FILE.fullmatch(path.name):
            path.unlink()
    tokenizer.save_pretrained(folder)
    return folder


def foreign_files(folder: Path) -> list[Path]:
    """Return what a folder holds that is not of shards, finished or not; nothing where there is no folder."""
    ours = (INDEX_FILE, "vocab.txt", "tokenizer.json", "tokenizer_config.json")
    return [path for path in contents(folder) if path.name not in ours and not _SHARD_FILE.fullmatch(path.name)]


def write_index(
    folder: Path,
    tokenizer: WordPiece,
    entries: Iterable[list[dict[str, Any]]],
    origin: dict[str, Any] | None = None,
) -> TokenShards:
    """Write ``index.json`` from the entries of each file, and open the folder.

    Args:
        folder: the folder of the shards.
        tokenizer: the tokenizer that made them.
        entries: for each file of the corpus, what :func:`prepare_file` returned.
        origin: as in :func:`prepare`.

    Raises:
        UserError: there is no text to train on.
    """
    shards = [entry for file_entries in entries for entry in file_entries]
    if not sum(entry["tokens"] for entry in shards if entry["split"] == "train"):
        raise UserError("the corpus holds no text to train on: give files with one paragraph a line")
    index: dict[str, Any] = {
        "format": FORMAT,
        "vocab_size": len(tokenizer.vocab),
        **{count: sum(entry[count] for entry in shards) for count in _PARTS},
        "shards": shards,
    }
    if origin is not None:
        index[ORIGIN] = origin
    write_text(folder / INDEX_FILE, json.dumps(index, indent=1) + "\n")
    return TokenShards.open(folder, verify=False)


def prepare_file(
    number: int, file: Path, out: Path, tokenizer: WordPiece, settings: Preparation
) -> list[dict[str, Any]]:
    """Tokenise one file of a corpus into its shards, and return their entries for the index.

    Args:
        number: the index of the file in the corpus; it is part of the shards' names.
        file: one file of the corpus.
        out: the folder, made by :func:`begin`.
        tokenizer: the tokenizer to use.
        settings: how the corpus becomes shards.

    Raises:
        UserError: the file is missing, damaged or not UTF-8.
    """
    corpus_tokenizer = CorpusTokenizer(tokenizer)
    entries = []
    for part, documents in enumerate(_cut(read_documents([file]), settings.shard_characters)):
        held_out = [_hash(document) < settings.dev_share * _HASHES for document in documents]
        for split, is_dev in (("train", False), ("dev", True)):
            selected = [document for document, held in zip(documents, held_out, strict=True) if held is is_dev]
            shard = _tokenize(selected, corpus_tokenizer)
            if len(shard.tokens):
                entries.append(_write(out, f"{split}-{number:05}-{part:05}", split, shard))
    return entries


def _hash(document: Document) -> int:
    return zlib.crc32(document.text.encode("utf-8", "surrogatepass")) % _HASHES


def _cut(documents: Iterable[Document], characters: int) -> Iterator[list[Document]]:
    """Cut a stream of documents into lists of about ``characters`` characters."""
    collected: list[Document] = []
    size = 0
    for document in documents:
        collected.append(document)
        size += len(document.text)
        if size >= characters:
            yield collected
            collected, size = [], 0
    if collected:
        yield collected


def _tokenize(documents: list[Document], tokenizer: CorpusTokenizer) -> Shard:
    """Return the arrays of a shard. A document without any token is left out."""
    ids, lengths, counts = [], [], []
    for chunk in _cut(documents, _CHUNK_CHARACTERS):
        text = tokenizer.encode_paragraphs([paragraph for document in chunk for paragraph in document.paragraphs])
        last = np.cumsum([len(document.paragraphs) for document in chunk])
        document_sentences = np.diff(np.cumsum(text.paragraph_sentences)[last - 1], prepend=0)
        ids.append(text.ids)
        lengths.append(text.sentence_lengths)
        counts.append(document_sentences[document_sentences > 0])
    dtype = np.uint16 if len(tokenizer.tokenizer.vocab) <= 2**16 else np.uint32
    tokens = np.concatenate([np.zeros(0, dtype=np.int32), *ids]).astype(dtype)
    return Shard(tokens, _edges(lengths), _edges(counts))


def _edges(lengths: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.concatenate([[0], *lengths]))[1:]]).astype(np.int64)


def _write(out: Path, name: str, split: str, shard: Shard) -> dict[str, Any]:
    digests = {}
    for part, array in shard._asdict().items():
        path = out / f"{name}.{part}.npy"
        with atomic(path) as temporary, temporary.open("wb") as stream:
            np.save(stream, array, allow_pickle=False)
        digests[part] = sha256_of(path)
    counts = {"tokens": len(shard.tokens), "sentences": len(shard.sentences) - 1, "documents": len(shard.documents) - 1}
    return {"name": name, "split": split, **counts, "sha256": digests}


def _is_index(index: dict[str, Any]) -> bool:
    """Whether a JSON object has the form of an index."""
    shards = index.get("shards")
    return isinstance(shards, list) and all(isinstance(entry, dict) and _is_entry(entry) for entry in shards)


def _is_entry(entry: dict[str, Any]) -> bool:
    digests = entry.get("sha256")
    return (
        _SHARD.fullmatch(str(entry.get("name"))) is not None
        and entry.get("split") in SPLITS
        and all(isinstance(entry.get(part), int) for part in _PARTS)
        and isinstance(digests, dict)
        and all(part in digests for part in _PARTS)
    )


class TokenShards:
    """An opened folder of shards. Nothing is read into memory until it is used.

    Fields:
        folder: its path.
        index: the content of ``index.json``: counts, and an entry for each shard.
    """

    def __init__(self, folder: Path, index: dict[str, Any]) -> None:
        self.folder = folder
        self.index = index

    @classmethod
    def open(cls, folder: str | Path, verify: bool = True) -> TokenShards:
        """Open a folder that :func:`prepare` has written.

        Args:
            folder: its path.
            verify: check the checksum of every file first; this takes a second or two for each gigabyte.

        Raises:
            UserError: it is not such a folder, or a file is missing or damaged.
        """
        path = Path(folder)
        index = read_json(path / INDEX_FILE)
        if index.get("format") != FORMAT:
            raise UserError(f"{path / INDEX_FILE} is not of format {FORMAT!r}: prepare the corpus again")
        if not _is_index(index):
            raise UserError(
                f"{path / INDEX_FILE} is damaged (it does not describe the shards): prepare the corpus again"
            )
        for entry in index["shards"] if verify else []:
            for part in _PARTS:
                file = path / f"{entry['name']}.{part}.npy"
                if not file.is_file():
                    raise UserError(f"{file} is missing: prepare the corpus again")
                if sha256_of(file) != entry["sha256"][part]:
                    raise UserError(f"{file} is damaged (wrong sha256): prepare the corpus again")
        return cls(path, index)

    def digest(self) -> str:
        """Return a checksum of the whole corpus, tokens and vocabulary, wherever it came from."""
        index = {name: value for name, value in self.index.items() if name != ORIGIN}
        content = json.dumps(index, sort_keys=True) + "\n".join(self.tokenizer().vocab)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def tokenizer(self) -> WordPiece:
        """Return the tokenizer that made the shards."""
        return WordPiece.from_pretrained(self.folder)

    def names(self, split: str) -> list[str]:
        """Return the names of the shards of ``"train"`` or ``"dev"``, in the order of the corpus."""
        return [entry["name"] for entry in self.index["shards"] if entry["split"] == split]

    def count(self, split: str, what: str) -> int:
        """Return the number of ``"tokens"``, ``"sentences"`` or ``"documents"`` of a split."""
        return sum(entry[what] for entry in self.index["shards"] if entry["split"] == split)

    def load(self, name: str) -> Shard:
        """Map a shard into memory, read-only."""
        arrays = (np.load(self.folder / f"{name}.{part}.npy", mmap_mode="r", allow_pickle=False) for part in _PARTS)
        # A plain view: slicing numpy.memmap itself costs ten times as much.
        return Shard(*(array.view(np.ndarray) for array in arrays))
