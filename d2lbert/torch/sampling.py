"""Sampling: write a text by drawing each token from the model's distribution, cut and sharpened first.

Shape legend: N rows, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from d2lbert.errors import UserError
from d2lbert.torch.decoding import Decodable, Hypothesis, write


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn. The defaults draw from the model's own distribution.

    Fields:
        temperature: scores are divided by it: below 1 the likely tokens gain, above 1 they lose; 0 takes the best.
        top_k: only the k most probable tokens stay; 0 keeps all (Fan et al. 2018, section 5).
        top_p: of the most probable tokens as few stay as together reach probability p (Holtzman et al. 2020, section
            3.1), counted after temperature and ``top_k``.
        seed: of the draws. The same seed gives the same text.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise UserError(f"sampling: temperature is {self.temperature}; it must be 0 or more")
        if self.top_k < 0:
            raise UserError(f"sampling: top_k is {self.top_k}; give a number of tokens, or 0 for all")
        if not 0 < self.top_p <= 1:
            raise UserError(f"sampling: top_p is {self.top_p}; it is a probability, above 0 and at most 1")


def next_token_distribution(scores: Tensor, sampling: Sampling) -> Tensor:
    """Return the probabilities (N, V) from which the next token is drawn.

    Args:
        scores: (N, V), logits or log probabilities of the next token.
        sampling: temperature first, then top-k, then top-p.
    """
    if sampling.temperature == 0:
        return torch.zeros_like(scores).scatter(-1, scores.argmax(dim=-1, keepdim=True), 1.0)
    probabilities, tokens = (scores / sampling.temperature).softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    if sampling.top_k:
        probabilities[:, sampling.top_k :] = 0
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    # A token stays as long as those before it have not reached p. So the first one always stays.
    before = probabilities.cumsum(dim=-1) - probabilities
    probabilities = probabilities * (before < sampling.top_p)
    probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, tokens, probabilities)


def sample(
    model: Decodable,
    source_ids: Tensor,
    source_mask: Tensor | None = None,
    max_length: int = 64,
    sampling: Sampling | None = None,
) -> list[Hypothesis]:
    """Draw one output for each source: a continuation from a GPT, a translation from a Transformer.

    Args:
        source_ids: (B, M).  source_mask: (B, M), 1 = keep.
        max_length: the longest output, its end token included.
        sampling: how tokens are drawn; from the model's own distribution by default.

    Returns:
        A hypothesis for each source; its score is the log probability that the model gives it.
    """
    chosen = sampling or Sampling()
    # Drawn on the processor, where a seed means the same on every machine.
    generator = torch.Generator().manual_seed(chosen.seed)

    def draw(log_probabilities: Tensor) -> Tensor:
        probabilities = next_token_distribution(log_probabilities.float().cpu(), chosen)
        return torch.multinomial(probabilities, 1, generator=generator).squeeze(1).to(log_probabilities.device)

    return write(model, source_ids, source_mask, max_length, draw)
