"""Rows of a batch, and outputs by the names of what is learned: the same for both editions, so tried with NumPy."""

from __future__ import annotations

import numpy as np
import torch

from d2lbert.outputs import PretrainingOutput, Rows


def test_ids_become_rows_and_rows_stay() -> None:
    ids, mask = np.array([[1, 2]]), np.array([[1, 0]])
    rows = Rows.of(ids, mask=mask)
    assert rows.token_ids is ids
    assert rows.mask is mask
    assert rows.segment_ids is rows.position_ids is rows.sequence_ids is rows.starts is None
    assert Rows.of(rows) is rows


def test_all_that_is_there_moves_to_a_device() -> None:
    rows = Rows(torch.ones(1, 2), starts=torch.zeros(1, 2))
    moved = rows.to("meta")
    assert moved.token_ids.device.type == moved.starts.device.type == "meta"
    assert moved.mask is moved.segment_ids is None
    assert rows.token_ids.device.type == "cpu"


def test_each_objective_of_pretraining_has_its_logits() -> None:
    output = PretrainingOutput(np.zeros((3, 9)), np.ones((2, 2)))
    assert {name: logits.shape for name, logits in output.objectives.items()} == {
        "masked": (3, 9),
        "next_sentence": (2, 2),
    }
