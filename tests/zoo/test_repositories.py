"""Repositories of the hub by their names: what they hold, and those that hold something else."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_support import Hub, small_zoo
from safetensors.torch import save
from unigram_support import tokenizer_json

from d2lbert import UserError, get_model
from d2lbert.config import AlbertConfig, BertConfig, DistilBertConfig
from d2lbert.storage import download
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.relatives import AlbertModel, DistilBertModel
from d2lbert.zoo import locate
from d2lbert.zoo.repositories import fetch_repository, is_repository_name

SIZES: dict[str, Any] = {
    "vocab_size": 203,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
}
PIECES = [*SPECIAL_TOKENS, "word", "WORD", *(f"w{number}" for number in range(196))]
NAME = "someone/small-bert"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub on this machine, an empty cache, and an empty table."""
    with small_zoo(monkeypatch, tmp_path / "cache", ()) as server:
        yield server


def publish(hub: Hub, model: Any, folder: Path, *, old: bool = False, lowercase: bool | None = None) -> None:
    """Put a model on the hub as the newest state of the repository.

    Args:
        old: as repositories were made in 2019: a ``.bin``, and no settings of the tokenizer.
        lowercase: what the settings of the tokenizer say of it; None for no such settings.
    """
    model.save_pretrained(folder)
    files = {"config.json": (folder / "config.json").read_bytes()}
    weights = (folder / "model.safetensors").read_bytes()
    if old:
        buffer = io.BytesIO()
        torch.save({f"bert.{name}": torch.from_numpy(array) for name, array in model.tensors().items()}, buffer)
        files["pytorch_model.bin"] = buffer.getvalue()
    else:
        files["model.safetensors"] = weights
    if lowercase is not None:
        files["tokenizer_config.json"] = json.dumps({"do_lower_case": lowercase}).encode()
    if isinstance(getattr(model, "bert", model), AlbertModel):
        files["tokenizer.json"] = tokenizer_json(203).encode()
    else:
        files["vocab.txt"] = "".join(f"{piece}\n" for piece in PIECES).encode()
    hub.files[f"/{NAME}/resolve/main/config.json"] = files["config.json"]
    for name, content in files.items():
        hub.files[f"/{NAME}/resolve/{hub.newest}/{name}"] = content


def quietly(name: str, **options: Any) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_model(name, **options)


def equal(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(
    "model",
    [
        lambda: BertModel(BertConfig(**SIZES)),
        lambda: AlbertModel(AlbertConfig(**SIZES)),
        lambda: DistilBertModel(DistilBertConfig(**SIZES)),
    ],
    ids=["bert", "albert", "distilbert"],
)
def test_a_repository_tells_what_it_holds(model: Any, hub: Hub, tmp_path: Path) -> None:
    published = model()
    publish(hub, published, tmp_path / "published", lowercase=False)
    with pytest.warns(
        UserWarning, match=r"^someone/small-bert: no checksum of config\.json and tokenizer_config\.json"
    ):
        loaded, tokenizer = get_model(NAME)
    assert equal(loaded, published)
    assert type(loaded) is type(published)
    if not isinstance(published, AlbertModel):
        assert tokenizer.tokenize("word WORD") == ["word", "WORD"]
    assert not (tmp_path / "someone").exists()


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_repository_that_transformers_5_wrote_has_no_vocab_txt(hub: Hub, tmp_path: Path, lowercase: bool) -> None:
    published = BertModel(BertConfig(**SIZES))
    publish(hub, published, tmp_path / "published", lowercase=lowercase)
    WordPiece(PIECES, lowercase).save_pretrained(tmp_path / "tokenizer")
    del hub.files[f"/{NAME}/resolve/{hub.newest}/vocab.txt"]
    content = (tmp_path / "tokenizer" / "tokenizer.json").read_bytes()
    hub.files[f"/{NAME}/resolve/{hub.newest}/tokenizer.json"] = content
    loaded, tokenizer = quietly(NAME)
    assert equal(loaded, published)
    assert tokenizer.vocab == PIECES
    assert tokenizer.tokenize("word WORD") == (["word", "word"] if lowercase else ["word", "WORD"])
    hub.files.clear()  # nothing is asked for again
    hub.requests.clear()
    assert quietly(NAME)[1].vocab == PIECES
    assert hub.requests == []


def test_an_old_repository(hub: Hub, tmp_path: Path) -> None:
    published = BertModel(BertConfig(**SIZES))
    publish(hub, published, tmp_path / "published", old=True)
    loaded, tokenizer = quietly(NAME)
    assert equal(loaded, published)
    assert tokenizer.tokenize("word WORD") == ["word", "word"]
    assert not list(locate(NAME).glob("*.bin"))


def test_the_first_commit_stays_and_needs_no_network_again(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = BertModel(BertConfig(**SIZES))
    publish(hub, published, tmp_path / "published", old=True)
    quietly(NAME)
    hub.newest = "b" * 40
    publish(hub, BertModel(BertConfig(**SIZES)), tmp_path / "later")
    before = len(hub.requests)
    download.forget_failures()
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, _ = get_model(NAME)
    assert equal(again, published)
    assert len(hub.requests) == before
    origin = json.loads((locate(NAME) / "origin.json").read_text())
    assert origin["revision"] == "a" * 40
    assert sorted(origin["sha256"]) == [
        "config.json", "model.safetensors", "pytorch_model.bin", "tokenizer_config.json", "vocab.txt",
    ]  # fmt: skip


def test_without_weights_none_are_asked_for(hub: Hub, tmp_path: Path) -> None:
    publish(hub, BertModel(BertConfig(**SIZES)), tmp_path / "published")
    model, tokenizer = quietly(NAME, pretrained=False)
    assert model.config == BertConfig(**SIZES)
    assert len(tokenizer.vocab) == 203
    assert "model.safetensors" not in hub.downloaded


def test_a_classifier_comes_with_its_head_or_says_that_it_is_left_behind(hub: Hub, tmp_path: Path) -> None:
    published = BertForSequenceClassification(BertModel(BertConfig(**SIZES)), ["no", "yes"])
    publish(hub, published, tmp_path / "published")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = BertForSequenceClassification.from_pretrained(NAME)
    assert whole.labels == ("no", "yes")
    assert equal(whole, published)
    with pytest.warns(
        UserWarning, match=r"BertForSequenceClassification: here is its encoder alone; the whole model is"
    ):
        encoder, _ = get_model(NAME)
    assert equal(encoder, published.bert)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "roberta"}, r"config\.json: model_type is 'roberta', which d2lbert does not compute"),
        ({"vocab_size": 10**12}, r"config\.json: configuration: vocab_size is 1000000000000; it must be"),
        ({"vocab_size": 1000}, r"203 pieces, the model has 1,000 embeddings: the vocabulary is cut off"),
        ({"num_hidden_layers": 3}, r"model\.safetensors of someone/small-bert .* in its place \(.* lacks 16 of 53"),
        ({"num_hidden_layers": 1}, r"in its place \(model\.safetensors: the weights hold 'encoder\.layer\.1\."),
    ],
)
def test_a_repository_that_does_not_fit_itself(change: dict[str, Any], message: str, hub: Hub, tmp_path: Path) -> None:
    publish(hub, BertModel(BertConfig(**SIZES)), tmp_path / "published")
    path = f"/{NAME}/resolve/{hub.newest}/config.json"
    hub.files[path] = json.dumps({**json.loads(hub.files[path]), **change}).encode()
    with pytest.raises(UserError, match=message) as caught:
        fetch_repository(NAME)
    assert "\n" not in str(caught.value)


