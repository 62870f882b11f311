"""Any public repository of the hub by its name, such as ``prajjwal1/bert-tiny``, if it holds a BERT or a relative.

What a repository holds is told by its own ``config.json``. At the first use the newest commit is looked up and written
down; from then on this commit is used, and its files are held to their first digests, as in :mod:`d2lbert.zoo.files`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

from d2lbert.config.bert import BertConfig
from d2lbert.errors import UserError
from d2lbert.storage.cache import locked
from d2lbert.storage.files import read_json, write_text
from d2lbert.storage.places import cache_folder
from d2lbert.storage.receiving import DownloadError
from d2lbert.text.tokenizer_json import SETTINGS_FILE, TOKENIZER_FILE
from d2lbert.weights.folder import CONFIG_FILE, WEIGHTS_FILE
from d2lbert.zoo.convert import OLD_WEIGHTS_FILE
from d2lbert.zoo.files import CachedFiles, MissingFile, hub_folder
from d2lbert.zoo.hub import newest_revision, shown_address
from d2lbert.zoo.table import CONFIGS, ModelEntry

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_repository_name(name: str) -> bool:
    """Whether a name has the form of a repository's: an owner, a slash, a name."""
    return _NAME.fullmatch(name) is not None


def fetch_repository(name: str, weights: bool = True) -> Path:
    """Return the folder of a repository of the hub with all files verified; missing files are downloaded.

    Args:
        name: owner and name, with a slash between them.
        weights: False for the configuration and the vocabulary alone.

    Raises:
        UserError: there is no such repository, it holds no model that is computed here, or a file can neither be found
            nor downloaded.
    """
    entry = ModelEntry(name, "", "", repository=name, revision=_revision(name), weights=WEIGHTS_FILE)
    with locked(hub_folder(entry)):
        files = CachedFiles(entry)
        files.entry = _entry_of(entry, files.provide(CONFIG_FILE))
        _provide_tokenizer_settings(files)
        _provide_vocabulary(files)
        if weights:
            _provide_weights(files)
    files.warn_of_trust()
    return files.folder


def _revision(name: str) -> str:
    """Return the commit that was the newest at the first use."""
    pin = cache_folder() / "models" / f"{name.replace('/', '--')}.json"
    if pin.is_file():
        revision = read_json(pin).get("revision")
        if not isinstance(revision, str) or not re.fullmatch("[0-9a-f]{40}", revision):
            raise UserError(f"{pin} names no commit: delete it, then the newest is looked up again")
        return revision
    try:
        revision = newest_revision(name)
    except DownloadError as error:
        if error.missing:
            raise UserError(
                f"{name} is no folder here, and {shown_address(name)} is no public model with a {CONFIG_FILE}: "
                "check the path or the name"
            ) from None
        raise UserError(
            f"{name} is neither a folder here nor can it be asked for at {shown_address(name)}: {error}"
        ) from None
    write_text(pin, json.dumps({"revision": revision}, indent=2) + "\n")
    return revision


def _entry_of(entry: ModelEntry, config_json: Path) -> ModelEntry:
    """Return the entry with the network that the configuration describes."""
    kind = str(read_json(config_json).get("model_type", "bert"))
    config = CONFIGS.get(kind, BertConfig).from_json(config_json)  # refuses any other kind
    return dataclasses.replace(entry, kind=kind, config=config)


def _provide_tokenizer_settings(files: CachedFiles) -> None:
    """Old repositories have no settings of the tokenizer; empty ones stand for that, so that it is asked once."""
    try:
        files.provide(SETTINGS_FILE)
    except MissingFile:
        write_text(files.folder / SETTINGS_FILE, "{}\n")
        files.provide(SETTINGS_FILE)


def _provide_vocabulary(files: CachedFiles) -> None:
    """Take the vocabulary, of a BERT that transformers 5 saved from the only file that has it."""
    if (files.folder / TOKENIZER_FILE).is_file():
        files.entry = dataclasses.replace(files.entry, vocabulary_file=TOKENIZER_FILE)
    try:
        files.provide(files.entry.vocabulary)
    except MissingFile as error:
        files.entry = dataclasses.replace(files.entry, vocabulary_file=TOKENIZER_FILE)
        try:
            files.provide(TOKENIZER_FILE)
        except MissingFile:
            raise error from None


def _provide_weights(files: CachedFiles) -> None:
    """Take the weights as safetensors, or if there are none, convert the old file."""
    try:
        files.provide_weights()
    except MissingFile:
        files.entry = dataclasses.replace(files.entry, weights=OLD_WEIGHTS_FILE)
        files.provide_weights()
