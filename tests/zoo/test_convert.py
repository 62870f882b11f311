"""Old checkpoints, ``.bin`` (zoo/files): every tensor comes through, and processes do not take it from each other."""

from __future__ import annotations

import json
import multiprocessing
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hub_support import Hub, fetch_at_once, publish, reference_model, shrink, small_zoo, state_of
from safetensors.numpy import load_file, save_file
from torch import nn

from d2lbert import UserError, get_model
from d2lbert.torch.bert import BertModel
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.zoo import table as zoo_table
from d2lbert.zoo.convert import bin_header, convert_bin, join_shards
from d2lbert.zoo.files import hub_folder
from d2lbert.zoo.table import ModelEntry

pytest.importorskip("transformers")

TINY = "bert_tiny:book_corpus_wiki_en_uncased"
DECODER = "cls.predictions.decoder.weight"
WORDS = "bert.embeddings.word_embeddings.weight"
FILES = ["config.json", "model.safetensors", "origin.json", "tokenizer_config.json", "vocab.txt"]


@pytest.fixture
def entry() -> ModelEntry:
    """A small model whose weights are a ``.bin``."""
    (tiny,) = (entry for entry in zoo_table.entries() if entry.label == TINY)
    return shrink(tiny)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, entry: ModelEntry) -> Iterator[Hub]:
    """A hub on this machine, an empty cache, and the table with that model alone."""
    with small_zoo(monkeypatch, tmp_path / "cache", [entry]) as server:
        yield server


def converted(state: Any, folder: Path) -> dict[str, np.ndarray]:
    """Save a state as a ``.bin`` and return what its conversion holds."""
    torch.save(state, folder / "pytorch_model.bin")
    convert_bin(folder / "pytorch_model.bin", folder / "model.safetensors")
    return load_file(folder / "model.safetensors")


@pytest.mark.slow
def test_processes_that_fetch_one_model_at_once(hub: Hub, entry: ModelEntry) -> None:
    publish(hub, entry, state_of(reference_model(entry), gamma=True, prefix=True))
    number = 4
    spawn = multiprocessing.get_context("spawn")
    barrier, complaints = spawn.Barrier(number), spawn.Queue()
    processes = [spawn.Process(target=fetch_at_once, args=(entry, barrier, complaints)) for _ in range(number)]
    for process in processes:
        process.start()
    messages = [complaints.get(timeout=240) for _ in processes]
    for process in processes:
        process.join()
    assert messages == [""] * number
    assert hub.downloaded == ["vocab.txt", entry.weights]  # by one; the others found it done
    assert sorted(path.name for path in hub_folder(entry).iterdir()) == FILES


@pytest.mark.parametrize("lack", ["of locks", "of permission"])
def test_without_a_lock_a_model_is_fetched_all_the_same(
    lack: str, hub: Hub, entry: ModelEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, entry, state_of(reference_model(entry), gamma=True, prefix=True))
    folder = hub_folder(entry)
    if lack == "of locks":
        monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    else:
        folder.with_name(f"{folder.name}.lock").mkdir(parents=True)  # cannot be opened as a file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        get_model(TINY)
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_a_decoder_before_the_embeddings_it_shares(entry: ModelEntry, tmp_path: Path) -> None:
    reference = reference_model(entry)
    state = reference.state_dict()
    assert state[DECODER].data_ptr() == state[WORDS].data_ptr()
    tensors = converted({DECODER: state[DECODER], **{name: state[name] for name in state if name != DECODER}}, tmp_path)
    assert set(tensors) == set(state) - {DECODER}
    (tmp_path / "config.json").write_text(json.dumps(entry.config.to_dict()))
    ids = torch.tensor([[2, 9, 7, 3]])
    expected = reference(input_ids=ids).prediction_logits
    assert (expected - BertForPretraining.from_pretrained(tmp_path)(ids).token_logits).abs().max() < 1e-5


def test_a_decoder_of_its_own_stays(entry: ModelEntry, tmp_path: Path) -> None:
    state = dict(reference_model(entry).state_dict())
    state[DECODER] = state[DECODER] + 1
    tensors = converted(state, tmp_path)
    assert np.array_equal(tensors[DECODER], state[DECODER].numpy())
    assert np.array_equal(tensors[WORDS], state[WORDS].numpy())


def test_tensors_that_share_memory_are_all_kept(entry: ModelEntry, tmp_path: Path) -> None:
    state = dict(reference_model(entry).base_model.state_dict())
    first, second = (f"encoder.layer.{number}.output.LayerNorm.weight" for number in (0, 1))
    state[second] = state[first]
    query, key = (f"encoder.layer.0.attention.self.{name}.weight" for name in ("query", "key"))
    state[key] = state[query].t()  # the same address and shape, but other values
    tensors = converted(state, tmp_path)
    assert set(tensors) == set(state)
    for name, value in state.items():
        assert np.array_equal(tensors[name], value.numpy()), name
    (tmp_path / "config.json").write_text(json.dumps(entry.config.to_dict()))
    model = BertModel.from_pretrained(tmp_path)
    assert torch.equal(model.encoder.blocks[0].attention.key.weight, state[query].t())


