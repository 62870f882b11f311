"""The losses of fine-tuning, one for each kind of task, and the loss that all pretraining shares.

They are those of the PyTorch edition. Targets are arrays of NumPy.

Shape legend: N texts of a batch, B rows, L length of a row, T tokens of all texts, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mxnet import gluon, nd

from d2lbert.data.batching import Batch
from d2lbert.errors import UserError
from d2lbert.mxnet.attention import Tensor
from d2lbert.mxnet.blocks import shared_names
from d2lbert.tasks.base import IGNORED, Loss
from d2lbert.training.inputs import token_positions, weight_error

_LOWEST = float(np.finfo(np.float32).min)


def compute_loss(
    kind: Loss, logits: Tensor, targets: Sequence[Any], batch: Batch, class_weights: np.ndarray | None = None
) -> Tensor:
    """Return the mean loss of a batch, (1,).

    Args:
        kind: the loss of the task.
        logits: of the head: (N, C) for texts, (B, L, C) for tokens, (B, L, 2) for spans.
        targets: one for each input of the batch; :class:`~d2lbert.tasks.base.Loss` says in what form.
        batch: where each text lies in the rows.
        class_weights: (C,), how much each label counts; all the same by default.

    Raises:
        UserError: this edition does not have the loss.
    """
    if kind is Loss.SCORE:
        scores = nd.array(targets, ctx=logits.context)  # (N,)
        return (logits[:, 0] - scores).square().mean()
    if kind is Loss.CHOICE:
        return choice_loss(logits[:, 0], targets)
    if kind is Loss.SPAN:
        return span_loss(by_token(logits, batch), targets, batch)
    if kind not in (Loss.LABEL, Loss.TOKENS):
        raise UserError(f"the mxnet edition has no loss for {kind.value}: use the torch edition")
    if kind is Loss.TOKENS:
        logits = by_token(logits, batch)  # (T, C)
    return mean_cross_entropy(logits, np.hstack(targets), class_weights)


def choice_loss(scores: Tensor, targets: Sequence[np.ndarray]) -> Tensor:
    """Return the mean over inputs of -log softmax(scores of the input's texts)[the right text].

    Args:
        scores: (N,), of the texts of all inputs, input after input.
        targets: for each input (its number of texts,), 1 for the right text and 0 for the others.
    """
    losses, begin = [], 0
    for target in targets:
        group = scores[begin : begin + len(target)]
        losses.append(-(nd.log_softmax(group, axis=0) * nd.array(target, ctx=scores.context)).sum())
        begin += len(target)
    return nd.concat(*losses, dim=0).mean()


def mean_cross_entropy(logits: Tensor, targets: np.ndarray, class_weights: np.ndarray | None = None) -> Tensor:
    """Return the cross-entropy in nats, averaged over the targets that count; zero if none does.

    Args:
        logits: (N, C).
        targets: (N,), -100 for a target that does not count.
        class_weights: (C,), how much each label counts in the mean; all the same by default.
    """
    counts = targets != IGNORED  # (N,)
    labels = np.where(counts, targets, 0)
    weights = counts if class_weights is None else counts * class_weights[labels]  # (N,)
    chosen = nd.pick(nd.log_softmax(logits, axis=-1), nd.array(labels, ctx=logits.context), axis=-1)  # (N,)
    total = (chosen * nd.array(weights, ctx=logits.context, dtype="float32")).sum()
    return -total / (float(weights.sum()) or 1.0)  # the mean of nothing would be NaN, and its gradient too


def check_weights(model: gluon.Block, step: int, checkpoint: str | Path | None = None) -> None:
    """Stop a run whose weights are NaN or infinite, before they are scored or saved: the last step can make them so.

    Args:
        step: the last one, counted from 1.
        checkpoint: as for :func:`~d2lbert.training.inputs.check_finite`.

    Raises:
        UserError: a weight is not finite.
    """
    for name, parameter in shared_names(model).items():
        if not np.isfinite(parameter.data().asnumpy()).all():
            raise weight_error(name, step, checkpoint)


def pretraining_losses(logits: Mapping[str, Tensor], targets: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Return the loss of each pretraining objective; the paper minimises their sum (Devlin et al. 2019, appendix A.2).

    Each is the mean cross-entropy, in nats, over its own targets. An objective without targets has a loss of zero.

    Args:
        logits: of each objective, (P, C).
        targets: of each objective, (P,), -100 for a target that does not count.
    """
    return {name: mean_cross_entropy(logits[name], targets[name]) for name in targets}


def span_loss(logits: Tensor, targets: Sequence[np.ndarray], batch: Batch) -> Tensor:
    """Return the mean of -log p(first token) and -log p(last token), each a softmax over the tokens of a text.

    Args:
        logits: (T, 2) of start and end.
        targets: (2,) for each text, the positions of the span's first and last token. -100 does not count; where all
            are -100, the loss is 0.
        batch: where each text lies in the rows.
    """
    device, lengths = logits.context, batch.lengths
    columns = np.arange(lengths.max())[None]  # (1, longest)
    inside = columns < lengths[:, None]  # (N, longest)
    begins = (np.cumsum(lengths) - lengths)[:, None]  # (N, 1)
    rows = logits.take(nd.array(np.where(inside, begins + columns, 0), ctx=device))  # (N, longest, 2)
    keep = nd.array(inside[:, :, None], ctx=device, dtype="float32").broadcast_like(rows)
    log_p = nd.log_softmax(nd.where(keep, rows, nd.full(rows.shape, _LOWEST, ctx=device)), axis=1)
    positions = np.stack(targets)  # (N, 2)
    known = positions != IGNORED
    chosen = nd.pick(log_p, nd.array(np.where(known, positions, 0), ctx=device), axis=1)  # (N, 2)
    return -(chosen * nd.array(known, ctx=device, dtype="float32")).sum() / max(1.0, float(known.sum()))


def by_token(logits: Tensor, batch: Batch) -> Tensor:
    """Return the logits (T, C) of all tokens, text after text, from the rows (B, L, C) of a padded or packed batch."""
    return logits.reshape((-3, 0)).take(nd.array(token_positions(batch), ctx=logits.context))
