"""Smaller models: weights set to zero, heads and neurons removed, what tells which matter; embeddings as a product."""

from d2lbert.torch.compression.factorising import best_factors, factorise_embeddings
from d2lbert.torch.compression.importance import gated, head_importance, neuron_importance, normalize_per_layer
from d2lbert.torch.compression.magnitude import keep_zeros, prunable_weights, prune_smallest, sparsity
from d2lbert.torch.compression.structured import most_important, prune_encoder

__all__ = [
    "best_factors",
    "factorise_embeddings",
    "gated",
    "head_importance",
    "keep_zeros",
    "most_important",
    "neuron_importance",
    "normalize_per_layer",
    "prunable_weights",
    "prune_encoder",
    "prune_smallest",
    "sparsity",
]