def test_a_repository_that_lacks_a_file(hub: Hub, tmp_path: Path) -> None:
    publish(hub, BertModel(BertConfig(**SIZES)), tmp_path / "published")
    path = f"/{NAME}/resolve/{hub.newest}/vocab.txt"
    vocabulary = hub.files.pop(path)
    with pytest.raises(UserError, match=r"vocab\.txt of someone/small-bert is not here .* answered 404"):
        fetch_repository(NAME)
    hub.files[path] = vocabulary
    del hub.files[path.replace("vocab.txt", "model.safetensors")]
    download.forget_failures()
    with pytest.raises(UserError, match=r"pytorch_model\.bin of someone/small-bert is not here .* answered 404"):
        fetch_repository(NAME)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_repository_that_is_not_there(status: int, hub: Hub) -> None:
    hub.status = status
    message = (
        rf"^no/such is no folder here, and {hub.url}/no/such is no public model with a config\.json: check the path"
    )
    with pytest.raises(UserError, match=message):
        get_model("no/such")


def test_a_name_that_cannot_be_asked_for(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    with pytest.raises(UserError, match=r"^no/one is neither a folder here nor can it be .*: D2LBERT_OFFLINE=1 forb"):
        get_model("no/one")


def test_a_page_in_place_of_the_configuration(hub: Hub, tmp_path: Path) -> None:
    publish(hub, BertModel(BertConfig(**SIZES)), tmp_path / "published")
    path = f"/{NAME}/resolve/{hub.newest}/config.json"
    right, hub.files[path] = hub.files[path], b"<html>log in</html>"
    with pytest.raises(UserError, match=r"sent something else in its place \(config\.json is not valid JSON"):
        get_model(NAME)
    hub.files[path] = right
    download.forget_failures()
    assert quietly(NAME)[0].config == BertConfig(**SIZES)


def test_a_server_that_names_no_commit(hub: Hub, tmp_path: Path) -> None:
    publish(hub, BertModel(BertConfig(**SIZES)), tmp_path / "published")
    hub.newest = "main"
    with pytest.raises(UserError, match="names no commit for"):
        get_model(NAME)


def test_a_damaged_pin(hub: Hub, tmp_path: Path) -> None:
    publish(hub, BertModel(BertConfig(**SIZES)), tmp_path / "published")
    quietly(NAME)
    pin = tmp_path / "cache" / "models" / "someone--small-bert.json"
    pin.write_text('{"revision": "../../x"}')
    with pytest.raises(UserError, match=rf"^{pin} names no commit: delete it"):
        get_model(NAME)


def test_quantised_weights_are_refused(hub: Hub, tmp_path: Path) -> None:
    model = BertModel(BertConfig(**SIZES))
    publish(hub, model, tmp_path / "published")
    tensors = {name: torch.from_numpy(array).to(torch.int8) for name, array in model.tensors().items()}
    hub.files[f"/{NAME}/resolve/{hub.newest}/model.safetensors"] = save(tensors)
    with pytest.raises(UserError, match="holds numbers of type I8"):
        get_model(NAME)


def test_names_of_repositories() -> None:
    for name in ("prajjwal1/bert-tiny", "a/b", "dmis-lab/biobert-v1.1", "allenai/scibert_scivocab_uncased"):
        assert is_repository_name(name)
    for name in ("bert", "a/b/c", "/a", "a/", "./a", "../a", "a/..", "~/a", "a/b:c", "a b/c", ""):
        assert not is_repository_name(name)
