"""Train models that turn one sequence into another, the Transformer and Seq2Seq, and translate with them.

Shape legend: B pairs of a batch, M length of the source, L length of the target, V vocabulary of the target.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from d2lbert.data.translation import EncodedPair, PairBatch, PairBatches, encode_source, pad_ids
from d2lbert.text import BytePairEncoding
from d2lbert.torch.generation import Decodable, beam_search
from d2lbert.torch.runtime import best_device, place, seed_everything
from d2lbert.torch.training.losses import check_weights
from d2lbert.torch.training.optim import descend, scale_rates
from d2lbert.torch.training.resuming import load_checkpoint, save_checkpoint
from d2lbert.training.progress import progress_bar
from d2lbert.training.translation import (
    BETAS,
    CHECKPOINTS,
    EPSILON,
    EVALUATION_TOKENS,
    SequenceRun,
    check_folder,
    no_checkpoint,
    run_identity,
)
from d2lbert.training.translation import SequenceTraining as SequenceTraining  # its name for others


def label_smoothing_loss(logits: Tensor, target_ids: Tensor, mask: Tensor, smoothing: float = 0.1) -> Tensor:
    """Return the mean loss of the real tokens, with smoothed labels (Vaswani et al. 2017, section 5.4).

    The target distribution puts 1 - smoothing on the right token and spreads the rest equally over all V tokens
    (Szegedy et al. 2016, section 7). The model learns to be less certain, which costs perplexity and gains BLEU.

    Args:
        logits: (B, L, V).  target_ids: (B, L).  mask: (B, L), 1 for a token and 0 for padding.
        smoothing: the fraction of the probability that is spread; 0 gives the cross-entropy, in nats.
    """
    keep = mask.bool()
    return functional.cross_entropy(logits[keep], target_ids[keep], label_smoothing=smoothing)


def train_sequences(
    model: Any,
    train: Sequence[EncodedPair],
    dev: Sequence[EncodedPair],
    settings: SequenceTraining,
    device: torch.device | str | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> list[dict[str, float]]:
    """Train with Adam and teacher forcing, and leave the model with its best weights.

    Args:
        model: a :class:`~d2lbert.torch.Transformer` or :class:`~d2lbert.torch.Seq2Seq`.
        train, dev: encoded pairs.
        device: where to train; by default :func:`~d2lbert.torch.runtime.best_device`. The model stays there.
        folder: where checkpoints and the best model are saved; None saves nothing.
        resume: continue from the checkpoint in the folder, to the same result as a run without the break.
        progress: show a bar on standard error.

    Returns:
        A record for each evaluation on the dev set: step, tokens predicted so far, seconds so far, mean training loss
        since the last evaluation, and ``dev_loss``, the mean of -log p over the tokens of the dev set, without
        smoothing. Its lowest value decides which weights are best.

    Raises:
        UserError: the checkpoint to resume from is missing, damaged or from another run; or there is one, and
            ``resume`` is False; or the loss is not finite.
    """
    path = check_folder(folder, resume)
    seed_everything(settings.seed)
    device = place(model, device or best_device())
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=BETAS, eps=EPSILON)
    batches, run = PairBatches(train, settings.tokens, settings.seed), SequenceRun()
    identity = run_identity(model, settings, train, dev) if path is not None else {}
    if resume and path is not None:
        run = _resume(path, model, optimizer, identity)
    began, losses = time.perf_counter() - run.seconds, torch.zeros((), device=device)
    with progress_bar(settings.steps, run.step, progress) as bar:
        while run.step < settings.steps:
            epoch, first = divmod(run.step, len(batches))
            for batch in islice(batches.epoch(epoch), first, first + settings.steps - run.step):
                scale_rates(optimizer, settings.rate_factor(run.step))
                losses += train_step(model, batch, optimizer, settings, device)
                run.step += 1
                run.tokens += batch.num_tokens
                bar.update()
                if run.step % settings.evaluate_every == 0 or run.step == settings.steps:
                    run.seconds = time.perf_counter() - began
                    _evaluate(model, dev, run, float(losses))
                    losses.zero_()
                    bar.set_postfix_str(f"dev loss {run.history[-1]['dev_loss']:.3f}")
                    if path is not None:
                        _save(model, optimizer, run, identity, path)
    model.load_state_dict(run.best)
    model.eval()
    return run.history


def train_step(
    model: Any, batch: PairBatch, optimizer: torch.optim.Optimizer, settings: SequenceTraining, device: torch.device
) -> Tensor:
    """Take one step of gradient descent and return the loss, a scalar."""
    model.train()
    source_ids, source_mask, target_ids, target_mask = _tensors(batch, device)
    logits = model(source_ids, target_ids[:, :-1], source_mask).logits  # (B, L - 1, V)
    loss = label_smoothing_loss(logits, target_ids[:, 1:], target_mask[:, 1:], settings.label_smoothing)
    return descend(loss, model, optimizer, settings.clip)


def _evaluate(model: Any, dev: Sequence[EncodedPair], run: SequenceRun, losses: float) -> None:
    """Add a record to the history, and keep the weights if they are the best so far."""
    loss = run.mean_loss(losses)
    check_weights(model, run.step)
    if run.add_record(loss, evaluate_sequences(model, dev)):
        run.best = {name: value.detach().clone() for name, value in model.state_dict().items()}


@torch.inference_mode()
def evaluate_sequences(model: Any, pairs: Sequence[EncodedPair], device: torch.device | str | None = None) -> float:
    """Return the mean of -log p over all tokens of the targets, without smoothing; exp of it is the perplexity.

    Args:
        model: a :class:`~d2lbert.torch.Transformer` or :class:`~d2lbert.torch.Seq2Seq`.
        pairs: encoded pairs.
        device: where to compute; by default where the model is. The model is moved there.
    """
    device = place(model.eval(), device)
    total, tokens = 0.0, 0
    for batch in PairBatches(pairs, EVALUATION_TOKENS).in_order():
        source_ids, source_mask, target_ids, target_mask = _tensors(batch, device)
        logits = model(source_ids, target_ids[:, :-1], source_mask).logits
        loss = label_smoothing_loss(logits, target_ids[:, 1:], target_mask[:, 1:], 0.0)
        total += float(loss) * batch.num_tokens
        tokens += batch.num_tokens
    return total / tokens


def _tensors(batch: PairBatch, device: torch.device) -> list[Tensor]:
    arrays = (batch.source_ids, batch.source_mask, batch.target_ids, batch.target_mask)
    return [torch.from_numpy(array).to(device) for array in arrays]


def _save(
    model: Any, optimizer: torch.optim.Optimizer, run: SequenceRun, identity: dict[str, Any], folder: Path
) -> None:
    """Write a checkpoint, and the model if it is the best so far."""
    if run.last_is_best:
        model.save_pretrained(folder)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "run": vars(run)}
    save_checkpoint(folder / CHECKPOINTS, run.step, identity, state)


def _resume(folder: Path, model: Any, optimizer: torch.optim.Optimizer, identity: dict[str, Any]) -> SequenceRun:
    """Restore model, optimiser and random generators to where the run stopped, and return the state of the run."""
    with load_checkpoint(folder / CHECKPOINTS, identity) as state:
        if state is None:
            raise no_checkpoint(folder)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return SequenceRun(**state["run"])


def translate(
    model: Decodable,
    tokenizer: BytePairEncoding,
    texts: Sequence[str],
    beam_size: int = 4,
    alpha: float = 0.6,
    batch_size: int = 32,
) -> list[str]:
    """Return a translation of each text, in the order of the texts.

    Texts of similar length are decoded together. A translation has at most 1.5 times the tokens of the longest source
    in its batch, plus ten.

    Args:
        tokenizer: with the special tokens of :data:`d2lbert.data.translation.PAIR_TOKENS`.
        beam_size, alpha: of :func:`beam_search`.
        batch_size: texts in a batch.
    """
    device = next(model.parameters()).device
    sources = [encode_source(text, tokenizer) for text in texts]
    order = sorted(range(len(texts)), key=lambda index: len(sources[index]))
    translations = [""] * len(texts)
    for start in range(0, len(texts), batch_size):
        batch = order[start : start + batch_size]
        ids, mask = (torch.from_numpy(array).to(device) for array in pad_ids([sources[index] for index in batch]))
        longest = int(1.5 * ids.shape[1]) + 10
        longest = min(longest, getattr(model.config, "max_position_embeddings", longest))
        for index, hypothesis in zip(batch, beam_search(model, ids, mask, beam_size, alpha, longest), strict=True):
            translations[index] = tokenizer.decode(hypothesis.ids).strip()
    return translations
