"""Every loss by hand: on logits whose softmax is a fraction."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import profile

from d2lbert import UserError
from d2lbert.data.batching import pack, pad
from d2lbert.storage import checkpoints
from d2lbert.tasks.base import IGNORED, Loss, SoftTarget
from d2lbert.text import WordPiece
from d2lbert.torch.runtime import to_tensors
from d2lbert.torch.training.losses import (
    by_token,
    check_weights,
    choice_loss,
    compute_loss,
    logit_loss,
    mean_cross_entropy,
    pretraining_losses,
    soft_divergence,
    soft_loss,
    soft_span_loss,
    span_loss,
)

WORDS = ["good", "fine", "bad", "poor", "film", "plot", "the", "a"]
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
TEXTS = pad(TOKENIZER.encode_batch(["film", "good film", "film"]))  # 3, 4 and 3 tokens
LN2, LN3 = math.log(2), math.log(3)


def _one_hot(place: int, count: int) -> np.ndarray:
    return np.eye(count, dtype=np.float32)[place]


def test_the_right_choice_among_those_of_its_question() -> None:
    scores = torch.tensor([0.0, LN3, 1.0, 1.0, 1.0])
    right = choice_loss(scores, [_one_hot(1, 2), _one_hot(0, 3)])
    assert float(right) == pytest.approx((math.log(4 / 3) + LN3) / 2)  # probabilities 3/4 and 1/3
    wrong = choice_loss(scores, [_one_hot(0, 2), _one_hot(2, 3)])
    assert float(wrong) == pytest.approx((math.log(4) + LN3) / 2)
    through = compute_loss(Loss.CHOICE, scores[:, None], [_one_hot(1, 2), _one_hot(0, 3)], TEXTS)
    assert float(through) == float(right)


def test_first_and_last_token_among_those_of_their_text() -> None:
    """Neither the padding of the shorter text nor the tokens of another take a part of the probability."""
    logits = torch.zeros(10, 2)
    logits[1, 0] = LN2  # of 3 tokens the second begins: 2/4
    logits[2, 1] = math.log(6)  # and the third ends: 6/8
    logits[3:7] = 50.0  # the second text has no answer that is known
    targets = [np.array([1, 2]), np.array([IGNORED, IGNORED]), np.array([0, 0])]
    expected = (LN2 + math.log(4 / 3) + LN3 + LN3) / 4
    assert float(span_loss(logits, targets, TEXTS)) == pytest.approx(expected)


def test_spans_without_any_place_have_loss_zero() -> None:
    logits = torch.randn(10, 2, requires_grad=True)
    loss = span_loss(logits, [np.array([IGNORED, IGNORED])] * 3, TEXTS)
    loss.backward()
    assert float(loss.detach()) == 0
    assert not logits.grad.any()


def test_a_score_is_the_squared_difference() -> None:
    loss = compute_loss(Loss.SCORE, torch.tensor([[1.0], [3.0], [0.0]]), [2.0, 5.0, 0], TEXTS)
    assert float(loss) == pytest.approx((1 + 4 + 0) / 3)


def test_labels_weigh_what_they_are_told_to() -> None:
    logits = torch.tensor([[0.0, 0.0], [0.0, LN3], [LN3, 0.0]])
    surprise = [LN2, math.log(4 / 3), math.log(4)]  # of labels 0, 1, 1
    targets = [0, 1, 1]
    assert float(compute_loss(Loss.LABEL, logits, targets, TEXTS)) == pytest.approx(sum(surprise) / 3)
    weighted = compute_loss(Loss.LABEL, logits, targets, TEXTS, torch.tensor([1.0, 3.0]))
    assert float(weighted) == pytest.approx((surprise[0] + 3 * surprise[1] + 3 * surprise[2]) / 7)


def test_what_is_not_asked_is_left_out_of_sum_and_count() -> None:
    logits = torch.tensor([[0.0, LN3], [5.0, 9.0], [0.0, LN3]])
    targets = torch.tensor([1, IGNORED, 0])
    assert float(mean_cross_entropy(logits, targets)) == pytest.approx((math.log(4 / 3) + math.log(4)) / 2)
    weighted = mean_cross_entropy(logits, targets, torch.tensor([3.0, 1.0]))
    assert float(weighted) == pytest.approx((math.log(4 / 3) + 3 * math.log(4)) / 4)


@pytest.mark.parametrize(
    ("kind", "targets"),
    [
        (Loss.LABEL, [0, 1, 4]),
        (Loss.SCORE, [0.1, 0.2, 4.0]),
        (Loss.CHOICE, [_one_hot(2, 3)]),
        (Loss.SOFT, [SoftTarget(np.arange(5), number, 2.0, 0.5) for number in (0, 2, IGNORED)]),
        (Loss.LOGITS, [np.arange(5)] * 3),
    ],
)
def test_logits_of_bfloat16_get_a_loss_of_float32(kind: Loss, targets: list) -> None:
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).bfloat16()
    loss = compute_loss(kind, logits, targets, TEXTS)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, compute_loss(kind, logits.float(), targets, TEXTS))


@pytest.mark.parametrize("overwrite", [False, True])
def test_each_pretraining_objective_has_its_own_mean(overwrite: bool) -> None:
    logits = {
        "masked": torch.tensor([[0.0, 0.0, 0.0, LN3], [0.0, LN3, 0.0, 0.0]]),
        "next_sentence": torch.tensor([[LN3, 0.0], [7.0, 0.0], [0.0, 0.0]]),
    }
    targets = {"masked": torch.tensor([3, 0]), "next_sentence": torch.tensor([0, IGNORED, 1])}
    found = pretraining_losses(logits, targets, overwrite)
    assert list(found) == ["masked", "next_sentence"]
    assert float(found["masked"]) == pytest.approx((LN2 + math.log(6)) / 2)  # probabilities 3/6 and 1/6
    assert float(found["next_sentence"]) == pytest.approx((math.log(4 / 3) + LN2) / 2)  # 0 is a label like another


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loss_in_the_memory_of_the_logits_has_the_gradients_of_another(dtype: torch.dtype) -> None:
    scores = 3 * torch.randn(6, 40, generator=torch.Generator().manual_seed(0))
    scores[0, 7] = 1000.0  # its exponential is no number of float32
    targets = {"masked": torch.tensor([7, 0, IGNORED, 39, 5, 5])}
    losses, gradients = [], []
    for overwrite in (False, True):
        weights = scores.to(dtype, copy=True).requires_grad_()
        logits = 2 * weights
        before = logits.detach().clone()
        loss = pretraining_losses({"masked": logits}, targets, overwrite)["masked"]
        (3 * loss).backward()
        # What autocast gives in bfloat16 is copied to float32 first.
        assert torch.equal(logits, before) == (not overwrite or dtype == torch.bfloat16)
        losses.append(float(loss.detach()))
        gradients.append(weights.grad)
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert torch.allclose(gradients[0], gradients[1], atol=1e-6)
    assert not gradients[1][2].any()


def test_a_loss_in_the_memory_of_the_logits_takes_no_other() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors, table = torch.randn(50, 4, generator=generator).requires_grad_(), torch.randn(3000, 4, generator=generator)
    arrays = []
    for overwrite in (False, True):
        logits, targets = vectors @ table.T, torch.arange(50)
        with profile(profile_memory=True) as profiler:
            pretraining_losses({"masked": logits}, {"masked": targets}, overwrite)["masked"].backward()
        taken = sum(max(event.self_cpu_memory_usage, 0) for event in profiler.key_averages())
        arrays.append(taken / (4 * logits.numel()))  # float32
    assert arrays[0] > 2
    assert arrays[1] < 0.1


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_pretraining_objective_without_targets_has_loss_zero(overwrite: bool) -> None:
    weights = torch.zeros(2, 2, requires_grad=True)
    logits = {"masked": torch.zeros(0, 4, requires_grad=True) * 1, "next_sentence": weights * 1}
    targets = {"masked": torch.zeros(0, dtype=torch.long), "next_sentence": torch.full((2,), IGNORED)}
    found = pretraining_losses(logits, targets, overwrite)
    assert {name: float(loss.detach()) for name, loss in found.items()} == {"masked": 0.0, "next_sentence": 0.0}
    sum(found.values()).backward()
    assert weights.grad is not None
    assert not weights.grad.any()


def test_an_objective_that_the_batch_does_not_ask_for_has_no_loss() -> None:
    logits = {"masked": torch.zeros(1, 4), "next_sentence": torch.zeros(1, 2)}
    assert list(pretraining_losses(logits, {"masked": torch.tensor([2])})) == ["masked"]


@pytest.mark.parametrize("class_weights", [None, torch.tensor([1.0, 2.0, 3.0])])
def test_a_batch_in_which_nothing_is_asked_teaches_nothing(class_weights: torch.Tensor | None) -> None:
    encodings = TOKENIZER.encode_batch(["good film"])
    logits = torch.randn(1, 4, 3, requires_grad=True)
    loss = compute_loss(Loss.TOKENS, logits, [np.full(4, IGNORED)], pack(encodings), class_weights)
    loss.backward()
    assert float(loss.detach()) == 0
    assert not logits.grad.any()


@pytest.mark.parametrize("arrange", [pack, pad])
def test_logits_of_tokens_come_out_in_the_order_of_the_texts(arrange) -> None:
    encodings = TOKENIZER.encode_batch(["good film", "the bad plot a", "poor"])
    batch = arrange(encodings)
    ids = to_tensors(batch).token_ids
    found = by_token(ids[..., None].float(), batch)[:, 0]
    assert found.tolist() == [index for encoding in encodings for index in encoding.ids]
    # A loss over tokens: those without a label count for nothing.
    logits = torch.nn.functional.one_hot(ids, len(TOKENIZER.vocab)).float() * 50
    targets = [np.array(encoding.ids) for encoding in encodings]
    assert float(compute_loss(Loss.TOKENS, logits, targets, batch)) < 1e-6
    targets[1][2] = 0
    assert float(compute_loss(Loss.TOKENS, logits, targets, batch)) == pytest.approx(50 / 13, rel=1e-3)
    targets[1][2] = IGNORED
    assert float(compute_loss(Loss.TOKENS, logits, targets, batch)) < 1e-6


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_weight_that_is_no_number_stops_the_run(number: float, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    check_weights(model, 17)
    with torch.no_grad():
        model[1].bias[1] = number
    with pytest.raises(UserError, match=r"^1\.bias became NaN or infinite at step 17: lower the learning rate$"):
        check_weights(model, 17)
    checkpoints.save(tmp_path, 16, lambda folder: (folder / "state").touch(), 2)
    message = rf"at step 17: lower the learning rate; the last good checkpoint is {tmp_path / 'checkpoint-00000016'}$"
    with pytest.raises(UserError, match=message):
        check_weights(model, 17, tmp_path)


def test_a_soft_target_by_hand() -> None:
    """At temperature 2 the teacher says 3/4 and 1/4; the student says 1/2 at any."""
    teacher, undecided = np.array([2 * LN3, 0.0]), torch.zeros(1, 2)
    divergence = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    soft = SoftTarget(teacher, 1, 2.0, 1.0)
    assert float(soft_loss(undecided, [soft])) == pytest.approx(4 * divergence)
    assert float(soft_loss(undecided, [soft._replace(weight=0.0)])) == pytest.approx(LN2)
    mixed = soft._replace(weight=0.25)
    assert float(soft_loss(undecided, [mixed])) == pytest.approx(divergence + 0.75 * LN2)
    unlabelled = mixed._replace(label=IGNORED)
    assert float(soft_loss(undecided, [unlabelled])) == pytest.approx(divergence)
    both = soft_loss(undecided.repeat(2, 1), [mixed, unlabelled])
    assert float(both) == pytest.approx(divergence + 0.375 * LN2)
    assert float(compute_loss(Loss.SOFT, undecided, [mixed], TEXTS)) == pytest.approx(divergence + 0.75 * LN2)


def test_a_soft_span_by_hand() -> None:
    """Two texts of three and two tokens. Start and end are two choices among the tokens of one text."""
    batch = pad([TOKENIZER.encode(text) for text in ("", "a")])  # of two and three tokens
    logits = torch.zeros(*batch.token_ids.shape, 2)
    teacher = np.array([[2 * LN3, 0.0], [0.0, 0.0]])  # at temperature 2 the start is 3/4 and 1/4, the end undecided
    divergence = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    known = SoftTarget(teacher, np.array([1, 0]), 2.0, 0.25)
    unknown = SoftTarget(np.zeros((3, 2)), np.array([IGNORED, IGNORED]), 1.0, 0.25)
    expected = (0.25 * 4 * divergence + 0) / 2 + 0.75 * LN2
    assert float(compute_loss(Loss.SOFT_SPAN, logits, [known, unknown], batch)) == pytest.approx(expected / 2)
    assert float(compute_loss(Loss.SOFT_SPAN, logits, [known, known._replace(logits=np.zeros((3, 2)))], batch)) == (
        pytest.approx((expected + 0.75 * LN3) / 2)
    )


def test_the_slope_of_a_soft_span_is_by_token() -> None:
    """Half of weight T (student - teacher) + (1 - weight) (student - right), in probabilities of tokens of one text."""
    batch, T = pad([TOKENIZER.encode("a b")]), 2.0  # [CLS] a [UNK] [SEP]
    logits = torch.randn(4, 2, requires_grad=True, generator=torch.Generator().manual_seed(0))
    teacher = torch.randn(4, 2, generator=torch.Generator().manual_seed(1))
    soft_span_loss(logits, [SoftTarget(teacher.numpy(), np.array([1, 2]), T, 0.3)], batch).backward()
    right = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    own = logits.detach()
    wanted = 0.3 * T * ((own / T).softmax(0) - (teacher / T).softmax(0)) + 0.7 * (own.softmax(0) - right)
    torch.testing.assert_close(logits.grad, wanted / 2)


def test_each_text_has_its_own_temperature_and_label() -> None:
    student = torch.tensor([[LN3, 0.0], [0.0, LN3]])
    targets = [SoftTarget(np.array([0.0, 1.0]), 0, 1.0, 0.5), SoftTarget(np.array([0.3, 0.1]), 0, 5.0, 0.5)]
    apart = [float(soft_loss(student[[row]], [targets[row]])) for row in (0, 1)]
    assert float(soft_loss(student, targets)) == pytest.approx(sum(apart) / 2)
    assert apart[0] != pytest.approx(apart[1])


def test_agreement_costs_nothing_at_any_temperature() -> None:
    teacher = torch.tensor([[3.0, -1.0, 0.5]])
    for temperature in (0.5, 1.0, 20.0):
        assert float(soft_divergence(teacher + 7, teacher, temperature)) == pytest.approx(0, abs=1e-3)
        assert float(soft_divergence(-teacher, teacher, temperature)) > 0.1


def test_the_slope_of_a_soft_target_is_t_times_the_difference_of_probabilities() -> None:
    """T^2 times (1 / T) (softmax(student / T) - softmax(teacher / T)); hot, it nears the difference of logits / C."""
    teacher = torch.tensor([[2.0, -1.0, -1.0]])
    student = torch.tensor([[0.5, 0.25, -0.75]], requires_grad=True)
    for temperature in (1.0, 3.0, 1000.0):
        (slope,) = torch.autograd.grad(soft_divergence(student, teacher, temperature).sum(), student)
        wanted = (student / temperature).softmax(1) - (teacher / temperature).softmax(1)
        torch.testing.assert_close(slope, temperature * wanted.detach(), atol=1e-3 if temperature > 3 else 1e-6, rtol=0)
    torch.testing.assert_close(slope, (student - teacher).detach() / 3, atol=3e-3, rtol=0)


def test_the_slope_of_a_soft_target_is_that_of_small_steps() -> None:
    student = torch.randn(3, 4, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(0))
    targets = [SoftTarget(np.array([0.1, -2, 1, number]), number, 1.0 + number, 0.3) for number in range(3)]
    assert torch.autograd.gradcheck(lambda logits: soft_loss(logits, targets), student)
    assert torch.autograd.gradcheck(lambda logits: logit_loss(logits, torch.ones(3, 4, dtype=torch.float64)), student)


def test_logits_are_compared_by_their_squared_distance() -> None:
    student, teacher = torch.tensor([[1.0, 0.0], [2.0, 2.0]]), np.array([[0.0, 2.0], [2.0, 5.0]])
    assert float(compute_loss(Loss.LOGITS, student, list(teacher), TEXTS)) == pytest.approx((1 + 4 + 0 + 9) / 2)
