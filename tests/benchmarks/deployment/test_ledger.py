"""The ledger: its rows and their order, what is kept, the price of the chapter, texts of a length, students."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from benchmarks.deployment import ledger
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
    assert [name for name, step in ledger.STEPS.items() if step.make is None] == [ledger.SERVED]


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
    rows = {name: {"old": True} for name in (*ledger.STEPS, f"{ledger.STUDENT}x")}
    stored(tmp_path, monkeypatch, "deployment/ledger", {"metrics": rows})
    kept = ledger.stored_rows("deployment/ledger", ["pruned", "8 bits"])
    assert set(ledger.STEPS) - set(kept) == {"pruned", "8 bits"}
    assert set(kept) <= set(ledger.STEPS)  # students are read anew
    assert not ledger.stored_rows("deployment/ledger", list(ledger.STEPS))


def test_one_step_needs_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"no stored results/deployment/none\.json: measure all steps first"):
        ledger.stored_rows("deployment/none", ["pruned"])


def test_students_stand_where_their_chapter_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {
        way: {"parameters": 5, "bytes": 20, "accuracy": {"mean": mean, "n": 3}}
        for way, mean in (("labels", 0.7), ("logits", 0.8), ("soft targets", 0.75))
    }
    content = {"command": "c", "date": "d", "commit": "e", "metrics": {"students": {"BiLSTM": ways}}}
    stored(tmp_path, monkeypatch, "compression/distillation", content)
    students = ledger.student_rows()
    assert list(students) == ["student: BiLSTM"]
    found = students["student: BiLSTM"]
    assert (found["accuracy"], found["words"]) == (0.8, "taught by: logits, the best of 3 ways; mean of 3 runs")
    assert found["measured"] == {"command": "c", "date": "d", "commit": "e"}
    names = list(ledger.in_order({**dict.fromkeys(ledger.STEPS), **students}))
    assert names[names.index("narrow table") + 1] == "student: BiLSTM"
    assert names[names.index("student: BiLSTM") + 1] == "pruned"
    assert len(names) == len(ledger.STEPS) + 1


def test_texts_are_as_long_as_whole_words_allow() -> None:
    tokenizer = WordPiece.from_pretrained(locate("d2lbert-tiny"))
    texts = ["a warm and unforgettable film", "dull, from start to end"]
    found = ledger.shortened(tokenizer, texts, 32, 2)
    lengths = [len(tokenizer.encode(text)) for text in found]
    assert all(26 <= length <= 32 for length in lengths)
    assert found[0] != found[1]
