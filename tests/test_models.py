"""Models by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from d2lbert import UserError, get_model
from d2lbert.models import tokenizer_of_name
from d2lbert.text import WordPiece
from d2lbert.zoo.table import ModelEntry, entries


def test_get_model_returns_a_model_and_the_tokenizer_it_was_trained_with() -> None:
    model, tokenizer = get_model("minilm")
    assert isinstance(tokenizer, WordPiece)
    assert len(tokenizer.vocab) == model.config.vocab_size
    vectors = []
    for text in ("A cat sat on the mat.", "A kitten was sitting on a rug.", "Interest rates rose by a percent."):
        ids = torch.tensor([tokenizer.encode(text).ids])
        vectors.append(model(ids).sequence[0].mean(0))  # this model was trained to embed a sentence by its mean
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(vectors[0], vectors[1], dim=0) > 0.5 > cosine(vectors[0], vectors[2], dim=0)


def test_the_tokenizer_of_a_name_needs_no_weights(tmp_path: Path) -> None:
    tokenizer = get_model("d2lbert-tiny")[1]
    assert tokenizer_of_name("d2lbert-tiny").vocab == tokenizer.vocab
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert tokenizer_of_name(str(tmp_path)).vocab == tokenizer.vocab
    with pytest.raises(UserError, match="elmo-small has no tokenizer of pieces: choose a BERT"):
        tokenizer_of_name("elmo-small")


def test_random_weights_have_the_same_sizes() -> None:
    trained, _ = get_model("minilm")
    random, _ = get_model("minilm", pretrained=False)
    assert random.config == trained.config
    assert not torch.equal(random.pooler.weight, trained.pooler.weight)


def test_a_folder_stands_in_for_the_name(tmp_path: Path) -> None:
    model, tokenizer = get_model("minilm")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    copy, _ = get_model("mine", path=tmp_path)
    assert torch.equal(copy.pooler.weight, model.pooler.weight)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "minlm"}, "unknown model 'minlm': did you mean minilm"),
        ({"name": "minilm", "dataset_name": "wiki"}, "has no data set 'wiki'"),
        ({"name": "minilm", "edition": "jax"}, "unknown edition 'jax'"),
        ({"name": "some/folder"}, "not a model folder"),
        ({"name": "bert_24_1024_16"}, "several data sets: choose a dataset_name"),
        ({"name": "bert_12_768_12", "dataset_name": "wiki_cn"}, "did you mean wiki_cn_cased"),
    ],
)
def test_names_that_are_not_there(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        get_model(**arguments)


@pytest.mark.parametrize("entry", [entry for entry in entries() if entry.source == "none"], ids=lambda e: e.label)
def test_what_is_not_public_is_never_replaced(entry: ModelEntry) -> None:
    with pytest.raises(UserError) as caught:
        get_model(entry.name, entry.dataset)
    assert str(caught.value) == (
        f"no weights for {entry.label}: {entry.reason}; the nearest, but another model, is {entry.nearest}"
    )
    with pytest.raises(UserError, match="no weights for"):
        get_model(entry.name, entry.dataset, pretrained=False)


@pytest.mark.parametrize("edition", ["torch", "mxnet"])
def test_the_elmo_of_the_book(edition: str) -> None:
    pytest.importorskip(f"d2lbert.{edition}", exc_type=ImportError)
    model, words = get_model("elmo-small", edition=edition)
    ids, mask = words.batch([["a", "river", "bank"], ["rain"]])
    layers = (
        model(torch.from_numpy(ids), torch.from_numpy(mask)).layers if edition == "torch" else model(ids, mask).layers
    )
    assert [tuple(layer.shape) for layer in layers] == [(2, 5, 2 * model.config.projection_size)] * 3
    new, _ = get_model("elmo-small", edition=edition, pretrained=False)
    assert new.config == model.config
