"""Model cards: what a run knows is in them, in the layout of the hub, and the command in them is a command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from typer.testing import CliRunner

from d2lbert.cli import app
from d2lbert.commands.card import Trained, command, model_card, typed_columns
from d2lbert.config.training import Training
from d2lbert.data.readers.tables import Columns

BEST = {"epoch": 2, "loss": 0.5, "seconds": 3.0, "tokens_per_second": 7.0, "accuracy": 0.9, "f1_macro": 0.81234567}


def run(**changes: Any) -> Trained:
    values: dict[str, Any] = {
        "task": "classification", "model": "minilm", "train": "sst2", "dev": "sst2", "settings": Training(),
        "sizes": (6000, 400), "labels": ("negative", "positive"), "best": BEST,
    }  # fmt: skip
    return Trained(**{**values, **changes})


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path / "cache"))


def test_the_hub_reads_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ModelCard(model_card(run(), "films")).data
    assert (values.language, values.library_name, values.pipeline_tag) == ("en", "transformers", "text-classification")
    assert values.metrics == ["accuracy", "f1_macro"]
    assert values.base_model is None  # a Python package
    assert {result.metric_type: result.metric_value for result in values.eval_results} == {
        "accuracy": 0.9, "f1_macro": 0.8123,
    }  # fmt: skip
    assert (
        ModelCard(model_card(run(model="bert_12_768_12:wiki_cn_cased"), "x")).data.base_model
        == "google-bert/bert-base-chinese"
    )
    assert ModelCard(model_card(run(model="someone/bert"), "x")).data.base_model == "someone/bert"


def test_base_data_scores_and_limits_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    card = model_card(run(settings=Training(epochs=4, max_length=77)), "films")
    for part in (
        "# films\n", "`negative`, `positive`", "`minilm`, wang2020minilm", "Licence: Apache-2.0.", "`sst2`: sentence",
        "Licence: not stated. Source: https://nlp.stanford.edu", "6,000 training examples; 400 of dev",
        "| accuracy | 0.9000 |", "Epoch 2 of 4, on 400 examples", "from 0.866 to 0.926 possible", "at most 77 tokens",
        "reads new texts so, too, unless `--max-length` says",
        "had already met SQuAD", "Accents and part of the punctuation are lost", "None is chosen yet",
    ):  # fmt: skip
        assert part in card, part
    assert "tokens_per_second" not in card


def test_a_sample_is_called_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("D2LBERT_DATA", raising=False)
    assert "a small sample written for the book stood in. Do not use this model." in model_card(run(), "x")
    monkeypatch.setattr("d2lbert.data.is_sample", lambda name: False)
    assert "sample" not in model_card(run(), "x")


def test_of_a_file_it_is_said_what_is_not_known(tmp_path: Path) -> None:
    folder = tmp_path / "base"
    folder.mkdir()
    card = model_card(run(model=str(folder), train="my tickets.csv", dev="0.1", labels=()), "tickets")
    assert "Language and licence: not known to the program; say them here." in card
    assert f"`{folder}`. Licence: see there" in card
    assert "Labels:" not in card
    assert "language" not in ModelCard(card).data.to_dict()


def test_many_labels_and_windows() -> None:
    card = model_card(run(labels=[f"c{number}" for number in range(40)]), "x")
    assert "`c29` and 10 more, which" in card
    assert "longer texts are read in windows" in model_card(run(task="question_answering", labels=()), "x")
    assert "interval" not in model_card(run(task="tagging"), "x")


@pytest.mark.parametrize(
    ("right", "count", "interval"),
    [
        (0, 1, (0.0, 0.794)), (1, 1, (0.206, 1.0)), (0, 40, (0.0, 0.088)), (40, 40, (0.912, 1.0)),
        (21, 29, (0.542, 0.854)), (10**6, 10**6, (0.999, 1.0)),
    ],
)  # fmt: skip
def test_even_where_all_answers_are_right_the_accuracy_is_uncertain(
    right: int, count: int, interval: tuple[float, float]
) -> None:
    """What scipy gives (``binomtest(...).proportion_ci(0.95, "wilson")``), rounded outwards."""
    card = model_card(run(best={**BEST, "accuracy": right / count}, sizes=(9, count)), "x")
    assert f"any accuracy from {interval[0]:.3f} to {interval[1]:.3f} possible" in card


def test_the_command_trains_it_again() -> None:
    settings = Training(learning_rate=3e-05, epochs=7, packed=False, balanced=True, best_by="f1_macro")
    options = typed_columns(Columns(text_column="the ticket", separator=";"))
    line = command(run(train="my tickets.csv", dev="0.2", settings=settings, options=options))
    words = shlex.split(line)
    assert words[:2] == ["d2lbert", "finetune"]
    for part in (
        "--train 'my tickets.csv'", "--dev 0.2", "--lr 3e-05", "--epochs 7", "--no-packed", "--balanced", "--seed 0",
        "--best-by f1_macro", "--text-column 'the ticket'", "--separator ';'", "--out OUT",
    ):  # fmt: skip
        assert part in line, part
    assert "--warmup" not in line
    known = CliRunner().invoke(app, ["finetune", "--help"], env={"COLUMNS": "300", "TERM": "dumb"}).output
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", known))
