"""Smaller models: embeddings as a product, distillation, and pruning: zeros, heads and neurons removed, which count."""

from d2lbert.torch.compression.distillation import (
    DISTILBERT_WEIGHTS,
    Projections,
    copy_layers,
    last_projections,
    masked_word_losses,
    relation_losses,
    taught,
)
from d2lbert.torch.compression.factorising import best_factors, factorise_embeddings
from d2lbert.torch.compression.importance import gated, head_importance, neuron_importance, normalize_per_layer
from d2lbert.torch.compression.magnitude import keep_zeros, prunable_weights, prune_smallest, sparsity
from d2lbert.torch.compression.structured import most_important, prune_encoder
from d2lbert.torch.compression.word_classifiers import BiLstmClassifier, CnnClassifier, word_tokenizer

__all__ = [
    "DISTILBERT_WEIGHTS",
    "BiLstmClassifier",
    "CnnClassifier",
    "Projections",
    "best_factors",
    "copy_layers",
    "factorise_embeddings",
    "gated",
    "head_importance",
    "keep_zeros",
    "last_projections",
    "masked_word_losses",
    "most_important",
    "neuron_importance",
    "normalize_per_layer",
    "prunable_weights",
    "prune_encoder",
    "prune_smallest",
    "relation_losses",
    "sparsity",
    "taught",
    "word_tokenizer",
]
