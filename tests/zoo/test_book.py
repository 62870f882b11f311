"""Models that the installed package leaves out: what is published is what the checkout has, and comes whole or not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_support import Hub

from d2lbert import UserError, get_model
from d2lbert.storage.download import forget_failures
from d2lbert.storage.files import sha256_of
from d2lbert.storage.places import home
from d2lbert.zoo import book, describe_models, locate
from d2lbert.zoo.table import ModelEntry, entries

LEFT_OUT = {entry.label: entry for entry in entries() if entry.checkout_only}


def published(entry: ModelEntry) -> dict[str, bytes]:
    """Return the files of a model by their paths in the repository."""
    folder = home() / entry.folder
    return {f"/{entry.revision}/data/{entry.folder}/{name}": (folder / name).read_bytes() for name in entry.sha256}


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """The book's repository on this machine, an empty cache, and a package without its checkout."""
    for name in ("D2LBERT_OFFLINE", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "installed").mkdir()
    forget_failures()
    with Hub().serving() as server:
        for entry in LEFT_OUT.values():
            server.files |= published(entry)
        shutil.copy(home() / "zoo.toml", tmp_path / "installed")
        monkeypatch.setattr("d2lbert.zoo.folders.home", lambda: tmp_path / "installed")
        monkeypatch.setattr(book, "REPOSITORY", server.url)
        yield server
    forget_failures()


def test_the_table_knows_every_file_that_the_checkout_has() -> None:
    assert set(LEFT_OUT) == {"minilm-mrpc", "minilm-sick", "elmo-small", "transformer-en-de", "seq2seq-en-de"}
    for entry in LEFT_OUT.values():
        files = {path.name: sha256_of(path) for path in (home() / entry.folder).iterdir() if path.suffix != ".md"}
        assert entry.sha256 == files, entry.label
        assert len(entry.revision) == 40


@pytest.mark.parametrize("label", LEFT_OUT)
def test_what_is_left_out_is_downloaded_once(label: str, repository: Hub) -> None:
    assert {row["where"] for row in describe_models() if row["label"] == label} == {"repository"}
    with pytest.warns(UserWarning, match=f"{label} comes from .*; its licence: {LEFT_OUT[label].licence}"):
        folder = locate(label)
    assert {path.name for path in folder.iterdir()} >= set(LEFT_OUT[label].sha256)
    asked = len(repository.downloaded)
    assert asked == len(LEFT_OUT[label].sha256)
    model, _ = get_model(label)
    assert sum(parameter.numel() for parameter in model.parameters()) > 10_000
    assert len(repository.downloaded) == asked
    assert {row["where"] for row in describe_models() if row["label"] == label} == {"cache"}


@pytest.mark.filterwarnings("ignore:.*comes from the book's repository")
def test_settings_come_without_the_weights(repository: Hub) -> None:
    locate("minilm-sick", weights=False)
    assert sorted(repository.downloaded) == ["adapter_config.json", "config.json"]


def test_a_changed_file_is_not_taken(repository: Hub) -> None:
    entry = LEFT_OUT["elmo-small"]
    path = f"/{entry.revision}/data/{entry.folder}/model.safetensors"
    repository.files[path] = bytes(len(repository.files[path]))
    with pytest.raises(UserError, match=r"^elmo-small is not in the installed package.*sha256 is not the known one"):
        locate("elmo-small")
    assert not (book.book_folder(entry) / "model.safetensors").exists()


@pytest.mark.filterwarnings("ignore:.*comes from the book's repository")
def test_a_file_that_changed_in_the_cache_is_downloaded_anew(repository: Hub) -> None:
    folder = locate("elmo-small")
    (folder / "options.json").write_text("{}")
    assert sha256_of(locate("elmo-small") / "options.json") == LEFT_OUT["elmo-small"].sha256["options.json"]


def test_without_a_network_it_says_where_the_model_is(repository: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    message = "D2LBERT_OFFLINE=1 forbids the network; a checkout of the book has it in data/checkpoints/seq2seq-en-de"
    with pytest.raises(UserError, match=rf"^seq2seq-en-de is not in the installed package .*: {message}$"):
        get_model("seq2seq-en-de")
