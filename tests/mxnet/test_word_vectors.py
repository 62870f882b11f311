"""Word vectors in MXNet: the loss by hand, means without padding, words never seen."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from mxnet import nd

from d2lbert.mxnet.word_vectors import Cbow, FastText, SkipGram, negative_sampling_loss


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_loss_by_hand() -> None:
    given, target = nd.array([[1.0, 2.0]]), nd.array([[0.5, 1.0]])
    noise = nd.array([[[1.0, 0.0], [0.0, -1.0]]])
    expected = -math.log(_sigmoid(2.5)) - math.log(_sigmoid(-1.0)) - math.log(_sigmoid(2.0))
    assert negative_sampling_loss(given, target, noise).asscalar() == pytest.approx(expected, rel=1e-6)


def test_large_scores_do_not_overflow() -> None:
    given = nd.array([[1000.0]])
    loss = negative_sampling_loss(given, nd.array([[-1.0]]), nd.array([[[1.0]]])).asscalar()
    assert loss == pytest.approx(2000.0)


def test_cbow_is_the_mean_of_its_words_without_padding() -> None:
    model = Cbow(5, 2)
    model.input.weight.set_data(nd.array([[0, 0], [2, 0], [0, 4], [9, 9], [1, 1]]))
    model.output.weight.set_data(nd.array([[0, 0], [0, 0], [0, 0], [1, 1], [0, 0]]))
    # The mean of words 1 and 2 is (1, 2), its score with word 3 is 3; noise word 4 scores 0. All padding gives 0.
    losses = model(np.array([[1, 2, 0], [0, 0, 0]]), np.array([3, 3]), np.array([[4], [4]])).asnumpy()
    assert losses == pytest.approx([-math.log(_sigmoid(3.0)) + math.log(2), 2 * math.log(2)], rel=1e-6)


def test_skip_gram_starts_with_scores_of_zero() -> None:
    model = SkipGram(6, 4)
    losses = model(np.array([1, 2]), np.array([3, 4]), np.array([[5, 1], [5, 2]])).asnumpy()
    assert losses == pytest.approx([3 * math.log(2)] * 2)
    vectors = model.vectors().asnumpy()
    assert not vectors[0].any()  # padding
    assert np.abs(vectors).max() <= 0.5 / 4


def test_fasttext_gives_any_word_the_mean_of_its_parts() -> None:
    model = FastText(["[PAD]", "cat"], 3, buckets=7)
    rows = model.input.weight.data().asnumpy()
    for word in ("cat", "cats"):
        expected = rows[model.subwords.row(word)].mean(0)
        assert model.vector(word).asnumpy() == pytest.approx(expected, abs=1e-6)
    assert model.vectors().asnumpy()[1] == pytest.approx(model.vector("cat").asnumpy(), abs=1e-6)
    assert not model.vector("").asnumpy().any()
