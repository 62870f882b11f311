"""GPT-2 of the hub (zoo/files): served here with the names of the released files, and compared with transformers."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from byte_level_support import tokenizer_json
from hub_support import Hub, publish, small_zoo
from random_parameters import randomize

from d2lbert import UserError, get_model
from d2lbert.config import GptConfig, Sampling
from d2lbert.models import tokenizer_of_name
from d2lbert.text import ByteLevel, WordPiece
from d2lbert.torch.gpt import Gpt, continue_texts
from d2lbert.zoo import table as zoo_table
from d2lbert.zoo.files import hub_folder
from d2lbert.zoo.table import ModelEntry

transformers = pytest.importorskip("transformers")

NAMES = ("gpt2_117m", "gpt2_345m", "gpt2_774m", "gpt2_1558m")


def narrow(entry: ModelEntry) -> ModelEntry:
    """Return an entry of few and narrow layers; vocabulary, positions, activation and epsilon are the released ones."""
    config = entry.config.replace(n_embd=12, n_layer=2, n_head=3, n_inner=20)
    return dataclasses.replace(entry, config=config, sha256={})


ENTRIES = {entry.name: narrow(entry) for entry in zoo_table.entries() if entry.kind == "gpt2"}
OTHERS = [entry for entry in zoo_table.entries() if entry.kind != "gpt2"]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub on this machine, an empty cache, and the table with small networks."""
    with small_zoo(monkeypatch, tmp_path / "cache", [*OTHERS, *ENTRIES.values()]) as server:
        yield server


def serve(hub: Hub, entry: ModelEntry, masks: bool = True) -> Any:
    """Publish random weights under the names of the released files, which have no prefix, but a mask in every block."""
    assert isinstance(entry.config, GptConfig)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**entry.config.to_dict()))
    randomize(model, seed=5)
    state = dict(model.transformer.state_dict())
    if masks:
        for block in range(entry.config.n_layer):
            state[f"h.{block}.attn.bias"] = torch.ones(1, 1, 8, 8).tril()
    publish(hub, entry, state)
    hub.put(entry, "tokenizer.json", tokenizer_json(entry.config.vocab_size).encode())
    return model.eval()


def quietly(*names: str, **options: Any) -> tuple[Any, Any]:
    """Load a model without the warnings that its digests were not known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_model(*names, **options)


@pytest.mark.parametrize("name", NAMES)
def test_every_size_equals_transformers(name: str, hub: Hub) -> None:
    entry = ENTRIES[name]
    reference = serve(hub, entry)
    model, tokenizer = quietly(name, "openai_webtext")
    assert isinstance(model, Gpt)
    assert isinstance(tokenizer, ByteLevel)
    assert hub.downloaded == ["tokenizer.json", "model.safetensors"]
    ids = torch.randint(0, entry.config.vocab_size, (2, 9), generator=torch.Generator().manual_seed(1))
    assert (reference(ids).logits - model(ids).logits.view(2, 9, -1)).abs().max() < 1e-5
    reloaded = transformers.GPT2LMHeadModel.from_pretrained(hub_folder(entry)).eval()
    assert torch.allclose(reloaded(ids).logits, reference(ids).logits, atol=1e-6)
    text = "The bank, naïve ☃"
    theirs = transformers.AutoTokenizer.from_pretrained(hub_folder(entry))
    assert theirs(text)["input_ids"] == tokenizer.encode(text).ids


def test_it_writes_on(hub: Hub) -> None:
    serve(hub, ENTRIES["gpt2_117m"])
    model, tokenizer = quietly("gpt2_117m")
    first = continue_texts(model, tokenizer, ["the bank", "a"], max_length=5, sampling=Sampling(seed=3))
    assert len(first) == 2
    assert first == continue_texts(model, tokenizer, ["the bank", "a"], max_length=5, sampling=Sampling(seed=3))


def test_weights_of_another_size_are_refused(hub: Hub) -> None:
    entry = ENTRIES["gpt2_117m"]
    serve(hub, entry)
    wide = transformers.GPT2Model(transformers.GPT2Config(**entry.config.replace(n_inner=21).to_dict()))
    publish(hub, entry, wide.state_dict())
    hub.put(entry, "tokenizer.json", tokenizer_json(entry.config.vocab_size).encode())
    with pytest.raises(UserError, match=r"sent something else in its place .*h\.0\.mlp\.c_fc"):
        quietly("gpt2_117m")
    assert not (hub_folder(entry) / "model.safetensors").exists()


def test_a_cut_off_tokenizer_is_refused(hub: Hub) -> None:
    entry = ENTRIES["gpt2_117m"]
    serve(hub, entry)
    hub.put(entry, "tokenizer.json", tokenizer_json(300).encode())
    with pytest.raises(UserError, match="has 300 pieces, not 50,257"):
        quietly("gpt2_117m")


def test_a_folder_says_itself_which_tokenizer_it_has(hub: Hub, tmp_path: Path) -> None:
    serve(hub, ENTRIES["gpt2_117m"])
    model, tokenizer = quietly("gpt2_117m")
    model.save_pretrained(tmp_path / "released")
    tokenizer.save_pretrained(tmp_path / "released")
    again, same = get_model(str(tmp_path / "released"))
    assert isinstance(same, ByteLevel)
    assert torch.equal(again.embeddings.word.weight, model.embeddings.word.weight)
    pieces = get_model("d2lbert-tiny")[1]
    ours = Gpt(GptConfig(len(pieces.vocab), 16, 12, 1, 3, 20, bos_token_id=2, eos_token_id=3, pad_token_id=0))
    ours.save_pretrained(tmp_path / "ours")
    pieces.save_pretrained(tmp_path / "ours")
    assert isinstance(get_model(str(tmp_path / "ours"))[1], WordPiece)


def test_a_gpt_is_no_encoder_and_is_not_downloaded_to_say_so(hub: Hub) -> None:
    with pytest.raises(UserError, match="gpt2_117m is a GPT, which is no encoder: choose"):
        tokenizer_of_name("gpt2_117m")
