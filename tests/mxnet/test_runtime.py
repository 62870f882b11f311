"""Seeds and the device of the MXNet edition."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from mxnet import nd

from d2lbert.mxnet.runtime import best_device, place, seed_everything, seed_step


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


def test_every_step_of_every_run_has_a_seed_of_its_own() -> None:
    drawn = {}
    for key in ((0, 0), (0, 1), (1, 0), (2**32 - 1, 0)):
        seed_step(*key)
        drawn[key] = float(nd.random.uniform().asscalar())
    assert len(set(drawn.values())) == 4
    seed_step(0, 1)
    assert float(nd.random.uniform().asscalar()) == drawn[0, 1]


def test_a_model_is_where_it_is_put() -> None:
    layer = mxnet.gluon.nn.Dense(2, in_units=3)
    layer.initialize(ctx=mxnet.cpu(1))
    assert place(layer) == mxnet.cpu(1)
    assert place(layer, mxnet.cpu(0)) == mxnet.cpu(0)
    assert layer.weight.list_ctx() == [mxnet.cpu(0)]
    assert place(mxnet.gluon.Block()) == mxnet.cpu()
