"""The losses of fine-tuning, one for each kind of task, and the loss that all pretraining shares.

Shape legend: N texts of a batch, B rows, L length of a row, T tokens of all texts, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from d2lbert.data.batching import Batch
from d2lbert.tasks.base import IGNORED, Loss, SoftTarget
from d2lbert.training.inputs import check_finite as check_finite  # its name for others
from d2lbert.training.inputs import token_positions, weight_error


def compute_loss(
    kind: Loss, logits: Tensor, targets: Sequence[Any], batch: Batch, class_weights: Tensor | None = None
) -> Tensor:
    """Return the mean loss of a batch, a scalar.

    Args:
        kind: the loss of the task.
        logits: of the head: (N, C) for texts, (B, L, C) for tokens, (B, L, 2) for spans.
        targets: one for each input of the batch; :class:`~d2lbert.tasks.base.Loss` says in what form.
        batch: where each text lies in the rows.
        class_weights: (C,), how much each label counts; all the same by default.
    """
    logits = logits.float()  # the exponentials of a softmax need more digits than bfloat16 has
    if kind is Loss.SCORE:
        scores = torch.tensor(targets, dtype=torch.float32, device=logits.device)  # (N,)
        return functional.mse_loss(logits[:, 0], scores)
    if kind is Loss.CHOICE:
        return choice_loss(logits[:, 0], targets)
    if kind is Loss.SOFT:
        return soft_loss(logits, targets)
    if kind is Loss.SOFT_SPAN:
        return soft_span_loss(by_token(logits, batch), targets, batch)
    if kind is Loss.LOGITS:
        return logit_loss(logits, torch.from_numpy(np.stack(targets)).to(logits))
    if kind is Loss.SPAN:
        return span_loss(by_token(logits, batch), targets, batch)
    if kind is Loss.TOKENS:
        logits = by_token(logits, batch)  # (T, C)
    labels = torch.from_numpy(np.hstack(targets)).to(logits.device)  # (N,) or (T,)
    return mean_cross_entropy(logits, labels, class_weights)


def choice_loss(scores: Tensor, targets: Sequence[np.ndarray]) -> Tensor:
    """Return the mean over inputs of -log softmax(scores of the input's texts)[the right text].

    Args:
        scores: (N,), of the texts of all inputs, input after input.
        targets: for each input (its number of texts,), 1 for the right text and 0 for the others.
    """
    groups = scores.split([len(target) for target in targets])
    losses = [
        functional.cross_entropy(group, torch.from_numpy(target).to(group))
        for group, target in zip(groups, targets, strict=True)
    ]
    return torch.stack(losses).mean()


def soft_loss(logits: Tensor, targets: Sequence[SoftTarget]) -> Tensor:
    """Return the mean over texts of weight * soft_divergence + (1 - weight) * cross-entropy of the label.

    A text without a label has no second term.

    Args:
        logits: (N, C), the student's.
        targets: one for each text.

    Source: Hinton et al. 2015, section 2.
    """
    teacher = torch.from_numpy(np.stack([target.logits for target in targets])).to(logits)  # (N, C)
    settings = torch.tensor([(target.temperature, target.weight) for target in targets])
    temperature, weight = settings.to(logits).T  # (N,) each
    labels = torch.tensor([target.label for target in targets], device=logits.device)  # (N,)
    hard = functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")  # (N,), 0 without a label
    return (weight * soft_divergence(logits, teacher, temperature) + (1 - weight) * hard).mean()


def soft_span_loss(logits: Tensor, targets: Sequence[SoftTarget], batch: Batch) -> Tensor:
    """Return :func:`soft_loss` of a span: the mean of its first and its last token, each a choice among all tokens.

    A text without a right answer has no second term.

    Args:
        logits: (T, 2) of start and end, the student's.
        targets: one for each text.
        batch: where each text lies in the rows.
    """
    losses = []
    for text, target in zip(logits.split(batch.lengths.tolist()), targets, strict=True):
        student, teacher = text.T, torch.from_numpy(target.logits).to(text).T  # (2, length) each
        places = torch.from_numpy(target.label).to(text.device)  # (2,)
        hard = functional.cross_entropy(student, places, ignore_index=IGNORED, reduction="none")  # (2,)
        soft = soft_divergence(student, teacher, target.temperature)  # (2,)
        losses.append((target.weight * soft + (1 - target.weight) * hard).mean())
    return torch.stack(losses).mean()


def soft_divergence(student: Tensor, teacher: Tensor, temperature: Tensor | float) -> Tensor:
    """Return T^2 KL(softmax(teacher / T) || softmax(student / T)) of each text, (N,), in nats.

    The gradient of the divergence alone falls with 1 / T^2. The factor T^2 keeps its size, so that the temperature can
    be changed without a new weight. Cross-entropy with the teacher's probabilities has the same gradient; the
    divergence is 0 where the student agrees.

    Args:
        student, teacher: logits (N, C).
        temperature: T, one for all texts or (N,).

    Source: Hinton et al. 2015, section 2.
    """
    T = torch.as_tensor(temperature, device=student.device, dtype=student.dtype).expand(len(student)).unsqueeze(1)
    wanted, found = (teacher / T).log_softmax(1), (student / T).log_softmax(1)  # (N, C) each
    return T[:, 0].square() * (wanted.exp() * (wanted - found)).sum(1)


def logit_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean over texts of the squared distance between the logits (N, C) of student and teacher.

    Source: Ba and Caruana 2014; for BERT as the teacher Tang et al. 2019.
    """
    return (student - teacher).square().sum(1).mean()


def mean_cross_entropy(logits: Tensor, targets: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Return the cross-entropy in nats, averaged over the targets that count; zero if none does.

    Args:
        logits: (N, C).
        targets: (N,), -100 for a target that does not count.
        class_weights: (C,), how much each label counts in the mean; all the same by default.
    """
    total = functional.cross_entropy(logits.float(), targets, class_weights, ignore_index=IGNORED, reduction="sum")
    labels = targets[targets != IGNORED]
    count = len(labels) if class_weights is None else float(class_weights[labels].sum())
    return total / (count or 1)  # the mean of nothing would be NaN, and its gradient too


class _OverwritingCrossEntropy(torch.autograd.Function):
    """The mean cross-entropy, computed in the memory of the logits.

    PyTorch's own needs two more arrays of their size: the logarithms of the probabilities, and the gradient. With
    30,522 words, to fetch that memory takes much of the time of the loss.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and the logits (N, C), which now hold exp(logit - the row's largest)."""
        ctx.set_materialize_grads(False)  # nobody asks for the gradient of the second output
        counts = targets != IGNORED  # (N,)
        places = (torch.arange(len(logits), device=logits.device), targets.where(counts, 0))
        largest = logits.amax(1)  # (N,)
        wanted = logits[places] - largest
        sums = logits.sub_(largest[:, None]).exp_().sum(1)  # (N,)
        weights = counts / counts.sum().clamp(min=1)  # (N,): all zero where no target counts
        ctx.mark_dirty(logits)
        ctx.save_for_backward(logits, sums, weights, *places)
        return ((sums.log() - wanted) * weights).sum(), logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: None) -> tuple[Tensor, None]:
        """Turn exp(logit - largest) into the gradient: the probability, less 1 at the target."""
        exponentials, sums, weights, *places = ctx.saved_tensors
        weights = gradient * weights
        gradients = exponentials.mul_((weights / sums)[:, None])
        gradients[tuple(places)] -= weights
        return gradients, None


def check_weights(model: nn.Module, step: int, checkpoint: str | Path | None = None) -> None:
    """Stop a run whose weights are NaN or infinite, before they are scored or saved: the last step can make them so.

    Args:
        step: the last one, counted from 1.
        checkpoint: as for :func:`~d2lbert.training.inputs.check_finite`.

    Raises:
        UserError: a weight is not finite.
    """
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise weight_error(name, step, checkpoint)


def pretraining_losses(
    logits: Mapping[str, Tensor], targets: Mapping[str, Tensor], overwrite: bool = False
) -> dict[str, Tensor]:
    """Return the loss of each pretraining objective; the paper minimises their sum (Devlin et al. 2019, appendix A.2).

    Each is the mean cross-entropy, in nats, over its own targets: that of masked words over the masked tokens alone,
    that of the next sentence over the pairs with a label. A shared "ignore 0" would be wrong, since 0 is the label of
    true pairs. An objective without targets has a loss of zero.

    Args:
        logits: of each objective, (P, C).
        targets: of each objective, (P,), -100 for a target that does not count.
        overwrite: compute in the memory of the logits, which are lost: faster, where nothing else needs them.
    """
    if overwrite:
        return {name: _OverwritingCrossEntropy.apply(logits[name].float(), targets[name])[0] for name in targets}
    return {name: mean_cross_entropy(logits[name], targets[name]) for name in targets}


def span_loss(logits: Tensor, targets: Sequence[np.ndarray], batch: Batch) -> Tensor:
    """Return the mean of -log p(first token) and -log p(last token), each a softmax over the tokens of a text.

    Args:
        logits: (T, 2) of start and end.
        targets: (2,) for each text, the positions of the span's first and last token. -100 does not count; where all
            are -100, the loss is 0.
        batch: where each text lies in the rows.
    """
    texts = logits.split(batch.lengths.tolist())  # N times (length, 2)
    rows = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=float("-inf"))  # (N, longest, 2)
    positions = torch.from_numpy(np.stack(targets)).to(logits.device)  # (N, 2)
    known = positions != IGNORED
    losses = functional.cross_entropy(rows, positions, ignore_index=IGNORED, reduction="none")  # (N, 2)
    return losses[known].sum() / known.sum().clamp(min=1)


def by_token(logits: Tensor, batch: Batch) -> Tensor:
    """Return the logits (T, C) of all tokens, text after text, from the rows (B, L, C) of a padded or packed batch."""
    return logits.flatten(0, 1)[torch.from_numpy(token_positions(batch)).to(logits.device)]
