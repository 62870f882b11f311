"""Magnitude pruning: weights near zero become zero, and stay so while the others are trained (Han et al. 2015).

The matrices keep their sizes, so that nothing is faster and no file smaller before it is compressed.

Shape legend: O outputs of a linear layer, I its inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from d2lbert.errors import UserError


def prunable_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the matrices (O, I) of all linear layers in the blocks of a model, by the names of the layers.

    Embeddings, biases, LayerNorm, the pooler and a head are left as they are.

    Raises:
        UserError: the model has no blocks.
    """
    found = {
        name: layer.weight
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and ".blocks." in f".{name}"
    }
    if not found:
        raise UserError(f"a {type(model).__name__} has no blocks with linear layers: give an encoder to prune")
    return found


@torch.no_grad()
def prune_smallest(model: nn.Module, share: float, together: bool = False) -> None:
    """Set the weights with the smallest absolute values to zero, in place.

    Args:
        model: has blocks; see :func:`prunable_weights`.
        share: of the weights that are zero afterwards, from 0 up to 1. Of n weights it is round(share n) of them.
        together: rank the weights of all matrices together; by default each matrix by itself.

    Raises:
        UserError: the share is not from 0 to below 1, or the model has no blocks.
    """
    if not 0 <= share < 1:
        raise UserError(f"the share of weights to prune is {share}: give a number from 0 to below 1")
    weights = list(prunable_weights(model).values())
    for group in [weights] if together else [[weight] for weight in weights]:
        sizes = torch.cat([weight.abs().flatten() for weight in group])
        pruned = torch.zeros_like(sizes, dtype=torch.bool)
        pruned[sizes.topk(round(share * len(sizes)), largest=False, sorted=False).indices] = True
        for weight, own in zip(group, pruned.split([weight.numel() for weight in group]), strict=True):
            weight.masked_fill_(own.view_as(weight), 0)


def keep_zeros(model: nn.Module) -> list[RemovableHandle]:
    """Let the weights that are zero stay zero while the model is trained: they get no gradient.

    An optimizer that is made afterwards moves them neither by its moments nor by weight decay. Names and files of the
    model stay as they are.

    Returns:
        what ends it: ``handle.remove()`` of each.

    Raises:
        UserError: the model has no blocks.
    """

    def mask(weight: Tensor) -> RemovableHandle:
        def of_others(gradient: Tensor) -> Tensor:
            return gradient * (weight != 0)  # looked up anew: the model may move, or go on from a checkpoint

        handle: RemovableHandle = weight.register_hook(of_others)
        return handle

    return [mask(weight) for weight in prunable_weights(model).values()]


def sparsity(model: nn.Module) -> float:
    """Return the share of zeros among the weights that can be pruned.

    Raises:
        UserError: the model has no blocks.
    """
    weights = prunable_weights(model).values()
    zeros = sum(int((weight == 0).sum()) for weight in weights)
    return zeros / sum(weight.numel() for weight in weights)
