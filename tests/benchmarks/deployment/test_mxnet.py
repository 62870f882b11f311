"""The benchmark of MXNet: what it keeps of each engine, on a few sentences of the samples."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from benchmarks.deployment import mxnet
from d2lbert.text import WordPiece
from d2lbert.zoo import locate


def test_labels_are_compared_with_those_of_pytorch() -> None:
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    encodings = tokenizer.encode_batch(["a", "b", "c", "d"])
    right = np.eye(2)[[0, 1, 1, 0]]
    wrong = np.eye(2)[[0, 1, 0, 0]]
    sides = {"PyTorch": lambda batch: right, "other": lambda batch: wrong}
    found = mxnet.accuracies(sides, encodings, np.array([0, 1, 1, 1]))
    assert found["PyTorch"]["accuracy"] == 0.75
    assert found["PyTorch"]["changed"] == 0
    assert found["other"]["accuracy"] == 0.5
    assert (found["other"]["changed"], found["other"]["right before"]) == (1, 1)


def test_engines_that_would_slow_each_other_down_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mxnet.torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(sys, "argv", ["mxnet"])
    with pytest.raises(SystemExit, match=r"^each engine gets one thread here: set OMP_NUM_THREADS=1 for this command$"):
        mxnet.main()


@pytest.mark.slow
def test_every_engine_has_its_row(no_data: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for bounds by relative entropy, which take half a minute: ``tests/deploy/test_symbols.py`` finds them."""
    monkeypatch.setattr(mxnet, "CALIBRATIONS", ("naive",))
    found = mxnet.measure(2, 8, 8)
    names = set(found["milliseconds"])
    assert len(names) == 8
    assert set(found["accuracy"]) == names == set(found["latency"]["differences"])
    exact = [name for name in names if "int8" not in name]
    assert all(found["accuracy"][name]["changed"] == 0 for name in exact)
    assert found["bytes"]["MXNet int8, naive, a scale for each matrix"] < 0.7 * found["bytes"]["MXNet, one graph"]
    assert {pair.rpartition(" to ")[2] for pair in found["latency"]["ratio"]} == {"PyTorch"}