def test_parameters_are_tensors(tmp_path: Path) -> None:
    layer = nn.Linear(3, 2)
    tensors = converted(dict(layer.named_parameters()), tmp_path)
    assert np.array_equal(tensors["weight"], layer.weight.detach().numpy())
    assert np.array_equal(tensors["bias"], layer.bias.detach().numpy())


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": torch.ones(2), 3: torch.ones(2)}, "the key 3 is no name of a tensor"),
        ({"a": torch.ones(2).to_sparse()}, r"the tensor a \(torch.float32, torch.sparse_coo, on cpu\) has no array"),
        ({"a": torch.ones(2, device="meta")}, "the tensor a .*, on meta"),
    ],
)
def test_what_is_no_table_of_arrays_is_one_line(state: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as caught:
        converted(state, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("newer", [True, False], ids=["zip", "legacy"])
def test_a_whole_module_is_refused_in_our_own_words(newer: bool, tmp_path: Path) -> None:
    """PyTorch's words advise to load it without weights_only, which would run what stands in the file."""
    source = tmp_path / "pytorch_model.bin"
    torch.save(nn.Linear(2, 2), source, _use_new_zipfile_serialization=newer)
    with pytest.raises(UserError) as caught:
        convert_bin(source, tmp_path / "model.safetensors")
    assert str(caught.value) == (
        f"{source} is damaged or holds more than tensors (it is not a plain table of tensors, and nothing else is "
        "read): get the file again"
    )


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("newer", [True, False], ids=["zip", "legacy"])
def test_damage_anywhere_is_one_line(newer: bool, tmp_path: Path) -> None:
    source = tmp_path / "pytorch_model.bin"
    torch.save({"one": torch.ones(2, 3), "two": torch.zeros(4)}, source, _use_new_zipfile_serialization=newer)
    whole = source.read_bytes()
    generator, complaints = np.random.default_rng(3), []
    for _ in range(300):
        damaged = bytearray(whole[: int(generator.integers(len(whole) // 2, len(whole) + 1))])
        for index in generator.integers(0, min(600, len(damaged)), 2):
            damaged[index] = int(generator.integers(256))
        source.write_bytes(damaged)
        try:
            convert_bin(source, tmp_path / "model.safetensors")
        except UserError as error:
            complaints.append(str(error))
    assert len(complaints) > 200
    assert not [text for text in complaints if "\n" in text or "weights_only" in text]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*pytorch_model\.bin: No such file"):
        convert_bin(tmp_path / "pytorch_model.bin", tmp_path / "model.safetensors")


def test_what_a_bin_holds_is_told_as_of_safetensors(tmp_path: Path) -> None:
    state = {
        "bert.embeddings.LayerNorm.gamma": torch.ones(3, dtype=torch.bfloat16),
        "bert.embeddings.position_ids": torch.arange(5),
        "bert.pooler.dense.weight": torch.zeros(3, 3, dtype=torch.int8),
    }
    torch.save(state, tmp_path / "pytorch_model.bin")
    header = bin_header(tmp_path / "pytorch_model.bin")
    assert {name: (info.name, info.is_real, info.shape) for name, info in header.items()} == {
        "embeddings.LayerNorm.weight": ("bert.embeddings.LayerNorm.gamma", True, (3,)),
        "embeddings.position_ids": ("bert.embeddings.position_ids", False, (5,)),
        "pooler.dense.weight": ("bert.pooler.dense.weight", False, (3, 3)),
    }
    torch.save({"bert.x": torch.ones(1), "x": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"holds 'bert\.x' and 'x', two tensors for one parameter"):
        bin_header(tmp_path / "pytorch_model.bin")


@pytest.fixture
def shards(entry: ModelEntry, tmp_path: Path) -> Path:
    """A small model that transformers saved in several files."""
    reference_model(entry).save_pretrained(tmp_path, max_shard_size="2KB")
    assert len(list(tmp_path.glob("model-0*-of-*.safetensors"))) > 2
    return tmp_path


def test_weights_in_several_files_are_joined(shards: Path) -> None:
    with pytest.warns(UserWarning, match=r"wrote model\.safetensors, the tensors of the files in model\.safetensors\."):
        model = BertModel.from_pretrained(shards)
    expected: dict[str, np.ndarray] = {}
    for file in shards.glob("model-0*-of-*.safetensors"):
        expected |= load_file(file)
    found = load_file(shards / "model.safetensors")
    assert set(found) == set(expected)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = BertModel.from_pretrained(shards)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "has no weight_map from tensors to files: restore the file"),
        ({"x": 3}, "has no weight_map from tensors to files: restore the file"),
        ({"x": "../model.safetensors"}, "names '../model.safetensors', which is no file of the folder"),
        ({"x": "gone.safetensors"}, "no gone.safetensors in "),
        (
            {"x": "here.safetensors", "y": "here.safetensors"},
            "lacks 'y', which model.safetensors.index.json says is in",
        ),
    ],
)
def test_an_index_that_misleads_is_one_line(table: Any, message: str, tmp_path: Path) -> None:
    save_file({"x": np.zeros(2, np.float32)}, tmp_path / "here.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        join_shards(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model.safetensors").exists()
