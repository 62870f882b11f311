"""Seeds and the device of the MXNet edition."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from mxnet import nd

from d2lbert.mxnet.runtime import best_device, seed_everything


def _draw() -> list[float]:
    return [random.random(), float(np.random.random()), float(nd.random.uniform().asscalar())]


def test_a_seed_repeats_everything() -> None:
    found = []
    for seed in (1, 1, 2):
        seed_everything(seed)
        found.append(_draw())
    assert found[0] == found[1]
    assert all(one != two for one, two in zip(found[0], found[2], strict=True))


def test_a_seed_of_64_bits_is_cut_to_what_each_library_takes() -> None:
    seed_everything(2**40 + 7)
    long = _draw()[1:]
    seed_everything(7)
    assert long == _draw()[1:]


def test_the_device_is_the_processor_where_there_is_no_gpu() -> None:
    assert best_device() == (mxnet.gpu() if mxnet.context.num_gpus() else mxnet.cpu())
