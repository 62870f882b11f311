"""ALBERT and DistilBERT of the hub (zoo/files): served here with names and sizes of the real files, and compared."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_support import Hub, publish, shrink, small_zoo
from random_parameters import randomize
from unigram_support import tokenizer_json

from d2lbert import UserError, get_model
from d2lbert.text import Unigram, WordPiece
from d2lbert.torch.relatives import AlbertModel, DistilBertModel
from d2lbert.zoo import table as zoo_table
from d2lbert.zoo.files import hub_folder
from d2lbert.zoo.table import ModelEntry

transformers = pytest.importorskip("transformers")

KINDS = ("albert", "distilbert")
ENTRIES = {entry.label: shrink(entry) for entry in zoo_table.entries() if entry.kind in KINDS}
ALBERT = "albert_12_768_12:book_corpus_wiki_en_uncased"
DISTILBERT = "distilbert_6_768_12:distilbert_book_corpus_wiki_en_cased"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub on this machine, an empty cache, and the table with small networks."""
    with small_zoo(monkeypatch, tmp_path / "cache", ENTRIES.values()) as server:
        yield server


def serve(hub: Hub, entry: ModelEntry) -> Any:
    """Put random weights under the names of a file with a head for masked words; return the encoder they are of."""
    kind = entry.config.architecture.removesuffix("Model")
    values = {
        name: value for name, value in entry.config.to_dict().items() if name not in ("model_type", "architectures")
    }
    whole = getattr(transformers, f"{kind}ForMaskedLM")(getattr(transformers, f"{kind}Config")(**values))
    randomize(whole, seed=3)
    encoder = getattr(transformers, entry.config.architecture)(whole.config)
    randomize(encoder, seed=4)
    state = {f"{entry.kind}.{name}": value for name, value in encoder.state_dict().items()}
    heads = {name: value for name, value in whole.state_dict().items() if not name.startswith(f"{entry.kind}.")}
    publish(hub, entry, {**state, **heads})
    if entry.kind == "albert":
        hub.put(entry, "tokenizer.json", tokenizer_json(entry.config.vocab_size).encode())
    return encoder.eval()


def quietly(label: str, **options: Any) -> tuple[Any, Any]:
    """Load a model without the warnings that its digests were not known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_model(label, **options)


@pytest.mark.parametrize("label", list(ENTRIES))
def test_every_model_equals_transformers(label: str, hub: Hub) -> None:
    entry = ENTRIES[label]
    reference = serve(hub, entry)
    with pytest.warns(UserWarning, match=f"no checksum of {entry.vocabulary} and {entry.weights} was known beforehand"):
        model, tokenizer = get_model(entry.name, entry.dataset)
    assert hub.downloaded == [entry.vocabulary, entry.weights]
    assert isinstance(model, AlbertModel if entry.kind == "albert" else DistilBertModel)
    ids = torch.randint(5, entry.config.vocab_size, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    expected = reference(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    output = model(ids, mask=mask, output_hidden_states=True)
    for expected_states, states in zip(expected.hidden_states, output.hidden_states, strict=True):
        assert (expected_states - states)[mask.bool()].abs().max() < 1e-5
    if entry.kind == "albert":
        assert (expected.pooler_output - output.pooled).abs().max() < 1e-5
    # The folder is one of Hugging Face's.
    folder = hub_folder(entry)
    names = ["config.json", "model.safetensors", "origin.json", "tokenizer_config.json", entry.vocabulary]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    reloaded = getattr(transformers, entry.config.architecture).from_pretrained(folder).eval()
    again = reloaded(input_ids=ids, attention_mask=mask).last_hidden_state
    assert (again - output.sequence)[mask.bool()].abs().max() < 1e-5
    text = "The river bank" if entry.kind == "albert" else "word w7"
    assert transformers.AutoTokenizer.from_pretrained(folder)(text)["input_ids"] == tokenizer.encode(text).ids


def test_tokenizers_are_those_of_the_models(hub: Hub) -> None:
    serve(hub, ENTRIES[ALBERT])
    serve(hub, ENTRIES[DISTILBERT])
    _, pieces = quietly(ALBERT)
    assert isinstance(pieces, Unigram)
    assert len(pieces.vocab) == ENTRIES[ALBERT].config.vocab_size
    assert pieces.tokenize("The RIVER") == ["▁the", "▁river"]
    _, words = quietly(DISTILBERT)
    assert isinstance(words, WordPiece)
    assert words.tokenize("word WORD") == ["word", "[UNK]"]


def test_a_folder_says_itself_what_it_is(hub: Hub, tmp_path: Path) -> None:
    for label in (ALBERT, DISTILBERT):
        serve(hub, ENTRIES[label])
        model, tokenizer = quietly(label)
        folder = tmp_path / model.config.model_type
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        again, _ = get_model("mine", path=folder)
        assert type(again) is type(model)
        assert again.config == model.config
        assert torch.equal(again.embeddings.word.weight, model.embeddings.word.weight)
        new, _ = quietly(label, pretrained=False)
        assert new.config == model.config
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "roberta"}))
    with pytest.raises(UserError, match="model_type is 'roberta', which d2lbert does not compute"):
        get_model("mine", path=folder)


def test_the_mxnet_edition_says_that_it_has_none(hub: Hub) -> None:
    serve(hub, ENTRIES[ALBERT])
    with pytest.raises(UserError, match="the mxnet edition has no albert: use edition='torch'"):
        quietly(ALBERT, edition="mxnet")


def test_a_damaged_tokenizer_is_fetched_again(hub: Hub) -> None:
    entry = ENTRIES[ALBERT]
    serve(hub, entry)
    quietly(ALBERT)
    path = hub_folder(entry) / "tokenizer.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    get_model(ALBERT)
    assert hub.downloaded[2:] == ["tokenizer.json"]
    assert path.read_bytes() == whole
