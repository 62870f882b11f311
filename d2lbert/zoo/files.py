"""The files of pretrained models: taken from the cache or downloaded from the hub, verified, in the book's layout.

A folder in the cache holds the vocabulary and the weights as they are on the hub, ``config.json`` and
``tokenizer_config.json`` made from the table, and ``origin.json``: where the files come from and the sha256 of each.
Every load compares the digests.

Not every digest is known beforehand. Where it is not, the first download is read: its vocabulary and its tensors must
have the sizes that the table tells. Then it is trusted and its sha256 recorded; from then on only that file is
accepted. This is "trust on first use": it notices a later change, and what is no such model at all, but not other
numbers in the first download. The commit of the repository is fixed in any case.

``$D2LBERT_HUB`` names another hub, such as a mirror; ``D2LBERT_OFFLINE=1`` forbids the network; ``$D2LBERT_CACHE``
moves the cache.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from d2lbert.config.gpt import GptConfig
from d2lbert.errors import UserError
from d2lbert.storage.cache import locked
from d2lbert.storage.files import read_json, remembered_sha256_of, write_text
from d2lbert.storage.places import cache_folder
from d2lbert.storage.receiving import DownloadError
from d2lbert.text import ByteLevel, Unigram, WordPiece
from d2lbert.text.tokenizer_json import TOKENIZER_FILE, read_word_pieces
from d2lbert.text.vocab import check_vocabulary
from d2lbert.weights.folder import CONFIG_FILE, WEIGHTS_FILE, check_header
from d2lbert.weights.gpt import check_gpt_header
from d2lbert.weights.header import read_header
from d2lbert.zoo.convert import bin_header, convert_bin
from d2lbert.zoo.hub import download_from_hub, shown_address
from d2lbert.zoo.table import ModelEntry

ORIGIN_FILE = "origin.json"


def hub_folder(entry: ModelEntry) -> Path:
    """Return the cache folder of a model of the hub, whether it exists or not; each revision has its own."""
    name = entry.label.replace(":", "-").replace("/", "--")
    return cache_folder() / "models" / f"{name}-{entry.revision[:8]}"


def is_cached(entry: ModelEntry) -> bool:
    """Whether all files of a model of the hub are in the cache. They are not verified."""
    folder = hub_folder(entry)
    return all((folder / name).is_file() for name in (ORIGIN_FILE, entry.vocabulary, CONFIG_FILE, WEIGHTS_FILE))


def fetch_model(entry: ModelEntry, weights: bool = True) -> Path:
    """Return the folder of a model of the hub with all files verified; missing files are downloaded.

    If several processes call this, one does the work and the others wait for it.

    Args:
        entry: the model.
        weights: False for the configuration and the vocabulary alone.

    Raises:
        UserError: a file can neither be found nor downloaded, or is not that of the table or of the first download. The
            message says where to get the files and into which folder to put them by hand.
    """
    folder = hub_folder(entry)
    with locked(folder):
        files = CachedFiles(entry)
        files.provide(entry.vocabulary)
        if weights:
            files.provide_weights()
        _write_settings(entry, folder)
    files.warn_of_trust()
    return folder


class CachedFiles:
    """The files of a model in its folder of the cache, which the caller has locked.

    Attributes:
        entry: the model.
        folder: its folder.
        trusted: the names of the files that had to be trusted, because no digest was known.
    """

    def __init__(self, entry: ModelEntry) -> None:
        self.entry, self.folder = entry, hub_folder(entry)
        self.trusted: list[str] = []
        self._digests = _read_digests(self.folder)

    def provide(self, name: str) -> Path:
        """Make sure that the folder has a file of the hub, whole and read once, and record its digest.

        Raises:
            UserError: it cannot be downloaded, or is not what it should be.
        """
        path = self.folder / name
        known = self.entry.sha256.get(name) or self._digests.get(name, "")
        if not (_is_whole(path, known) if known else path.is_file()):
            self._download(name, known)
        digest = remembered_sha256_of(path)
        if self._digests.get(name) != digest:
            self._check_again(path)
            self._pin(name, digest)
        if not known:
            self.trusted.append(name)
        return path

    def provide_weights(self) -> None:
        """Make sure that the folder has the weights as safetensors, whole. Errors are those of :meth:`provide`."""
        name = self.entry.weights
        if _is_whole(self.folder / WEIGHTS_FILE, self._digests.get(WEIGHTS_FILE, "")):
            return
        path = self.provide(name)
        if name != WEIGHTS_FILE:
            convert_bin(path, self.folder / WEIGHTS_FILE)
            self._pin(WEIGHTS_FILE, remembered_sha256_of(self.folder / WEIGHTS_FILE))
            path.unlink(missing_ok=True)  # without a lock, another process may have removed it

    def warn_of_trust(self) -> None:
        """Say which files had to be trusted, if any."""
        if self.trusted:
            warnings.warn(
                f"{self.entry.label}: no checksum of {' and '.join(self.trusted)} was known beforehand; their sha256 "
                f"is now written into {self.folder / ORIGIN_FILE}, and nothing else will be taken for them from now on",
                stacklevel=3,
            )

    def _download(self, name: str, sha256: str) -> None:
        """Download a file, or say what to do by hand."""
        entry = self.entry
        try:
            download_from_hub(entry, name, self.folder, sha256, lambda path: check_file(entry, path))
        except DownloadError as error:
            size = f" ({entry.megabytes} MB)" if entry.megabytes else ""
            raise (MissingFile if error.missing else UserError)(
                f"{name} of {entry.label} is not here and cannot be downloaded: {error}; get {entry.weights}{size} "
                f"and {entry.vocabulary} from {shown_address(entry.repository)}/tree/{entry.revision} "
                f"and put them into {self.folder}"
            ) from None

    def _check_again(self, path: Path) -> None:
        """Check a file that may have been put here by hand."""
        try:
            check_file(self.entry, path)
        except UserError as error:
            raise UserError(f"{error}; delete {path}, then it is downloaded") from None

    def _pin(self, name: str, digest: str) -> None:
        self._digests[name] = digest
        origin = {"repository": self.entry.repository, "revision": self.entry.revision, "sha256": self._digests}
        write_text(self.folder / ORIGIN_FILE, json.dumps(origin, indent=2) + "\n")


class MissingFile(UserError):
    """The hub answers, but has no such file or repository."""


def check_file(entry: ModelEntry, path: Path) -> None:
    """Read a file of a model, and compare it with what is known of the model.

    Raises:
        UserError: the vocabulary is damaged or of another size, the tensors are damaged or of another model, or other
            settings are not JSON.
    """
    if path.name == entry.vocabulary:
        tokenizer = _tokenizer(entry, path)
        pieces, embeddings = len(tokenizer.vocab), entry.config.vocab_size
        if entry.in_table and not embeddings - entry.unused_embeddings <= pieces <= embeddings:
            raise UserError(f"{path} has {pieces:,} pieces, not {embeddings:,}: it is cut off or of another model")
        if not entry.in_table:
            check_vocabulary(pieces, embeddings, path)
    elif path.name == entry.weights:
        header = read_header(path.parent) if path.name == WEIGHTS_FILE else bin_header(path)
        if isinstance(entry.config, GptConfig):
            check_gpt_header(header, entry.config, path)
        else:
            check_header(header, entry.file_shapes(), path)
    elif path.suffix == ".json":
        read_json(path)


def _is_whole(path: Path, sha256: str) -> bool:
    """Whether a file exists and has the given digest; False where no digest is known."""
    return bool(sha256) and path.is_file() and remembered_sha256_of(path) == sha256


def _read_digests(folder: Path) -> dict[str, str]:
    path = folder / ORIGIN_FILE
    if not path.is_file():
        return {}
    digests: Any = read_json(path).get("sha256")
    if not isinstance(digests, dict):
        raise UserError(f"{path} holds no digests: delete the folder {folder} to begin anew")
    return digests


def _write_settings(entry: ModelEntry, folder: Path) -> None:
    """Write the settings of the model and its tokenizer, unless they are written and the table has not changed.

    The table knows the case and the sizes; in the repositories of old models these files are missing or wrong.
    """
    path, config = folder / CONFIG_FILE, json.dumps(entry.config.to_dict(), indent=2) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == config:
        return
    tokenizer = _tokenizer(entry, folder / entry.vocabulary)
    tokenizer.model_max_length = entry.config.max_position_embeddings
    tokenizer.save_settings(folder)
    write_text(path, config)


def _tokenizer(entry: ModelEntry, path: Path) -> ByteLevel | Unigram | WordPiece:
    """Read the vocabulary of a model."""
    if entry.kind == "gpt2":
        return ByteLevel.from_file(path)
    if entry.kind == "albert":
        return Unigram.from_file(path)
    if path.name == TOKENIZER_FILE:
        return WordPiece(read_word_pieces(path).vocab, entry.lowercase)
    return WordPiece.from_file(path, entry.lowercase)
