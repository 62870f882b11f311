"""Train models that turn one sequence into another, the Transformer and Seq2Seq, as the PyTorch edition does.

Settings, batches, records and checks are shared; from the same weights and without dropout it follows that loop step by
step. Translating is left to the PyTorch edition, which reads the folders that this one writes.

Shape legend: B pairs of a batch, M length of the source, L length of the target, V vocabulary of the target.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from mxnet import Context, autograd, nd

from d2lbert.data.translation import EncodedPair, PairBatch, PairBatches
from d2lbert.mxnet.attention import Tensor
from d2lbert.mxnet.blocks import shared_names
from d2lbert.mxnet.runtime import best_device, place, seed_everything, seed_step
from d2lbert.mxnet.training.losses import check_weights
from d2lbert.mxnet.training.optim import Optimization
from d2lbert.mxnet.training.resuming import load_checkpoint, save_checkpoint
from d2lbert.training.progress import progress_bar
from d2lbert.training.translation import (
    BETAS,
    CHECKPOINTS,
    EPSILON,
    EVALUATION_TOKENS,
    SequenceRun,
    SequenceTraining,
    check_folder,
    no_checkpoint,
    run_identity,
)


def label_smoothing_loss(logits: Tensor, target_ids: Tensor, mask: Tensor, smoothing: float = 0.1) -> Tensor:
    """Return the mean loss of the real tokens (1,), with smoothed labels (Vaswani et al. 2017, section 5.4).

    The target distribution puts 1 - smoothing on the right token and spreads the rest equally over all V tokens
    (Szegedy et al. 2016, section 7).

    Args:
        logits: (B, L, V).  target_ids: (B, L).  mask: (B, L), 1 for a token and 0 for padding.
        smoothing: the fraction of the probability that is spread; 0 gives the cross-entropy, in nats.
    """
    log_p = nd.log_softmax(logits, axis=-1)
    right = nd.pick(log_p, target_ids, axis=-1)  # (B, L)
    expected = (1 - smoothing) * right + smoothing * log_p.mean(axis=-1)  # (B, L)
    keep = mask.astype("float32")
    return -(expected * keep).sum() / keep.sum()


def train_sequences(
    model: Any,
    train: Sequence[EncodedPair],
    dev: Sequence[EncodedPair],
    settings: SequenceTraining,
    device: Context | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> list[dict[str, float]]:
    """Train with Adam and teacher forcing, and leave the model with its best weights, hybridized.

    Args:
        model: a :class:`~d2lbert.mxnet.Transformer` or :class:`~d2lbert.mxnet.Seq2Seq`.
        train, dev: encoded pairs.
        device: where to train; by default :func:`~d2lbert.mxnet.runtime.best_device`. The model stays there.
        folder: where checkpoints and the best model are saved; None saves nothing.
        resume: continue from the checkpoint in the folder, to the same result as a run without the break.
        progress: show a bar on standard error.

    Returns:
        A record for each evaluation on the dev set: step, tokens predicted so far, seconds so far, mean training loss
        since the last evaluation, and ``dev_loss``, the mean of -log p over the tokens of the dev set, without
        smoothing. Its lowest value decides which weights are best.

    Raises:
        UserError: the checkpoint to resume from is missing, damaged or from another run or the other edition; or there
            is one, and ``resume`` is False; or the loss is not finite.
    """
    path = check_folder(folder, resume)
    seed_everything(settings.seed)
    device = place(model, device or best_device())
    model.hybridize()
    optimizer = Optimization(model, settings.learning_rate, 0.0, settings.clip, epsilon=EPSILON, betas=BETAS)
    batches, run = PairBatches(train, settings.tokens, settings.seed), SequenceRun()
    identity = {"edition": "mxnet", **run_identity(model, settings, train, dev)} if path is not None else {}
    if resume and path is not None:
        run = _resume(path, model, optimizer, identity)
    began, losses = time.perf_counter() - run.seconds, 0.0
    with progress_bar(settings.steps, run.step, progress) as bar:
        while run.step < settings.steps:
            epoch, first = divmod(run.step, len(batches))
            for batch in islice(batches.epoch(epoch), first, first + settings.steps - run.step):
                seed_step(settings.seed, run.step)
                losses += _train_step(model, batch, optimizer, settings, settings.rate_factor(run.step), device)
                run.step += 1
                run.tokens += batch.num_tokens
                bar.update()
                if run.step % settings.evaluate_every == 0 or run.step == settings.steps:
                    run.seconds = time.perf_counter() - began
                    _evaluate(model, dev, run, losses)
                    losses = 0.0
                    bar.set_postfix_str(f"dev loss {run.history[-1]['dev_loss']:.3f}")
                    if path is not None:
                        _save(model, optimizer, run, identity, path)
    _load_weights(model, run.best)
    return run.history


def _train_step(
    model: Any, batch: PairBatch, optimizer: Optimization, settings: SequenceTraining, factor: float, device: Context
) -> float:
    """Take one step of gradient descent, at the learning rate times a factor, and return the loss."""
    source_ids, source_mask, target_ids, target_mask = _tensors(batch, device)
    with autograd.record():
        logits = model(source_ids, target_ids[:, :-1], source_mask).logits  # (B, L - 1, V)
        loss = label_smoothing_loss(logits, target_ids[:, 1:], target_mask[:, 1:], settings.label_smoothing)
    return optimizer.descend(loss, factor)


def _evaluate(model: Any, dev: Sequence[EncodedPair], run: SequenceRun, losses: float) -> None:
    """Add a record to the history, and keep the weights if they are the best so far."""
    loss = run.mean_loss(losses)
    check_weights(model, run.step)
    if run.add_record(loss, evaluate_sequences(model, dev)):
        run.best = _weights(model)


def evaluate_sequences(model: Any, pairs: Sequence[EncodedPair], device: Context | None = None) -> float:
    """Return the mean of -log p over all tokens of the targets, without smoothing; exp of it is the perplexity.

    Args:
        model: a :class:`~d2lbert.mxnet.Transformer` or :class:`~d2lbert.mxnet.Seq2Seq`.
        pairs: encoded pairs.
        device: where to compute; by default where the model is. The model is moved there.
    """
    device = place(model, device)
    total, tokens = 0.0, 0
    for batch in PairBatches(pairs, EVALUATION_TOKENS).in_order():
        source_ids, source_mask, target_ids, target_mask = _tensors(batch, device)
        logits = model(source_ids, target_ids[:, :-1], source_mask).logits
        loss = label_smoothing_loss(logits, target_ids[:, 1:], target_mask[:, 1:], 0.0)
        total += float(loss.asscalar()) * batch.num_tokens
        tokens += batch.num_tokens
    return total / tokens


def _tensors(batch: PairBatch, device: Context) -> list[Tensor]:
    arrays = (batch.source_ids, batch.source_mask, batch.target_ids, batch.target_mask)
    return [nd.array(array, ctx=device, dtype="int32") for array in arrays]


def _weights(model: Any) -> dict[str, np.ndarray]:
    """Return a copy of the weights."""
    return {name: parameter.data().asnumpy() for name, parameter in shared_names(model).items()}


def _load_weights(model: Any, weights: dict[str, np.ndarray]) -> None:
    for name, parameter in shared_names(model).items():
        parameter.set_data(nd.array(weights[name]))


def _save(model: Any, optimizer: Optimization, run: SequenceRun, identity: dict[str, Any], folder: Path) -> None:
    """Write a checkpoint, and the model if it is the best so far."""
    if run.last_is_best:
        model.save_pretrained(folder)
    arrays = {f"model.{name}": array for name, array in _weights(model).items()}
    arrays |= {f"best.{name}": array for name, array in run.best.items()}
    counters = {name: value for name, value in vars(run).items() if name != "best"}
    save_checkpoint(folder / CHECKPOINTS, run.step, identity, {**arrays, **optimizer.moments()}, counters)


def _resume(folder: Path, model: Any, optimizer: Optimization, identity: dict[str, Any]) -> SequenceRun:
    """Restore model and optimizer to where the run stopped, and return the state of the run."""
    with load_checkpoint(folder / CHECKPOINTS, identity) as state:
        if state is None:
            raise no_checkpoint(folder)
        arrays, counters = state
        names = list(shared_names(model))
        _load_weights(model, {name: arrays[f"model.{name}"] for name in names})
        run = SequenceRun(**counters, best={name: arrays[f"best.{name}"] for name in names})
        optimizer.restore(arrays, run.step)
        return run
