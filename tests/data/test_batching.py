"""Padding and packing keep every token, once, in order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.data.batching import Batch, _tightest_rows, best_fit_decreasing, choose_rows, pack, pad


def _texts(lengths: list[int]) -> list[SimpleNamespace]:
    """Texts whose tokens are all different, so that a lost or doubled one shows."""
    texts, first = [], 1
    for length in lengths:
        texts.append(SimpleNamespace(ids=list(range(first, first + length)), segment_ids=[0] + [1] * (length - 1)))
        first += length
    return texts


def _check(batch: Batch, texts: list[SimpleNamespace]) -> None:
    assert batch.num_tokens == sum(len(text.ids) for text in texts)
    for (row, column), text in zip(batch.starts, texts, strict=True):
        here = slice(column, column + len(text.ids))
        assert batch.token_ids[row, here].tolist() == text.ids
        assert batch.segment_ids[row, here].tolist() == text.segment_ids
        assert batch.position_ids[row, here].tolist() == list(range(len(text.ids)))
        number = batch.sequence_ids[row, column]
        assert number > 0
        assert (batch.sequence_ids[row] == number).sum() == len(text.ids)
    assert ((batch.sequence_ids > 0) == (batch.mask == 1)).all()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 100))
def test_nothing_is_lost(lengths: list[int], width: int) -> None:
    texts = _texts(lengths)
    _check(pad(texts), texts)
    _check(pack(texts, width=width), texts)


def test_padding_by_hand() -> None:
    batch = pad(_texts([2, 3]), pad_id=9)
    assert batch.token_ids.tolist() == [[1, 2, 9], [3, 4, 5]]
    assert batch.mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch.starts.tolist() == [[0, 0], [1, 0]]
    assert not batch.packed


def test_packing_by_hand() -> None:
    batch = pack(_texts([2, 3, 1]), width=4, pad_id=9)
    # Longest first: the text of 3 opens row 0, the text of 2 row 1, the text of 1 still fits into row 0.
    assert batch.token_ids.tolist() == [[3, 4, 5, 6], [1, 2, 9, 9]]
    assert batch.sequence_ids.tolist() == [[1, 1, 1, 2], [1, 1, 0, 0]]
    assert batch.starts.tolist() == [[1, 0], [0, 0], [0, 3]]
    assert batch.packed
    assert batch.token_ids.dtype == np.int64


@given(st.lists(st.integers(1, 64), min_size=1, max_size=60))
def test_rows_are_few(lengths: list[int]) -> None:
    rows = best_fit_decreasing(lengths, 64)
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    assert all(sum(lengths[index] for index in row) <= 64 for row in rows)
    # Two rows that are both at most half full would have been one.
    assert sum(sum(lengths[index] for index in row) <= 32 for row in rows) <= 1


def test_sst2_sized_sentences_waste_little() -> None:
    lengths = np.random.default_rng(0).integers(5, 55, 256).tolist()
    batch = pack(_texts(lengths))
    assert batch.num_tokens / batch.token_ids.size > 0.95
    assert pytest.approx(pad(_texts(lengths)).num_tokens) == batch.num_tokens


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60))
def test_every_text_has_a_row(lengths: list[int]) -> None:
    assert sorted(index for row in choose_rows(lengths) for index in row) == list(range(len(lengths)))


@pytest.mark.parametrize(("shortest", "longest", "count"), [(8, 128, 32), (100, 256, 8)])
def test_long_texts_of_many_lengths_waste_little(shortest: int, longest: int, count: int) -> None:
    random = np.random.default_rng(0)
    filled = []
    for _ in range(20):
        batch = pack(_texts(random.integers(shortest, longest + 1, count).tolist()))
        filled.append(batch.num_tokens / batch.token_ids.size)
    assert np.mean(filled) > 0.92


def test_texts_of_one_length_are_not_put_together_for_nothing() -> None:
    assert pack(_texts([256] * 8)).token_ids.shape == (8, 256), "longer rows would only cost more attention"


@given(st.lists(st.integers(1, 128), min_size=1, max_size=50))
def test_the_number_of_rows_is_kept(lengths: list[int]) -> None:
    assert len(_tightest_rows(lengths, 192)) <= max(1, round(sum(lengths) / 192))


@pytest.mark.parametrize("arrange", [pad, pack])
def test_nothing_is_no_batch(arrange: Any) -> None:
    with pytest.raises(UserError, match=r"^no texts to make a batch of: give at least one$"):
        arrange([])
    texts = [SimpleNamespace(ids=[1, 2], segment_ids=[0, 0]), SimpleNamespace(ids=[], segment_ids=[])]
    with pytest.raises(UserError, match=r"^text 1 of the batch has no tokens: leave it out$"):
        arrange(texts)
