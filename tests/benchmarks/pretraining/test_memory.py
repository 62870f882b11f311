"""What the benchmark of a memory counts: which letters are asked for, and that a window sees what it should."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benchmarks.pretraining.memory import (
    ALPHABET,
    ASKED_STREAMS,
    ASKED_WITH,
    SEGMENT,
    WINDOW_STEP,
    LanguageModel,
    ask,
    ask_by_window,
    in_streams,
    letters_of,
    losses,
    segments,
    summary,
)
from d2lbert.data.examples import Document

LONGEST = max(ASKED_WITH)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel().eval()


@pytest.fixture(scope="module")
def letters() -> np.ndarray:
    """Two segments for each row beyond the longest memory."""
    return np.random.default_rng(0).integers(0, len(ALPHABET), ASKED_STREAMS * (LONGEST + 2 * SEGMENT) + 1)


def test_articles_become_letters() -> None:
    articles = [Document(("Zoë's 2 cafés.", "Ä!")), Document(("End",))]
    assert "".join(ALPHABET[number] for number in letters_of(articles)) == "zoe s cafes a end"


def test_each_stream_is_read_on(letters: np.ndarray) -> None:
    read = list(segments(letters, 3))
    rows = in_streams(letters, 3)
    assert torch.equal(torch.cat([ids for ids, _ in read], 1), rows[:, :-1])
    assert torch.equal(torch.cat([following for _, following in read], 1), rows[:, 1:])
    length = rows.shape[1] - 1
    assert length % SEGMENT == 0
    assert rows[1, 0] == letters[length]


@torch.inference_mode()
def test_a_window_asks_for_the_same_letters_with_a_full_context(model: LanguageModel, letters: np.ndarray) -> None:
    one_by_one = []
    for row in in_streams(letters, ASKED_STREAMS):
        for place in range(LONGEST + 1, len(row)):
            seen, following = row[None, place - SEGMENT : place], row[None, place - SEGMENT + 1 : place + 1]
            one_by_one.append(float(losses(model, seen, following, None)[0][0, -1]))
    assert len(one_by_one) == 2 * SEGMENT * ASKED_STREAMS
    assert ask_by_window(model, letters) == pytest.approx(np.mean(one_by_one[::WINDOW_STEP]), abs=1e-5)
    # The last place of a segment sees a whole segment, too: there both ways agree.
    last = [one_by_one[number] for number in range(len(one_by_one)) if number % SEGMENT == SEGMENT - 1]
    assert ask(model, letters, 0)[-1] == pytest.approx(np.mean(last), abs=1e-4)


@torch.inference_mode()
def test_a_loss_is_in_bits_and_a_memory_is_used(model: LanguageModel, letters: np.ndarray) -> None:
    bits, _ = losses(model, *next(segments(letters, 1)), None)
    scores, _ = model(next(segments(letters, 1))[0], None)
    chances = scores.softmax(-1).gather(2, next(segments(letters, 1))[1].unsqueeze(2))
    assert torch.allclose(2**-bits, chances[..., 0], atol=1e-5)
    asked = {memory: np.array(ask(model, letters, memory)) for memory in (0, SEGMENT)}
    assert abs(asked[0] - asked[SEGMENT]).min() > 0


def test_a_summary_by_hand() -> None:
    runs = [{"parameters": 3, "places": {"0": [1.0, 2.0]}, "window": 5.0}]
    runs.append({"parameters": 3, "places": {"0": [2.0, 5.0]}, "window": 7.0})
    found = summary(runs)
    assert found["parameters"] == 3
    assert found["asked with"]["0"]["places"] == [1.5, 3.5]
    assert found["asked with"]["0"]["loss"]["values"] == [1.5, 3.5]
    assert found["window"]["mean"] == 6
    assert found["window"]["std"] == pytest.approx(math.sqrt(2))
