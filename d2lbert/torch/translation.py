"""Train models that turn one sequence into another, the Transformer and Seq2Seq, and translate with them.

Shape legend: B pairs of a batch, M length of the source, L length of the target, V vocabulary of the target.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from d2lbert.config.settings import Settings, setting
from d2lbert.data.translation import EncodedPair, PairBatch, PairBatches, encode_source, pad_ids
from d2lbert.errors import UserError
from d2lbert.storage import checkpoints
from d2lbert.storage.files import writable_folder
from d2lbert.text import BytePairEncoding
from d2lbert.torch.generation import Decodable, beam_search
from d2lbert.torch.runtime import best_device, place, seed_everything
from d2lbert.torch.training.losses import check_weights
from d2lbert.torch.training.optim import descend, scale_rates
from d2lbert.torch.training.resuming import load_checkpoint, save_checkpoint
from d2lbert.training.inputs import check_finite
from d2lbert.training.progress import progress_bar
from d2lbert.training.run import fingerprint_of_examples
from d2lbert.training.schedules import inverse_square_root_decay, linear_warmup_and_decay

_EVALUATION_TOKENS = 4096
_CHECKPOINTS = "checkpoints"


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


@dataclass(frozen=True)
class SequenceTraining(Settings):
    """Settings of a run."""

    kind: ClassVar[str] = "training"

    steps: int = setting(1000, "steps of the optimiser", above=0)
    tokens: int = setting(2048, "positions of the targets in a batch, padding included", above=0)
    learning_rate: float = setting(1e-3, "highest learning rate, at the end of the warm-up", above=0)
    warmup_steps: int = setting(200, "steps in which the rate rises", above=0)
    label_smoothing: float = setting(
        0.1, "share of the probability that the loss asks to be spread over the vocabulary", at_least=0, below=1
    )
    clip: float = setting(1.0, "largest norm of the gradient", above=0)
    evaluate_every: int = setting(250, "steps between two looks at the dev set, each with a checkpoint", above=0)
    seed: int = setting(0, "of the order and of dropout", at_least=0, below=2**32)
    decay: str = setting(
        "root",
        "how the rate falls after the warm-up: with the square root of the steps, or linearly to 0 at the last one",
        one_of=("root", "linear"),
    )

    def rate_factor(self, step: int) -> float:
        """Return the factor on the learning rate at a step, counted from 0."""
        if self.decay == "linear":
            return linear_warmup_and_decay(step, self.warmup_steps, self.steps)
        return inverse_square_root_decay(step, self.warmup_steps)


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
    if resume and folder is None:
        raise UserError("to resume needs the folder of the run; give the one with the checkpoint")
    path = writable_folder(folder) if folder is not None else None
    if path is not None and not resume and checkpoints.begun(path / _CHECKPOINTS):
        raise UserError(f"{path} holds the checkpoints of a run: resume it, or choose another folder")
    seed_everything(settings.seed)
    device = place(model, device or best_device())
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), eps=1e-9)
    batches, run = PairBatches(train, settings.tokens, settings.seed), _Run()
    identity = {**_identity(model, settings), **_fingerprints(train, dev)} if path is not None else {}
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


@dataclass
class _Run:
    """The state of a run: steps, tokens and seconds so far, the records, and the best weights."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)


def train_step(
    model: Any, batch: PairBatch, optimizer: torch.optim.Optimizer, settings: SequenceTraining, device: torch.device
) -> Tensor:
    """Take one step of gradient descent and return the loss, a scalar."""
    model.train()
    source_ids, source_mask, target_ids, target_mask = _tensors(batch, device)
    logits = model(source_ids, target_ids[:, :-1], source_mask).logits  # (B, L - 1, V)
    loss = label_smoothing_loss(logits, target_ids[:, 1:], target_mask[:, 1:], settings.label_smoothing)
    return descend(loss, model, optimizer, settings.clip)


def _evaluate(model: Any, dev: Sequence[EncodedPair], run: _Run, losses: float) -> None:
    """Add a record to the history, and keep the weights if they are the best so far."""
    before = int(run.history[-1]["step"]) if run.history else 0
    loss = losses / (run.step - before)
    check_finite(loss, run.step)
    check_weights(model, run.step)
    dev_loss = evaluate_sequences(model, dev)
    if not run.history or dev_loss < min(record["dev_loss"] for record in run.history):
        run.best = {name: value.detach().clone() for name, value in model.state_dict().items()}
    times = {"step": run.step, "tokens": run.tokens, "seconds": run.seconds}
    run.history.append({**times, "loss": loss, "dev_loss": dev_loss})


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
    for batch in PairBatches(pairs, _EVALUATION_TOKENS).in_order():
        source_ids, source_mask, target_ids, target_mask = _tensors(batch, device)
        logits = model(source_ids, target_ids[:, :-1], source_mask).logits
        loss = label_smoothing_loss(logits, target_ids[:, 1:], target_mask[:, 1:], 0.0)
        total += float(loss) * batch.num_tokens
        tokens += batch.num_tokens
    return total / tokens


def _tensors(batch: PairBatch, device: torch.device) -> list[Tensor]:
    arrays = (batch.source_ids, batch.source_mask, batch.target_ids, batch.target_mask)
    return [torch.from_numpy(array).to(device) for array in arrays]


def _identity(model: Any, settings: SequenceTraining) -> dict[str, Any]:
    """Return what must be the same when a run is resumed.

    The number of steps may change, save where the learning rate falls towards the last one.
    """
    values = {name: value for name, value in asdict(settings).items() if name != "steps" or settings.decay == "linear"}
    return {**model.config.to_dict(), **values}


def _fingerprints(train: Sequence[EncodedPair], dev: Sequence[EncodedPair]) -> dict[str, str]:
    return {"train": fingerprint_of_examples(train), "dev": fingerprint_of_examples(dev)}


def _save(model: Any, optimizer: torch.optim.Optimizer, run: _Run, identity: dict[str, Any], folder: Path) -> None:
    """Write a checkpoint, and the model if it is the best so far."""
    if run.history[-1]["dev_loss"] == min(record["dev_loss"] for record in run.history):
        model.save_pretrained(folder)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "run": vars(run)}
    save_checkpoint(folder / _CHECKPOINTS, run.step, identity, state)


def _resume(folder: Path, model: Any, optimizer: torch.optim.Optimizer, identity: dict[str, Any]) -> _Run:
    """Restore model, optimiser and random generators to where the run stopped, and return the state of the run."""
    with load_checkpoint(folder / _CHECKPOINTS, identity) as state:
        if state is None:
            raise UserError(f"there is no checkpoint in {folder}: start the run without resume")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return _Run(**state["run"])


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
