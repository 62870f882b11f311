"""Engines take turns: the logits of all turns but the warm-up, what differs, and texts of one length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import engine_turns
from benchmarks.engine_turns import differences, race, texts_of_length
from d2lbert.data.batching import pack, pad
from d2lbert.text import WordPiece
from d2lbert.zoo import locate


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece.from_pretrained(locate("d2lbert-tiny"))


def test_each_engine_gets_its_layout_and_the_warm_up_is_left_out(
    tokenizer: WordPiece, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_turns, "PAUSE", 0.0)
    seen: dict[str, list[int]] = {"ours": [], "theirs": []}  # rows of each batch

    def engine(name: str) -> Any:
        def run(batch: Any) -> np.ndarray:
            seen[name].append(len(batch.token_ids))
            return np.full((2, 3), float(len(seen[name])))

        return run

    turns = [tokenizer.encode_batch(["a film", text]) for text in ("dull", "warm", "a dull film")]
    found, logits = race({"ours": (engine("ours"), pack), "theirs": (engine("theirs"), pad)}, turns, "texts", "theirs")
    assert seen == {"ours": [1] * 5, "theirs": [2] * 5}  # packed into one row, or a row for each text
    assert logits["ours"][:, 0].tolist() == [3.0, 3.0, 4.0, 4.0, 5.0, 5.0]  # after two turns to warm up
    assert list(found["ratio"]) == ["ours to theirs"]
    assert set(found["texts_per_second"]) == {"ours", "theirs"}


def test_an_engine_of_float32_that_computes_something_else_stops_the_benchmark() -> None:
    right = np.array([[1.0, 0.0], [0.0, 1.0]])
    logits = {"theirs": right, "near": right + 1e-5, "int8": right[:, ::-1]}
    found = differences(logits, "theirs", reduced=("int8",))
    assert found["near"] == {"largest_difference_of_logits": pytest.approx(1e-5), "changed_labels": 0.0}
    assert found["int8"] == {"largest_difference_of_logits": 1.0, "changed_labels": 1.0}
    with pytest.raises(SystemExit, match="int8: logits differ by"):
        differences(logits, "theirs")


def test_texts_have_the_length_and_begin_at_different_sentences(tokenizer: WordPiece) -> None:
    texts = texts_of_length(tokenizer, ["a warm film", "dull from start to end"], 32, 2)
    assert [len(one) for one in texts] == [32, 32]
    assert texts[0].ids != texts[1].ids
