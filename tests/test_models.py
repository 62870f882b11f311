"""Models by name."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
import torch

from d2lbert import UserError, get_model
from d2lbert.config import BertConfig, Seq2SeqConfig, TransformerConfig
from d2lbert.data.translation import PAIR_TOKENS
from d2lbert.models import tokenizer_of_name
from d2lbert.text import SPECIAL_TOKENS, BytePairEncoding, WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.compression import prune_encoder
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.relatives import PrunedBertModel
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer
from d2lbert.zoo.gluonnlp import STORE
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
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": len(tokenizer.vocab)}))
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
        ({"name": "d2lbert-tiny", "dataset_name": "wiki"}, "has no data set 'wiki'"),
        ({"name": "minilm", "edition": "jax"}, "unknown edition 'jax'"),
        ({"name": "some/where/else"}, "not a model folder"),
        (
            {"name": "some/folder"},
            r"^some/folder is neither a folder here nor can it be .*OFFLINE=1 forbids",
        ),
        ({"name": "minilm", "path": "some/where/else"}, "not a model folder"),
        ({"name": "bert_24_1024_16"}, "several data sets: choose a dataset_name"),
        ({"name": "bert_12_768_12", "dataset_name": "wiki_cn"}, "did you mean wiki_cn_cased"),
    ],
)
def test_names_that_are_not_there(arguments: dict[str, str], message: str, no_data: None) -> None:
    with pytest.raises(UserError, match=message):
        get_model(**arguments)


@pytest.mark.parametrize("entry", [entry for entry in entries() if entry.source == "none"], ids=lambda e: e.label)
def test_what_is_not_public_is_never_replaced(entry: ModelEntry, no_data: None) -> None:
    with pytest.raises(UserError) as caught:
        get_model(entry.name, entry.dataset)
    assert str(caught.value) == (
        f"no weights for {entry.label}: {entry.reason}; GluonNLP's {entry.params_file} and {entry.vocab_file}, once "
        f"below {STORE}, are read if you have them: give the first as path= or --model; "
        f"the nearest, but another model, is {entry.nearest}"
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


@pytest.fixture(params=["transformer", "seq2seq"])
def translator(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[torch.nn.Module, Path]:
    """A small translator, and its folder with the encoding of both languages."""
    tokenizer = BytePairEncoding([(ord("a"), ord("n")), (ord(" "), ord("m"))], PAIR_TOKENS)
    pieces, tables = len(tokenizer), {"share_embeddings": True, "tie_word_embeddings": True}
    torch.manual_seed(0)
    model: torch.nn.Module = Seq2Seq(Seq2SeqConfig(pieces, pieces, 8, embedding_size=6, **tables))
    if request.param == "transformer":
        model = Transformer(TransformerConfig(pieces, pieces, 8, num_attention_heads=2, intermediate_size=12))
    model.eval().save_pretrained(tmp_path)  # type: ignore[operator]
    tokenizer.save(tmp_path / "vocabulary.json")
    return model, tmp_path


@pytest.mark.parametrize("edition", ["torch", "mxnet"])
def test_a_translator_comes_with_its_encoding(edition: str, translator: tuple[torch.nn.Module, Path]) -> None:
    pytest.importorskip(f"d2lbert.{edition}", exc_type=ImportError)
    model, folder = translator
    found, tokenizer = get_model(str(folder), edition=edition)
    source, target = [tokenizer.encode("a man")], [[1, *tokenizer.encode("ein Mann")]]
    expected = model(torch.tensor(source), torch.tensor(target)).logits.detach().numpy()
    if edition == "mxnet":
        from mxnet import nd

        logits = found(nd.array(source), nd.array(target)).logits.asnumpy()
    else:
        logits = found(torch.tensor(source), torch.tensor(target)).logits.detach().numpy()
    assert abs(logits - expected).max() < 1e-5
    random, _ = get_model(str(folder), edition=edition, pretrained=False)
    assert random.config == found.config
    assert type(random) is type(found)


def test_a_translator_in_half_precision_is_float32_when_loaded(translator: tuple[torch.nn.Module, Path]) -> None:
    model, folder = translator
    before = (folder / "model.safetensors").stat().st_size
    model.save_pretrained(folder, half=True)  # type: ignore[operator]
    assert (folder / "model.safetensors").stat().st_size < 0.75 * before  # of small tensors much is the header
    loaded = dict(get_model(str(folder))[0].named_parameters())
    for name, value in model.named_parameters():
        assert loaded[name].dtype == torch.float32
        assert torch.equal(loaded[name], value.half().float())
    with torch.no_grad():
        next(model.parameters()).fill_(1e5)
    with pytest.raises(UserError, match="holds NaN or infinity, so nothing was written"):
        model.save_pretrained(folder, half=True)  # type: ignore[operator]


def test_a_translator_without_its_parts_is_one_line(translator: tuple[torch.nn.Module, Path]) -> None:
    folder = translator[1]
    with pytest.raises(UserError, match="is a translator, which is no encoder: choose a BERT"):
        tokenizer_of_name(str(folder))
    BytePairEncoding([], PAIR_TOKENS).save(folder / "vocabulary.json")
    with pytest.warns(UserWarning, match="are padding, or the vocabulary is cut off"):
        get_model(str(folder))
    more = [
        (ord("a"), ord("n")),
        (ord(" "), ord("m")),
        (ord("M"), ord("a")),
        (ord("e"), ord("i")),
        (ord("e"), ord("n")),
    ]
    BytePairEncoding(more, PAIR_TOKENS).save(folder / "vocabulary.json")
    with pytest.raises(UserError, match="vocabulary and weights are not of one model"):
        get_model(str(folder))
    (folder / "vocabulary.json").unlink()
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r" lacks model\.safetensors and vocabulary\.json: give a whole model folder$"):
        get_model(str(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small classifier with its tokenizer."""
    pieces = [*SPECIAL_TOKENS, *(f"w{number}" for number in range(195))]
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
    bert = BertModel(BertConfig(vocab_size=200, **sizes))
    BertForSequenceClassification(bert, ["no", "yes"]).save_pretrained(tmp_path)
    WordPiece(pieces).save_pretrained(tmp_path)
    return tmp_path


