"""Both sides of the benchmark compute attention; in float32 the slopes are nearer to the exact ones."""

from __future__ import annotations

from benchmarks.attention import half


def test_slopes_in_float32_are_nearer_to_the_exact_ones() -> None:
    found = half.measure(32, 8, 1)
    assert 0 < found["errors"]["in float32"] < found["errors"]["as it is"] < 0.02
    assert list(found["ratio"]) == ["in float32 to as it is"]


def test_texts_share_rows() -> None:
    (q, _, _), mask = half.inputs(64, 8)
    assert q.shape == (half.TOKENS // 64, half.HEADS, 64, 8)
    assert mask[0, 0, 0].sum() == half.TEXT
    assert mask[0, 0, -1].sum() == 64 % half.TEXT
