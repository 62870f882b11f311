"""Generation: from the scores of the next token to the probabilities that it is drawn from.

The search by a cache, which every model of the PyTorch edition shares, has no place here: a model of this edition that
writes (:meth:`d2lbert.mxnet.gpt.Gpt.generate`) reads its text anew for each token.

Shape legend: N rows, V vocabulary.
"""

from __future__ import annotations

import numpy as np

from d2lbert.config.gpt import Sampling


def next_token_distribution(scores: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Return the probabilities (N, V) from which the next token is drawn.

    Args:
        scores: (N, V), logits or log probabilities of the next token, an array of NumPy.
        sampling: temperature first, then top-k, then top-p.
    """
    distribution = np.zeros(scores.shape)
    if sampling.temperature == 0:
        np.put_along_axis(distribution, scores.argmax(axis=-1)[:, None], 1.0, axis=-1)
        return distribution
    tokens = (-scores).argsort(axis=-1, kind="stable")  # the most probable first
    scaled = np.take_along_axis(scores, tokens, axis=-1).astype(np.float64) / sampling.temperature
    probabilities = np.exp(scaled - scaled[:, :1])
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    if sampling.top_k:
        probabilities[:, sampling.top_k :] = 0
        probabilities /= probabilities.sum(axis=-1, keepdims=True)
    # A token stays as long as those before it have not reached p. So the first one always stays.
    before = probabilities.cumsum(axis=-1) - probabilities
    probabilities *= before < sampling.top_p
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    np.put_along_axis(distribution, tokens, probabilities, axis=-1)
    return distribution
