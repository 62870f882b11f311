"""The two sides of pretraining: ours and ``transformers.BertForPreTraining``, with the same weights, on one batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.twins import twin
from d2lbert.config import preset
from d2lbert.data.batching import Batch
from d2lbert.data.pretraining.batches import PretrainingBatch
from d2lbert.outputs import Rows
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_device, to_tensors
from d2lbert.torch.training.losses import pretraining_losses
from d2lbert.torch.training.optim import decay_groups


def models(name: str, vocab_size: int, attention_dropout: float = 0.1) -> tuple[Any, BertForPretraining]:
    """Return the reference and ours, of a named size, with the same weights."""
    torch.manual_seed(0)
    sizes = {"vocab_size": vocab_size, "attention_probs_dropout_prob": attention_dropout}
    ours = BertForPretraining(preset(name).replace(**sizes))
    return twin(ours, "BertForPreTraining"), ours


def full_rows(ids: np.ndarray) -> Batch:
    """Return the rows (N, L) as a batch without padding; the second half of each is its second segment."""
    columns = np.broadcast_to(np.arange(ids.shape[1]), ids.shape).copy()
    return Batch(
        token_ids=ids,
        segment_ids=(columns > ids.shape[1] // 2).astype(np.int64),
        mask=np.ones_like(ids),
        position_ids=columns,
        sequence_ids=np.ones_like(ids),
        starts=np.stack([np.arange(len(ids)), np.zeros(len(ids), dtype=np.int64)], axis=1),
        packed=False,
    )


def our_loss(model: BertForPretraining, batch: PretrainingBatch) -> Tensor:
    """Return our loss of a batch."""
    return loss_of_rows(model, batch, to_tensors(batch.rows, model.decoder_bias.device))


def loss_of_rows(model: BertForPretraining, batch: PretrainingBatch, rows: Rows[Tensor]) -> Tensor:
    """Return our loss of a batch whose tensors are given."""
    device = model.decoder_bias.device
    logits = model.objectives(rows, to_device(batch.positions, device))
    targets = {name: to_device(array, device) for name, array in batch.targets.items()}
    return torch.stack(list(pretraining_losses(logits, targets, overwrite=True).values())).sum()


def their_loss(model: Any, batch: PretrainingBatch, masked: bool = True) -> Tensor:
    """Return the reference's loss of a batch in padded rows; full rows need not be ``masked``."""
    labels = np.full(batch.rows.token_ids.size, -100)
    labels[batch.masked_positions] = batch.masked_ids
    inputs = {
        "input_ids": batch.rows.token_ids,
        "token_type_ids": batch.rows.segment_ids,
        "labels": labels.reshape(batch.rows.token_ids.shape),
        "next_sentence_label": batch.next_labels,
    }
    if masked:
        inputs["attention_mask"] = batch.rows.mask
    return model(**{name: to_device(array, model.device) for name, array in inputs.items()}).loss


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Return fused AdamW, the same for all sides."""
    return torch.optim.AdamW(decay_groups(model, 0.01), lr=1e-4, fused=True)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Any, batch: PretrainingBatch) -> None:
    """Take one step of training; ``loss`` is one of the two functions above."""
    loss(model, batch).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
