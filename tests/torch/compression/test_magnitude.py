"""Magnitude pruning: which weights become zero, how many, and that they stay so."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from d2lbert import UserError
from d2lbert.config.training import Training
from d2lbert.torch.compression import keep_zeros, prunable_weights, prune_smallest, sparsity
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.training.finetuning import fine_tune


def test_the_smallest_of_a_matrix_by_eye(model: BertForSequenceClassification) -> None:
    weight = model.bert.encoder.layers()[0].feed_forward.expand.weight  # (20, 12)
    with torch.no_grad():
        weight.copy_((torch.arange(240.0) - 120.5).view(20, 12))
    prune_smallest(model, 0.1)
    zeros = (weight == 0).nonzero().tolist()
    assert [12 * row + column for row, column in zeros] == list(range(109, 133))  # -11.5 to 11.5


def test_only_the_matrices_of_the_blocks_are_pruned(model: BertForSequenceClassification) -> None:
    before = copy.deepcopy(model.state_dict())
    names = {f"{name}.weight" for name in prunable_weights(model)}
    assert len(names) == 3 * 6
    prune_smallest(model, 0.5)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == names


@pytest.mark.parametrize("share", [0.0, 0.1, 1 / 3, 0.9])
@pytest.mark.parametrize("together", [False, True])
def test_zeros_are_counted_exactly(model: BertForSequenceClassification, share: float, together: bool) -> None:
    weights = prunable_weights(model).values()
    sizes = [weight.numel() for weight in weights]
    wanted = round(share * sum(sizes)) if together else sum(round(share * size) for size in sizes)
    prune_smallest(model, share, together)
    assert sum(int((weight == 0).sum()) for weight in weights) == wanted
    assert sparsity(model) == wanted / sum(sizes)


def test_ties_do_not_change_the_count(model: BertForSequenceClassification) -> None:
    with torch.no_grad():
        for weight in prunable_weights(model).values():
            weight.fill_(0.5)
    prune_smallest(model, 0.25, together=True)
    assert sparsity(model) == 0.25


@pytest.mark.parametrize("together", [False, True])
def test_the_same_weights_as_pytorch(model: BertForSequenceClassification, together: bool) -> None:
    reference = copy.deepcopy(model)
    layers = [(layer, "weight") for layer in map(reference.get_submodule, prunable_weights(reference))]
    if together:
        prune.global_unstructured(layers, prune.L1Unstructured, amount=0.4)
    else:
        for layer, name in layers:
            prune.l1_unstructured(layer, name, amount=0.4)
    prune_smallest(model, 0.4, together)
    for (layer, _), weight in zip(layers, prunable_weights(model).values(), strict=True):
        assert torch.equal(layer.weight, weight)


def test_zeros_stay_in_training(model, task, tokenizer, examples) -> None:
    prune_smallest(model, 0.6)
    zeros = {name: weight == 0 for name, weight in prunable_weights(model).items()}
    before = {name: weight.clone() for name, weight in prunable_weights(model).items()}
    handles = keep_zeros(model)
    settings = Training(epochs=3, batch_size=2, learning_rate=1e-2, weight_decay=0.1, best_by="epoch")
    fine_tune(model, task, tokenizer, examples, examples, settings, "cpu", progress=False)
    for name, weight in prunable_weights(model).items():
        assert torch.equal(weight == 0, zeros[name])
        assert (weight - before[name]).abs().max() > 1e-3  # the others have learned
    for handle in handles:
        handle.remove()
    fine_tune(model, task, tokenizer, examples, examples, settings, "cpu", progress=False)
    assert sparsity(model) < 0.1


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_shares_that_cannot_be(model: BertForSequenceClassification, share: float) -> None:
    with pytest.raises(UserError, match=r"^the share of weights to prune is .*: give a number from 0 to below 1$"):
        prune_smallest(model, share)
    assert sparsity(model) == 0


def test_a_model_without_blocks() -> None:
    with pytest.raises(UserError, match=r"^a Linear has no blocks with linear layers: give an encoder to prune$"):
        prune_smallest(nn.Linear(3, 3), 0.5)
