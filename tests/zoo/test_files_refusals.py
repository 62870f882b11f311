"""First downloads that are not what they should be (zoo/files): refused, removed, and asked for again."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hub_support import Hub, publish, reference_model, shrink, small_zoo, state_of

from d2lbert import UserError, get_model
from d2lbert.storage import download
from d2lbert.zoo import table as zoo_table
from d2lbert.zoo.files import hub_folder
from d2lbert.zoo.table import ModelEntry

pytest.importorskip("transformers")

TINY = "bert_tiny:book_corpus_wiki_en_uncased"  # a .bin
CHINESE = "bert_12_768_12:wiki_cn_cased"  # safetensors
ENTRIES = {entry.label: shrink(entry) for entry in zoo_table.entries() if entry.label in (TINY, CHINESE)}
PAGE = b"<!DOCTYPE html><html><body>Please log in to the network.</body></html>\n" * 20


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub on this machine, an empty cache, and the table with small networks."""
    with small_zoo(monkeypatch, tmp_path / "cache", ENTRIES.values()) as server:
        yield server


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def serve(hub: Hub, label: str) -> ModelEntry:
    entry = ENTRIES[label]
    publish(hub, entry, state_of(reference_model(entry), gamma=True, prefix=True))
    return entry


def path_of(entry: ModelEntry, name: str) -> str:
    return f"/{entry.repository}/resolve/{entry.revision}/{name}"


def other_model(hub: Hub, label: str) -> bytes:
    """The weights of the same kind of model with one block less."""
    entry = ENTRIES[label]
    fewer = ModelEntry(**{name: getattr(entry, name) for name in ModelEntry.__slots__})
    object.__setattr__(fewer, "config", entry.config.replace(num_hidden_layers=1))
    publish(hub, fewer, state_of(reference_model(fewer), gamma=True, prefix=True))
    return hub.files[path_of(entry, entry.weights)]


@pytest.mark.parametrize("label", [TINY, CHINESE])
@pytest.mark.parametrize("what", ["vocabulary", "weights"])
@pytest.mark.parametrize("answer", ["page", "nothing", "half", "one line less", "another model"])
def test_a_wrong_first_answer_is_not_believed(label: str, what: str, answer: str, hub: Hub) -> None:
    another = other_model(hub, label)
    entry = serve(hub, label)
    name = entry.vocabulary if what == "vocabulary" else entry.weights
    right = hub.files[path_of(entry, name)]
    lines = right.splitlines(keepends=True)
    hub.files[path_of(entry, name)] = {
        "page": PAGE,
        "nothing": b"",
        "half": right[: len(right) // 2],
        "one line less": b"".join(lines[:-1]) if what == "vocabulary" else right[:-1],
        "another model": b"".join([*lines, b"more\n"]) if what == "vocabulary" else another,
    }[answer]
    with pytest.raises(
        UserError, match=r"sent something else in its place \(.*\); get .* and put them into "
    ) as caught:
        get_model(label)
    message = str(caught.value)
    assert "\n" not in message
    assert str(hub_folder(entry)) in message
    assert ".download-" not in message
    assert not (hub_folder(entry) / name).exists()
    origin = hub_folder(entry) / "origin.json"
    assert name not in (json.loads(origin.read_text())["sha256"] if origin.is_file() else {})
    # The next run, with a network that is as it should be.
    download.forget_failures()
    hub.files[path_of(entry, name)] = right
    with pytest.warns(UserWarning, match="no checksum of .* was known beforehand"):
        model, tokenizer = get_model(label)
    assert len(tokenizer.vocab) == model.config.vocab_size


def test_a_wrong_file_put_there_by_hand_is_named(hub: Hub) -> None:
    entry = serve(hub, TINY)
    folder = hub_folder(entry)
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_bytes(PAGE)
    with pytest.raises(UserError, match=rf"; delete {folder}/vocab\.txt, then it is downloaded$"):
        get_model(TINY)
    assert (folder / "vocab.txt").read_bytes() == PAGE


def test_more_bytes_than_such_a_file_can_have(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = serve(hub, CHINESE)
    monkeypatch.setattr(zoo_table, "_MOST_TEXT", 1000)
    with pytest.raises(UserError, match=r"vocab\.txt .* sent more than 1000 bytes, too many for this file"):
        get_model(CHINESE)
    assert not list(hub_folder(entry).iterdir())


def test_bounds_of_weights_leave_room_for_those_that_there_are() -> None:
    for entry in zoo_table.entries():
        if entry.source == "hub":
            assert 1.5 * entry.megabytes * 1e6 < entry.most_bytes(entry.weights) < 4 * entry.megabytes * 1e6 + 65e6


def test_a_password_in_the_hubs_address_is_not_shown(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(hub, TINY)
    address = hub.url.replace("http://", "http://me:s3cret@")
    monkeypatch.setenv("D2LBERT_HUB", address)
    path = path_of(ENTRIES[TINY], "vocab.txt")
    right = hub.files[path]
    for change in ("missing", "page", "short"):
        hub.files[path] = PAGE if change == "page" else right
        hub.missing = 10 if change == "short" else 0
        if change == "missing":
            del hub.files[path]
        with pytest.raises(UserError, match=r"vocab\.txt of .* cannot be downloaded") as caught:
            get_model(TINY)
        assert "s3cret" not in str(caught.value)
        assert hub.url in str(caught.value)
        download.forget_failures()
    hub.files[path], hub.missing = right, 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        get_model(TINY)
    assert "s3cret" not in "".join(str(warning.message) for warning in said)
    assert "s3cret" not in (hub_folder(ENTRIES[TINY]) / "origin.json").read_text()
    # The password does what it is for.
    assert all(headers["Authorization"].startswith("Basic ") for _, _, headers in hub.requests)


def test_a_hub_of_another_kind(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_HUB", "ftp://localhost")
    with pytest.raises(
        UserError, match=r"ftp://localhost/\S+ is no valid address \(ftp is neither http nor https\), D2L"
    ):
        get_model(TINY)


def test_weights_that_are_not_finite_are_refused(hub: Hub) -> None:
    for label in (TINY, CHINESE):
        entry = ENTRIES[label]
        state = state_of(reference_model(entry), gamma=True, prefix=True)
        name = next(name for name in state if name.endswith("pooler.dense.bias"))
        publish(hub, entry, {**state, name: torch.full_like(state[name], torch.nan)})
        with pytest.raises(UserError, match=r"pooler\.dense\.bias holds NaN or infinity"), no_warnings():
            get_model(label)


def test_a_vocabulary_may_be_smaller_where_the_table_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of ERNIE has 17,964 pieces for 18,000 embeddings."""
    ernie = shrink(zoo_table.find_entry("ernie_12_768_12"))
    with small_zoo(monkeypatch, tmp_path / "cache", [ernie]) as hub:
        publish(hub, ernie, state_of(reference_model(ernie), gamma=False, prefix=False))
        path = path_of(ernie, "vocab.txt")
        lines = hub.files[path].splitlines(keepends=True)
        hub.files[path] = b"".join(lines[:17963])
        with pytest.raises(UserError, match=r"vocab\.txt has 17,963 pieces, not 18,000"):
            get_model(ernie.label)
        download.forget_failures()
        hub.files[path] = b"".join(lines[:17964])
        with no_warnings():
            _, tokenizer = get_model(ernie.label)
        assert len(tokenizer.vocab) == 17964
