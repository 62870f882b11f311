"""Both sides of the benchmark compute attention; in float32 the slopes are nearer to the exact ones."""

from __future__ import annotations

from benchmarks.attention import bfloat16


def test_slopes_in_float32_are_nearer_to_the_exact_ones() -> None:
    found = bfloat16.measure(32, 8, 1)
    assert 0 < found["errors"]["in float32"] < found["errors"]["as it is"] < 0.02
    assert list(found["ratio"]) == ["in float32 to as it is"]


def test_texts_share_rows() -> None:
    (q, _, _), mask = bfloat16.inputs(64, 8)
    assert q.shape == (bfloat16.TOKENS // 64, bfloat16.HEADS, 64, 8)
    assert mask[0, 0, 0].sum() == bfloat16.TEXT
    assert mask[0, 0, -1].sum() == 64 % bfloat16.TEXT
