"""The losses by hand; tests/parity compares them with PyTorch's."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data.batching import pack, pad
from d2lbert.tasks.base import IGNORED, Loss
from d2lbert.text import WordPiece

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from mxnet import autograd, gluon, nd

from d2lbert.mxnet.training.losses import (
    by_token,
    check_weights,
    choice_loss,
    compute_loss,
    mean_cross_entropy,
    pretraining_losses,
    span_loss,
)

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"])
LN2, LN3 = math.log(2), math.log(3)


def test_the_mean_is_over_what_counts() -> None:
    logits = nd.array([[0, LN3], [0, LN3], [0, 50]])  # probabilities 1/4 and 3/4
    targets = np.array([0, 1, IGNORED])
    assert float(mean_cross_entropy(logits, targets).asscalar()) == pytest.approx(
        (math.log(4) + math.log(4 / 3)) / 2, abs=1e-5
    )
    weighted = mean_cross_entropy(logits, targets, np.array([3.0, 1.0]))
    assert float(weighted.asscalar()) == pytest.approx((3 * math.log(4) + math.log(4 / 3)) / 4, abs=1e-5)


def test_nothing_that_counts_is_a_loss_of_zero_without_a_gradient() -> None:
    logits = nd.array([[1.0, 2.0]])
    logits.attach_grad()
    with autograd.record():
        loss = mean_cross_entropy(logits, np.array([IGNORED]))
    loss.backward()
    assert loss.asscalar() == 0.0
    assert not logits.grad.asnumpy().any()


def test_choices_compete_within_their_question() -> None:
    scores = nd.array([0, LN3, 7, 7, 7])
    loss = choice_loss(scores, [np.array([0, 1]), np.array([0, 0, 1])])
    assert float(loss.asscalar()) == pytest.approx((math.log(4 / 3) + LN3) / 2, abs=1e-5)


@pytest.mark.parametrize("arrange", [pad, pack])
def test_spans_are_found_within_their_text(arrange: Any) -> None:
    batch = arrange(TOKENIZER.encode_batch(["film", "good film"]))  # 3 and 4 tokens
    logits = nd.zeros((7, 2))
    both = span_loss(logits, [np.array([1, 1]), np.array([1, 2])], batch)
    assert float(both.asscalar()) == pytest.approx((2 * LN3 + 2 * math.log(4)) / 4, abs=1e-5)
    known = span_loss(logits, [np.array([1, IGNORED]), np.array([IGNORED, IGNORED])], batch)
    assert float(known.asscalar()) == pytest.approx(LN3, abs=1e-5)
    assert span_loss(logits, [np.array([IGNORED] * 2)] * 2, batch).asscalar() == 0.0
    logits[3:, 0] = 60.0  # of the second text alone
    assert float(span_loss(logits, [np.array([1, 1])] * 2, batch).asscalar()) == pytest.approx(
        (LN3 + math.log(4)) / 2, abs=1e-5
    )


@pytest.mark.parametrize("arrange", [pad, pack])
def test_tokens_come_text_after_text(arrange: Any) -> None:
    encodings = TOKENIZER.encode_batch(["film", "good film", "bad bad film"])
    batch = arrange(encodings)
    found = by_token(nd.array(batch.token_ids[..., None]), batch).asnumpy()[:, 0]
    assert found.tolist() == [index for encoding in encodings for index in encoding.ids]


def test_scores_and_labels_of_texts() -> None:
    batch = pack(TOKENIZER.encode_batch(["film", "good film"]))
    loss = compute_loss(Loss.SCORE, nd.array([[1.0], [5.0]]), [2.0, 3.0], batch)
    assert float(loss.asscalar()) == pytest.approx((1 + 4) / 2, abs=1e-5)
    loss = compute_loss(Loss.LABEL, nd.array([[0, LN3], [0, 0]]), [1, 0], batch)
    assert float(loss.asscalar()) == pytest.approx((math.log(4 / 3) + LN2) / 2, abs=1e-5)


def test_a_loss_of_another_edition_is_one_line() -> None:
    batch = pack(TOKENIZER.encode_batch(["film"]))
    kind: Any = SimpleNamespace(value="a distance that nobody knows")
    with pytest.raises(
        UserError, match="the mxnet edition has no loss for a distance that nobody knows: use the torch"
    ):
        compute_loss(kind, nd.zeros((1, 2)), [0], batch)


def test_objectives_have_their_own_means() -> None:
    logits = {"masked": nd.zeros((2, 3)), "next_sentence": nd.zeros((1, 2))}
    losses = pretraining_losses(logits, {"masked": np.array([0, IGNORED]), "next_sentence": np.array([1])})
    assert {name: float(loss.asscalar()) for name, loss in losses.items()} == pytest.approx(
        {"masked": LN3, "next_sentence": LN2}, abs=1e-5
    )


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_weight_that_is_no_number_stops_the_run(number: float) -> None:
    layer = gluon.nn.Dense(2, in_units=3)
    layer.initialize()
    check_weights(layer, 17)
    layer.bias.set_data(nd.array([0.0, number]))
    with pytest.raises(UserError, match=r"^bias became NaN or infinite at step 17: lower the learning rate$"):
        check_weights(layer, 17)
