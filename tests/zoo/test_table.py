"""The table of models: every row that was promised, complete, and the errors of names that are not in it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.config import AlbertConfig, BertConfig, GptConfig
from d2lbert.weights.gpt import gpt_file_shapes
from d2lbert.zoo.table import ModelEntry, entries, find_entry

# The rows of GluonNLP's table of BERTs, and the models beside them.
PROMISED = {
    "bert_12_768_12": [
        "book_corpus_wiki_en_uncased",
        "book_corpus_wiki_en_cased",
        "openwebtext_book_corpus_wiki_en_uncased",
        "wiki_multilingual_uncased",
        "wiki_multilingual_cased",
        "wiki_cn_cased",
        "scibert_scivocab_uncased",
        "scibert_scivocab_cased",
        "scibert_basevocab_uncased",
        "scibert_basevocab_cased",
        "biobert_v1.0_pmc_cased",
        "biobert_v1.0_pubmed_cased",
        "biobert_v1.0_pubmed_pmc_cased",
        "biobert_v1.1_pubmed_cased",
        "clinicalbert_uncased",
    ],
    "bert_24_1024_16": ["book_corpus_wiki_en_uncased", "book_corpus_wiki_en_cased"],
    "ernie_12_768_12": ["baidu_ernie_uncased"],
    "distilbert_6_768_12": ["distilbert_book_corpus_wiki_en_uncased", "distilbert_book_corpus_wiki_en_cased"],
    "albert_12_768_12": ["book_corpus_wiki_en_uncased"],
    "albert_24_1024_16": ["book_corpus_wiki_en_uncased"],
    "gpt2_117m": ["openai_webtext"],
    "gpt2_345m": ["openai_webtext"],
    "gpt2_774m": ["openai_webtext"],
    "gpt2_1558m": ["openai_webtext"],
    "bert_tiny": ["book_corpus_wiki_en_uncased"],
    "bert_mini": ["book_corpus_wiki_en_uncased"],
    "bert_small": ["book_corpus_wiki_en_uncased"],
    "bert_medium": ["book_corpus_wiki_en_uncased"],
    "minilm": ["", "mrpc", "sick", "squad", "sst2", "stsb_en", "wnut17"],
    "elmo-small": [""],
    "transformer-en-de": [""],
    "seq2seq-en-de": [""],
    "d2lbert-tiny": [""],
}
LABELS = [entry.label for entry in entries()]


def test_every_promised_row_is_there_once() -> None:
    datasets_of: dict[str, list[str]] = {}
    for entry in entries():
        datasets_of.setdefault(entry.name, []).append(entry.dataset)
    assert {name: sorted(datasets) for name, datasets in datasets_of.items()} == {
        name: sorted(datasets) for name, datasets in PROMISED.items()
    }


@pytest.mark.parametrize("entry", entries(), ids=LABELS)
def test_entries_are_complete(entry: ModelEntry, root: Path) -> None:
    assert entry.licence
    assert f"{{{entry.citation}," in (root / "references.bib").read_text()
    assert entry.source in ("hub", "package", "book", "none")
    assert (entry.source == "none") == bool(entry.reason) == bool(entry.nearest)
    if entry.nearest:
        assert find_entry(entry.nearest).source != "none"
    if entry.source == "hub":
        assert re.fullmatch(r"[\w-]+/[\w.-]+", entry.repository)
        assert re.fullmatch("[0-9a-f]{40}", entry.revision)
        assert entry.weights in ("model.safetensors", "pytorch_model.bin")
        assert entry.megabytes > 0
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in entry.sha256.values())
    if entry.checkout_only:
        assert entry.source == "book"
        assert re.fullmatch("[0-9a-f]{40}", entry.revision)
        assert any(name.endswith(".safetensors") for name in entry.sha256)
    else:
        assert set(entry.sha256) <= {entry.weights, entry.vocabulary}


@pytest.mark.parametrize("entry", entries(), ids=LABELS)
def test_names_tell_sizes_and_case(entry: ModelEntry) -> None:
    if sizes := re.fullmatch(r"(?:bert|ernie|albert|distilbert)_(\d+)_(\d+)_(\d+)", entry.name):
        config = entry.config
        assert isinstance(config, BertConfig)
        assert [config.num_hidden_layers, config.hidden_size, config.num_attention_heads] == list(
            map(int, sizes.groups())
        )
        assert config.intermediate_size == 4 * config.hidden_size
    if repository := re.search(r"L-(\d+)_H-(\d+)_A-(\d+)", entry.repository):
        config = entry.config
        assert isinstance(config, BertConfig)
        config_sizes = [config.num_hidden_layers, config.hidden_size, config.num_attention_heads]
        assert config_sizes == list(map(int, repository.groups()))
    if entry.dataset.endswith("_cased"):
        assert not entry.lowercase
    if entry.dataset.endswith("_uncased"):
        assert entry.lowercase


def test_ernie_is_another_network_than_bert() -> None:
    ernie, bert = find_entry("ernie_12_768_12").config, find_entry("bert_12_768_12:wiki_cn_cased").config
    assert isinstance(ernie, BertConfig)
    assert isinstance(bert, BertConfig)
    assert (ernie.hidden_act, ernie.max_position_embeddings, ernie.layer_norm_eps) == ("relu", 513, 1e-5)
    assert (bert.hidden_act, bert.max_position_embeddings, bert.layer_norm_eps) == ("gelu", 512, 1e-12)


def test_size_on_the_hub_fits_the_sizes_of_the_network() -> None:
    """Four bytes a parameter; the heads of pretraining, and a pooler more or less, add no more than a hundredth."""
    for entry in entries():
        if entry.source == "hub" and isinstance(entry.config, BertConfig):
            c = entry.config
            blocks = c.num_hidden_groups if isinstance(c, AlbertConfig) else c.num_hidden_layers
            block = 4 * (c.hidden_size**2 + c.hidden_size) + 2 * c.hidden_size * c.intermediate_size
            width = c.embedding_size if isinstance(c, AlbertConfig) else c.hidden_size
            embeddings = (c.vocab_size + c.max_position_embeddings + 2) * width
            widening = width * c.hidden_size if width != c.hidden_size else 0
            megabytes = 4 * (embeddings + widening + blocks * block + c.hidden_size**2) / 1e6
            assert abs(entry.megabytes - megabytes) < 0.015 * megabytes + 0.5, entry.label


# Radford et al. 2019, table 2, and the counts that the first release corrected later: 124 for 117, 355 for 345.
@pytest.mark.parametrize(("size", "millions"), [("117m", 124), ("345m", 355), ("774m", 774), ("1558m", 1558)])
def test_sizes_of_gpt2(size: str, millions: int) -> None:
    entry = find_entry(f"gpt2_{size}")
    assert isinstance(entry.config, GptConfig)
    parameters = sum(math.prod(shape) for shape in gpt_file_shapes(entry.config).values())
    assert round(parameters / 1e6) == millions
    masks = entry.config.n_layer * entry.config.n_positions**2  # every block of the file holds one
    assert abs(entry.megabytes - 4 * (parameters + masks) / 1e6) < 0.001 * entry.megabytes + 1
    assert entry.config.n_head * 64 == entry.config.n_embd
    assert entry.config.n_inner == 4 * entry.config.n_embd


@pytest.mark.parametrize(
    ("name", "dataset"),
    [
        ("bert_12_768_12", "ernie_baidu_cn_uncased"),
        ("bert_12_768_12:ernie_baidu_cn_uncased", None),
        ("ernie_12_768_12", "ernie_baidu_cn_uncased"),
        ("ernie_baidu_cn_uncased", None),
    ],
)
def test_an_entry_may_have_other_names(name: str, dataset: str | None) -> None:
    assert find_entry(name, dataset).label == "ernie_12_768_12:baidu_ernie_uncased"


# The table of models on the slide "BERT in GluonNLP": its rows, and which of them have a network of 24 layers as well.
SLIDE = [
    "book_corpus_wiki_en_uncased",
    "book_corpus_wiki_en_cased",
    "openwebtext_book_corpus_wiki_en_uncased",
    "wiki_multilingual_uncased",
    "wiki_multilingual_cased",
    "wiki_cn_cased",
    "scibert_scivocab_uncased",
    "scibert_scivocab_cased",
    "scibert_basevocab_uncased",
    "scibert_basevocab_cased",
    "biobert_v1.0_pmc_cased",
    "biobert_v1.0_pubmed_cased",
    "biobert_v1.0_pubmed_pmc_cased",
    "biobert_v1.1_pubmed_cased",
    "clinicalbert_uncased",
    "ernie_baidu_cn_uncased",
]


@pytest.mark.parametrize("dataset", SLIDE)
def test_every_name_of_the_slide_resolves_or_says_why_not(dataset: str) -> None:
    entry = find_entry("bert_12_768_12", dataset)
    assert entry.repository or (len(entry.reason) > 20 and find_entry(entry.nearest).repository)


def test_no_alias_hides_a_name() -> None:
    aliases = [alias for entry in entries() for alias in entry.aliases]
    assert len(set(aliases)) == len(aliases)
    assert not set(aliases) & {entry.label for entry in entries()} | set(aliases) & {entry.name for entry in entries()}


def test_one_data_set_needs_no_name_and_several_do() -> None:
    assert find_entry("bert_tiny").label == "bert_tiny:book_corpus_wiki_en_uncased"
    assert find_entry("bert_12_768_12:wiki_cn_cased") == find_entry("bert_12_768_12", "wiki_cn_cased")
    with pytest.raises(UserError, match=r"several data sets: choose a dataset_name, as in bert_24_1024_16:book"):
        find_entry("bert_24_1024_16")


@pytest.mark.parametrize(
    ("name", "dataset", "message"),
    [
        ("bert_12_768_21", None, "unknown model 'bert_12_768_21': did you mean bert_12_768_12"),
        ("bert_12_768_12", "wiki_cn", "unknown data set of bert_12_768_12 'wiki_cn': did you mean wiki_cn_cased"),
        ("bert_12_768_12:wiki_cn", None, "unknown data set of bert_12_768_12 'wiki_cn': did you mean wiki_cn_cased"),
        ("d2lbert-tiny", "wiki", "has no data set 'wiki'"),
        ("minilm", "wiki", "unknown data set of minilm 'wiki': "),
        ("", None, "unknown model ''"),
    ],
)
def test_names_that_are_not_there(name: str, dataset: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_entry(name, dataset)