def test_a_pruned_model_is_loaded_from_its_folder(folder: Path, tmp_path: Path) -> None:
    bert, tokenizer = BertModel.from_pretrained(folder), WordPiece.from_pretrained(folder)
    pruned = prune_encoder(bert, heads=[[0]] * bert.config.num_hidden_layers)
    pruned.save_pretrained(tmp_path / "pruned")
    tokenizer.save_pretrained(tmp_path / "pruned")
    model, found = get_model(str(tmp_path / "pruned"))
    assert isinstance(model, PrunedBertModel)
    assert found.vocab == tokenizer.vocab == tokenizer_of_name(str(tmp_path / "pruned")).vocab
    ids = torch.tensor([[2, 3, 4]])
    assert torch.equal(model(ids).pooled, pruned(ids).pooled)
    assert get_model(str(tmp_path / "pruned"), pretrained=False)[0].config == pruned.config
    with pytest.raises(UserError, match=r"^the mxnet edition has no pruned_bert: use edition='torch'$"):
        get_model(str(tmp_path / "pruned"), edition="mxnet")


def test_a_head_that_is_left_behind_is_said(folder: Path) -> None:
    loader = re.escape(f"d2lbert.torch.heads.BertForSequenceClassification.from_pretrained('{folder}')")
    with pytest.warns(UserWarning, match=f"here is its encoder alone; the whole model is {loader}$"):
        encoder, _ = get_model(str(folder))
    encoder.save_pretrained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_model(str(folder))
        get_model("d2lbert-tiny")


def test_a_folder_says_all_that_it_lacks(folder: Path) -> None:
    assert get_model(folder.as_uri(), pretrained=False)[0].config.vocab_size == 200
    (folder / "vocab.txt").unlink()
    get_model(folder.as_uri(), pretrained=False)  # transformers 5 writes no vocab.txt
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r" lacks vocab\.txt \(or tokenizer\.json\): give a whole model folder$"):
        get_model(str(folder))
    (folder / "model.safetensors").unlink()
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r" lacks config\.json and model\.safetensors and vocab\.txt"):
        get_model(str(folder))


@pytest.mark.parametrize(
    ("pieces", "outcome"), [(72, "cut off or of another model"), (73, "127 are padding"), (199, "1 are padding")]
)
def test_a_vocabulary_that_is_cut_off(pieces: int, outcome: str, folder: Path) -> None:
    lines = (folder / "vocab.txt").read_text().splitlines(keepends=True)
    (folder / "vocab.txt").write_text("".join(lines[:pieces]))
    BertModel.from_pretrained(folder).save_pretrained(folder)
    sizes = f"the tokenizer has {pieces} pieces, the model has 200 embeddings"
    if pieces < 73:
        with pytest.raises(UserError, match=f"{sizes}: the vocabulary is {outcome}, copy it again"):
            get_model(str(folder))
    else:
        with pytest.warns(UserWarning, match=f"{sizes}: the last {outcome}"):
            get_model(str(folder))
    (folder / "vocab.txt").write_text("".join([*lines, "more\n"]))
    with pytest.raises(UserError, match="has 201 pieces, the model has 200 embeddings: vocabulary and weights are not"):
        get_model(str(folder))
