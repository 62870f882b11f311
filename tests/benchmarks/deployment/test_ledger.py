"""The ledger: its rows and their order, what is kept, the price of the chapter, texts of a length, students."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import numpy as np
import pytest
import torch

from benchmarks.deployment import ledger
from benchmarks.from_outside import WAYS, Seen
from benchmarks.timing import Lap, compare
from d2lbert.text import WordPiece
from d2lbert.zoo import locate

ROOT = Path(__file__).resolve().parents[3]


def test_the_price_is_that_of_the_chapter() -> None:
    cells = nbformat.read(ROOT / "chapters" / "deployment" / "sagemaker.ipynb", as_version=4).cells
    told = [re.search(r"^price_per_hour = ([\d.]+)", cell.source, re.MULTILINE) for cell in cells]
    assert [float(one[1]) for one in told if one] == [ledger.PRICE]
    assert ledger.dollars(1000.0) == pytest.approx(1000 / 3600 * ledger.PRICE)


def test_every_step_has_words_and_a_chapter_that_exists() -> None:
    assert list(ledger.WORDS) == list(ledger.STEPS)
    chapters = {path.stem for path in ROOT.glob("chapters/*/*.ipynb")}
    assert {step.chapter for step in ledger.STEPS.values()} <= chapters | {""}
    assert [name for name, step in ledger.STEPS.items() if not step.make] == list(WAYS)


def test_a_row_has_its_ratio_its_difference_and_its_labels() -> None:
    first, name = ledger.REFERENCE, "pruned"
    laps = {first: [Lap(2, 1.0), Lap(2, 2.0), Lap(2, 1.0)], name: [Lap(2, 0.5), Lap(2, 1.0), Lap(2, 0.25)]}
    speed = compare(laps, "sentences", [(name, first)])
    logits = {first: np.array([[1.0, 0.0], [0.0, 1.0]]), name: np.array([[1.5, 0.0], [0.0, -0.25]])}
    made = ledger.Made(lambda batch: batch, True, {"parameters": 7, "bytes": 30})
    latency = [Lap(1, 0.001 * number) for number in range(1, 101)]
    found = ledger.row(made, latency, speed, name, logits, np.array([0, 1]))
    assert found["milliseconds"] == {"p50": pytest.approx(50), "p95": pytest.approx(95)}
    assert found["sentences_per_second"] == pytest.approx(6 / 1.75)
    assert found["times_the_first"]["median"] == pytest.approx(2.0)
    assert found["largest_difference_of_logits"] == pytest.approx(1.25)
    assert (found["accuracy"], found["changed"], found["parameters"]) == (0.5, 1, 7)
    assert ledger.row(made, latency, speed, first, logits, np.array([0, 1]))["times_the_first"] is None


def test_a_step_that_should_compute_the_same_and_does_not_stops_the_run() -> None:
    first, name = ledger.REFERENCE, "ONNX, 32 bits"
    laps = {first: [Lap(1, 1.0)], name: [Lap(1, 1.0)]}
    speed = compare(laps, "sentences", [(name, first)])
    made = ledger.Made(lambda batch: batch, True, {})
    logits = {first: np.zeros((1, 2)), name: np.full((1, 2), 1e-3)}
    with pytest.raises(SystemExit, match=r"^ONNX, 32 bits: logits differ by 1\.0e-03; it did not compute the same$"):
        ledger.row(made, laps[name], speed, name, logits, np.array([0]))


def stored(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: dict[str, Any]) -> None:
    path = folder / "results" / f"{name}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    monkeypatch.chdir(folder)


def test_steps_that_are_not_measured_anew_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {name: {"old": True} for name in ledger.STEPS}
    stored(tmp_path, monkeypatch, "deployment/ledger", {"metrics": rows})
    kept = ledger.stored_rows("deployment/ledger", ["pruned", "8 bits"], ledger.STEPS)
    assert set(ledger.STEPS) - set(kept) == {"pruned", "8 bits"}
    assert not ledger.stored_rows("deployment/ledger", list(ledger.STEPS), ledger.STEPS)


def test_one_step_needs_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"no stored results/deployment/none\.json: measure all steps first"):
        ledger.stored_rows("deployment/none", ["pruned"], ledger.STEPS)


def test_a_student_has_the_accuracy_of_the_best_way_and_no_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = {
        way: {"parameters": 5, "bytes": 20, "accuracy": {"mean": mean, "n": 3}}
        for way, mean in (("labels", 0.7), ("logits", 0.8), ("soft targets", 0.75))
    }
    content = {"command": "c", "date": "d", "commit": "e", "metrics": {"students": {"BiLSTM": ways}}}
    stored(tmp_path, monkeypatch, "compression/distillation", content)
    found = ledger.student_row("BiLSTM")
    words = "taught by: logits, the best of 3 ways; accuracy: mean of 3 runs"
    assert (found["accuracy"], found["words"]) == (0.8, words)
    assert found["taught"] == {"command": "c", "date": "d", "commit": "e"}
    assert found["largest_difference_of_logits"] is None
    assert found["changed"] is None


def test_each_side_gets_the_texts_of_its_own_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny, mini = (WordPiece.from_pretrained(locate(name)) for name in ("d2lbert-tiny", "minilm"))
    shop = SimpleNamespace(texts=["an unforgettable film", "dull"], tokenizer=mini)
    for tokenizer, own in ((None, mini), (tiny, tiny)):
        made = ledger.Made(lambda batch: batch, False, {}, tokenizer)
        _, layout = ledger.short_side(shop, made)
        assert layout([1, 0]).token_ids[1].tolist() == own.encode("an unforgettable film").ids
        _, layout = ledger.long_side(shop, made, 2)
        assert layout([1]).token_ids.shape == (1, ledger.TOKENS)
    assert tiny.encode("an unforgettable film").ids != mini.encode("an unforgettable film").ids


def test_what_is_seen_from_outside_becomes_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "size_of", lambda model: {"parameters": 7, "bytes": 30})
    found = ledger.outside_row(torch.nn.Identity(), Seen([], [0.25, 0.5], 1000.0), "sentences")
    assert (found["parameters"], found["bytes"], found["sentences_per_second"]) == (7, 30, 1000.0)
    assert found["milliseconds"] == {"p50": 250.0, "p95": 500.0}
    assert found["dollars_per_million"] == pytest.approx(ledger.dollars(1000.0))
    downloaded = ledger.outside_row(torch.nn.Identity(), Seen([], [], 1000.0, 27), "sentences")
    assert (downloaded["bytes"], downloaded["dollars_per_million"], downloaded["milliseconds"]) == (27, None, None)


def test_the_ways_that_are_asked_for_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as its name says, with two sentences here; labels are compared with PyTorch's and with the right ones."""
    shop = SimpleNamespace(truth=np.array([0, 1, 1]), whole=SimpleNamespace(encodings=lambda part: [0, 1, 2]))
    shop.model = SimpleNamespace(labels=("negative", "positive"))
    limits = SimpleNamespace(asked=lambda given: [given], seconds=3.0)
    calls = []

    def ask(*given: Any) -> Seen:
        calls.append(given)
        return Seen([{"label": "negative"}, {"label": "negative"}], [], 1000.0)

    monkeypatch.setattr(ledger, "seen_from_outside", ask)
    monkeypatch.setattr(ledger, "size_of", lambda model: {"parameters": 7})
    monkeypatch.setattr(ledger, "labels_of", lambda engine, encodings: np.array([0, 1][: len(encodings)]))
    found = ledger.outside_rows(shop, ["pruned", "served", "in the browser"], limits)
    asked = (ledger.MODEL, ledger.TOKENS, [shop], 3.0)
    assert calls == [("served", *asked), ("in the browser", *asked)]
    assert list(found) == ["served", "in the browser"]
    for row in found.values():
        assert (row["accuracy"], row["changed"], row["right before"], row["parameters"]) == (0.5, 1, 1, 7)


def test_texts_are_as_long_as_whole_words_allow() -> None:
    tokenizer = WordPiece.from_pretrained(locate("d2lbert-tiny"))
    texts = ["a warm and unforgettable film", "dull, from start to end"]
    found = ledger.shortened(tokenizer, texts, 32, 2)
    lengths = [len(tokenizer.encode(text)) for text in found]
    assert all(26 <= length <= 32 for length in lengths)
    assert found[0] != found[1]
