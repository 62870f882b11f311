"""A linear-chain conditional random field: labels of a sentence that are scored together (Lafferty et al. 2001).

Shape legend: B sentences, T words of the longest, C labels. In every mask, True marks a word and False padding, which
comes at the end.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from d2lbert.errors import UserError


class LinearChainCrf(nn.Module):
    """Scores a sequence of labels: each word scores its own label, and each label scores the one that follows it.

    score(y) = start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_T], and
    p(y) = exp(score(y)) / sum over all C^T sequences of exp(score). Both that sum and the best sequence take
    T C^2 steps, since a label interacts only with its neighbours (Lample et al. 2016, section 2.2).

    Args:
        num_labels: C.

    Raises:
        UserError: there is no label.
    """

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        if num_labels < 1:
            raise UserError(f"a CRF over {num_labels} labels has nothing to choose: give at least 1")
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))  # row: the previous label
        self.start = nn.Parameter(torch.zeros(num_labels))
        self.end = nn.Parameter(torch.zeros(num_labels))

    def forward(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return -log p(labels) for each sentence, (B,).

        Args:
            emissions: (B, T, C).  labels: (B, T), any valid label where ``mask`` is False.  mask: (B, T).

        Raises:
            UserError: a sentence has no words.
        """
        _check_mask(mask)
        return self._log_sum(emissions, mask) - self._score(emissions, labels, mask)

    def _score(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return score(labels), (B,)."""
        emitted = emissions.gather(2, labels.unsqueeze(2)).squeeze(2)  # (B, T)
        transitions = self.transitions[labels[:, :-1], labels[:, 1:]]  # (B, T - 1)
        last = labels.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)  # (B,)
        inner = (emitted * mask).sum(1) + (transitions * mask[:, 1:]).sum(1)
        return self.start[labels[:, 0]] + inner + self.end[last]

    def _log_sum(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the logarithm of the sum of exp(score) over all sequences, (B,): the forward algorithm."""
        alpha = self.start + emissions[:, 0]  # (B, C): all prefixes that end in each label
        for position in range(1, emissions.shape[1]):
            # (B, previous C, C): extend each prefix by each label, then sum over the previous label.
            extended = (alpha.unsqueeze(2) + self.transitions).logsumexp(dim=1) + emissions[:, position]
            alpha = torch.where(mask[:, position, None], extended, alpha)
        return (alpha + self.end).logsumexp(dim=1)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """Return the sequence of labels with the highest score for each sentence: the Viterbi algorithm.

        Args:
            emissions: (B, T, C).  mask: (B, T).

        Raises:
            UserError: a sentence has no words.
        """
        _check_mask(mask)
        best = self.start + emissions[:, 0]  # (B, C): the best prefix that ends in each label
        pointers = []  # for each position, (B, C): the previous label in the best prefix that ends in each label
        for position in range(1, emissions.shape[1]):
            extended, previous = (best.unsqueeze(2) + self.transitions).max(dim=1)  # (B, C) each
            best = torch.where(mask[:, position, None], extended + emissions[:, position], best)
            pointers.append(previous)
        last = (best + self.end).argmax(dim=1)  # (B,)
        return [
            _backtrack([previous[row] for previous in pointers[: int(length) - 1]], int(label))
            for row, (length, label) in enumerate(zip(mask.sum(1), last, strict=True))
        ]


def _backtrack(pointers: list[Tensor], label: int) -> list[int]:
    """Follow the pointers, (C,) each, from the last label to the first."""
    labels = [label]
    for previous in reversed(pointers):
        labels.append(int(previous[labels[-1]]))
    return labels[::-1]


def _check_mask(mask: Tensor) -> None:
    if not bool(mask[:, 0].all()):
        raise UserError("a sentence without words has no labels: leave it out")
