"""How much a head or a neuron matters to a task: the slope of the loss at a gate on its output (Michel et al. 2019).

A gate is a factor on what a part hands on, 1 as a rule; 0 removes the part. How fast the loss changes when the gate
moves from 1 is a first guess of what the removal would cost. One backward pass gives the slopes of all gates, where to
remove one part after another would take as many forward passes as there are parts.

Shape legend: N texts of a batch, L length of a row, G gates of a layer: its heads, or its neurons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from d2lbert.errors import UserError
from d2lbert.tasks.base import Task
from d2lbert.text import Tokenizer
from d2lbert.torch.encoder import TransformerEncoderBlock
from d2lbert.torch.heads import BertWithHead
from d2lbert.torch.runtime import place, to_tensors
from d2lbert.torch.training.losses import compute_loss
from d2lbert.training.inputs import check_examples, check_lengths, collate


def head_importance(
    model: BertWithHead,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int = 128,
    batch_size: int = 32,
) -> list[Tensor]:
    """Return the importance of every head: the mean over examples of the size of its gate's slope.

    Args:
        model: fine-tuned for the task; it is left as it is, without dropout.
        examples: with labels. Take them from the training set: what they choose has seen them.
        max_length: the most tokens of an input.
        batch_size: inputs in a batch, which changes the speed alone. The loss is that of fine-tuning; where a text has
            several targets, as in tagging, a text counts by its share of those of the batch.

    Returns:
        For each block (G,), not normalised; see :func:`normalize_per_layer`.

    Raises:
        UserError: there are no labels, or a text is longer than the model takes.

    Source: Michel et al. 2019.
    """
    gates = [(block.attention.output, block.attention.num_heads) for block in _blocks(model)]
    return _importance(gates, model, task, tokenizer, examples, max_length, batch_size)


def neuron_importance(
    model: BertWithHead,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int = 128,
    batch_size: int = 32,
) -> list[Tensor]:
    """Return the importance of every neuron of the feed-forward networks, (G,) for each block.

    A neuron is an entry of the vector between the two layers. Arguments and errors are those of
    :func:`head_importance`.
    """
    gates = [(block.feed_forward.project, block.feed_forward.project.in_features) for block in _blocks(model)]
    return _importance(gates, model, task, tokenizer, examples, max_length, batch_size)


def normalize_per_layer(importance: Sequence[Tensor]) -> list[Tensor]:
    """Divide the importance of the parts of each layer by their length as a vector, so that layers can be compared.

    The slopes differ in size from layer to layer (Molchanov et al. 2017, for filters; Michel et al. 2019, for heads).
    """
    return [own / own.norm().clamp(min=torch.finfo(own.dtype).tiny) for own in importance]


@contextmanager
def gated(layers: Sequence[nn.Linear], gates: Sequence[Tensor]) -> Iterator[None]:
    """Multiply what goes into some layers by gates, as long as the context lasts.

    Args:
        layers: of I inputs each. The inputs of ``attention.output`` are the heads' outputs side by side; those of
            ``feed_forward.project`` are the neurons.
        gates: for each layer (G,), the same for all tokens, or (N, 1, G), one row for each text of a padded batch. A
            gate is the factor of I / G neighbouring inputs.
    """

    def multiply(own: Tensor) -> Callable[[nn.Module, tuple[Tensor, ...]], Tensor]:
        return lambda _, inputs: inputs[0] * own.repeat_interleave(inputs[0].shape[-1] // own.shape[-1], dim=-1)

    pairs = zip(layers, gates, strict=True)
    handles = [layer.register_forward_pre_hook(multiply(own)) for layer, own in pairs]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _blocks(model: BertWithHead) -> list[TransformerEncoderBlock]:
    """Return the blocks; of an ALBERT each once, however many layers share it."""
    return [cast(TransformerEncoderBlock, block) for block in model.bert.encoder.blocks]


def _importance(
    places: Sequence[tuple[nn.Linear, int]],
    model: BertWithHead,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int,
    batch_size: int,
) -> list[Tensor]:
    """Return the mean |slope| of the gates before some layers; ``places``: each layer, and the number of its gates."""
    check_examples(examples)
    inputs = task.inputs(examples, tokenizer, max_length)
    check_lengths(model, inputs)
    if not inputs or any(item.target is None for item in inputs):
        raise UserError("no labelled examples: give one or more, each with its label")
    model.eval()
    device = place(model)
    layers = [layer for layer, _ in places]
    totals = [torch.zeros(count, device=device) for _, count in places]
    for start in range(0, len(inputs), batch_size):
        items = inputs[start : start + batch_size]
        # A text in each row, and gates of its own for each: so one backward pass gives the slopes of every text.
        batch = collate([encoding for item in items for encoding in item.encodings], tokenizer, packed=False)
        gates = [torch.ones(len(batch.token_ids), 1, count, device=device, requires_grad=True) for _, count in places]
        with gated(layers, gates):
            logits = model(to_tensors(batch, device))
        loss = compute_loss(task.loss, logits, [item.target for item in items], batch) * len(items)
        owner = [number for number, item in enumerate(items) for _ in item.encodings]  # the input of each text
        owners = torch.tensor(owner, device=device)  # (N,)
        for total, slopes in zip(totals, torch.autograd.grad(loss, gates), strict=True):
            by_input = total.new_zeros(len(items), len(total)).index_add_(0, owners, slopes[:, 0])
            total += by_input.abs().sum(0)
    return [total / len(inputs) for total in totals]
