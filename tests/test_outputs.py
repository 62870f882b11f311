"""What goes into a model and comes out of it: rows as they were given, moved as a whole, objectives by their names."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from d2lbert.outputs import PretrainingOutput, Rows

IDS, SEGMENTS, MASK = (torch.tensor([[number, number + 1]]) for number in range(3))


def test_ids_with_segments_and_mask_become_rows() -> None:
    rows = Rows.of(IDS, SEGMENTS, MASK)
    assert rows.token_ids is IDS
    assert rows.segment_ids is SEGMENTS
    assert rows.mask is MASK
    assert (rows.position_ids, rows.sequence_ids, rows.starts) == (None, None, None)
    alone = Rows.of(IDS)
    assert (alone.segment_ids, alone.mask) == (None, None)


def test_rows_stay_as_they_are() -> None:
    rows = Rows(IDS, sequence_ids=SEGMENTS)
    assert Rows.of(rows) is rows


def test_rows_move_with_every_tensor_and_what_is_missing_stays_missing() -> None:
    names = [field.name for field in dataclasses.fields(Rows)]
    whole = Rows(*(IDS for _ in names))
    moved = whole.to("meta")
    assert {name: getattr(moved, name).device.type for name in names} == dict.fromkeys(names, "meta")
    assert whole.token_ids.device.type == "cpu"
    few = Rows(IDS, mask=MASK).to("meta")
    assert [name for name in names if getattr(few, name) is not None] == ["token_ids", "mask"]


def test_a_batch_is_not_changed_by_a_model() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Rows(IDS).mask = MASK  # type: ignore[misc]


def test_objectives_have_the_names_of_the_batches() -> None:
    objectives = PretrainingOutput(token_logits="of tokens", next_logits="of pairs").objectives
    assert objectives == {"masked": "of tokens", "next_sentence": "of pairs"}
