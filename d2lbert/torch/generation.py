"""Generation: greedy search, beam search and sampling, for every model that can :meth:`~Decodable.step`.

Shape legend: B sources, N rows (a source with each of its beams), K beams, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from d2lbert.config.gpt import Sampling as Sampling  # both may be imported from here as well
from d2lbert.errors import UserError
from d2lbert.outputs import Hypothesis as Hypothesis


class State(Protocol):
    """Where decoding stands, for every row of a batch.

    Fields:
        last: (N,), the token that the first step is given: a begin token, or the last token of a prompt.
    """

    last: Tensor

    def select(self, rows: Tensor) -> None:
        """Keep some rows, in a new order; a row may come more than once."""


class Decodable(Protocol):
    """A model that gives a target one token at a time."""

    config: Any

    def parameters(self) -> Iterator[Any]:
        """Return the parameters, which tell the device."""

    def start(self, source_ids: Tensor, source_mask: Tensor | None = None) -> Any:
        """Return the :class:`State` in which no token of the target is known."""

    def step(self, token_ids: Tensor, state: Any) -> Tensor:
        """Return scores (N, V) of the next token, given the last one of every row, (N,)."""


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6)^alpha, by which a log probability is divided (Wu et al. 2016, equation 14).

    Every token makes a sequence less probable, so a search would favour short outputs. ``alpha`` 0 leaves it so; the
    2017 Transformer has 0.6. The length counts the end token.
    """
    return ((5 + length) / 6) ** alpha


def greedy_search(
    model: Decodable, source_ids: Tensor, source_mask: Tensor | None = None, max_length: int = 64
) -> list[Hypothesis]:
    """Take the most probable next token, again and again.

    Args:
        source_ids: (B, M).  source_mask: (B, M), 1 = keep.
        max_length: the longest output, its end token included.

    Returns:
        A hypothesis for each source; its score has no length penalty.
    """
    return generate(
        model, source_ids, source_mask, max_length, lambda log_probabilities: log_probabilities.argmax(dim=-1)
    )


@torch.inference_mode()
def generate(
    model: Decodable,
    source_ids: Tensor,
    source_mask: Tensor | None,
    max_length: int,
    choose: Callable[[Tensor], Tensor],
) -> list[Hypothesis]:
    """Generate one token after the other, each as ``choose`` says.

    Args:
        source_ids, source_mask, max_length: as in :func:`greedy_search`.
        choose: maps the log probabilities (B, V) of the next token to tokens (B,).

    Returns:
        A hypothesis for each source; its score is the log probability that the model gives it.
    """
    eos = model.config.eos_token_id
    state = model.start(source_ids, source_mask)
    last = state.last  # (B,)
    hypotheses = [Hypothesis(score=0.0) for _ in source_ids]
    for _ in range(max_length):
        # In 16 bits two tokens of different scores may have one log probability.
        steps = model.step(last, state).float().log_softmax(dim=-1)  # (B, V)
        last = choose(steps)
        values = steps.gather(1, last.unsqueeze(1)).squeeze(1)  # (B,)
        for hypothesis, value, token in zip(hypotheses, values.tolist(), last.tolist(), strict=True):
            if hypothesis.ended:
                continue
            hypothesis.score += value
            hypothesis.ended = token == eos
            if token != eos:
                hypothesis.ids.append(token)
        if all(hypothesis.ended for hypothesis in hypotheses):
            break
    return hypotheses


@torch.inference_mode()
def beam_search(
    model: Decodable,
    source_ids: Tensor,
    source_mask: Tensor | None = None,
    beam_size: int = 4,
    alpha: float = 0.6,
    max_length: int = 64,
) -> list[Hypothesis]:
    """Follow the ``beam_size`` best beginnings at once and return the best output that ended.

    A source is done when no living beginning can overtake its best output any more, even if it ended with certainty at
    the longest length. So the search never stops too early, and one with beams enough is exhaustive.

    Args:
        source_ids: (B, M).  source_mask: (B, M), 1 = keep.
        beam_size: K.
        alpha: of :func:`length_penalty`, 0 or more.
        max_length: the longest output, its end token included.

    Returns:
        The best hypothesis of each source. Where none ended, the best unfinished one.

    Raises:
        UserError: ``beam_size`` or ``max_length`` below 1, or ``alpha`` below 0.
    """
    if beam_size < 1 or max_length < 1 or alpha < 0:
        raise UserError(
            f"beam search: beam_size {beam_size}, max_length {max_length}, alpha {alpha}; give at least 1, 1 and 0"
        )
    search = _BeamSearch(model.config.eos_token_id, beam_size, alpha, max_length, source_ids)
    state = model.start(source_ids, source_mask)
    state.select(torch.arange(len(source_ids), device=source_ids.device).repeat_interleave(beam_size))
    last = state.last  # (N,)
    while True:
        rows = search.advance(model.step(last, state).float().log_softmax(dim=-1))
        if not len(rows):
            return search.best
        state.select(rows)
        last = search.prefixes[:, :, -1].flatten()


class _BeamSearch:
    """The beams of the sources that are not done, and the best output of every source so far."""

    def __init__(self, eos: int, beam_size: int, alpha: float, max_length: int, source_ids: Tensor) -> None:
        batch = len(source_ids)
        self.eos, self.beam_size, self.alpha, self.max_length = eos, beam_size, alpha, max_length
        self.best = [Hypothesis() for _ in range(batch)]
        self.sources = list(range(batch))  # those that are not done
        self.prefixes = source_ids.new_empty(batch, beam_size, 0)  # (B, K, tokens so far)
        self.log_probabilities = torch.full((batch, beam_size), -math.inf, device=source_ids.device)
        self.log_probabilities[:, 0] = 0.0  # at first all beams are the same empty beginning: one of them counts

    def advance(self, log_probabilities: Tensor) -> Tensor:
        """Take a step, given (N, V), and return which rows go on (N',): none when the search has ended."""
        batch, vocabulary = len(self.sources), log_probabilities.shape[1]
        steps = log_probabilities.view(batch, self.beam_size, vocabulary)
        totals = (self.log_probabilities.unsqueeze(2) + steps).flatten(1)  # (B, K V)
        # At most one candidate of each beam ends, so among twice as many there are K that do not.
        values, positions = totals.topk(min(2 * self.beam_size, totals.shape[1]), dim=1)  # (B, 2 K)
        beams, tokens = positions // vocabulary, positions % vocabulary
        ended = tokens == self.eos
        self._record_ended(values, beams, ended)
        order = ended.long().argsort(dim=1, stable=True)[:, : self.beam_size]  # those that go on, the best first
        self.log_probabilities = values.masked_fill(ended, -math.inf).gather(1, order)  # (B, K)
        beams, tokens = beams.gather(1, order), tokens.gather(1, order)
        grown = self.prefixes.gather(1, beams.unsqueeze(2).expand(-1, -1, self.prefixes.shape[2]))
        self.prefixes = torch.cat([grown, tokens.unsqueeze(2)], dim=2)  # (B, K, tokens so far)
        return self._drop_what_is_done(beams)

    def _record_ended(self, values: Tensor, beams: Tensor, ended: Tensor) -> None:
        """Keep the best output of each source among those that end now. Only the K best candidates may end."""
        penalty = length_penalty(self.prefixes.shape[2] + 1, self.alpha)
        scores = values.masked_fill(~ended, -math.inf)[:, : self.beam_size] / penalty
        best, columns = scores.max(dim=1)
        for row, (score, column) in enumerate(zip(best.tolist(), columns.tolist(), strict=True)):
            if score > self.best[self.sources[row]].score:
                ids = self.prefixes[row, beams[row, column]].tolist()
                self.best[self.sources[row]] = Hypothesis(ids, score, ended=True)

    def _drop_what_is_done(self, beams: Tensor) -> Tensor:
        """Return the rows that go on. At the longest length none does, and unfinished beginnings must do."""
        device, length = beams.device, self.prefixes.shape[2]
        reachable = self.log_probabilities[:, 0] / length_penalty(self.max_length, self.alpha)  # (B,)
        best = torch.tensor([self.best[source].score for source in self.sources], device=device)
        living = reachable > best
        if length == self.max_length:
            for row, source in enumerate(self.sources):
                if not self.best[source].ended:
                    self.best[source] = Hypothesis(self.prefixes[row, 0].tolist(), reachable[row].item())
            living = torch.zeros_like(living)
        rows = torch.arange(len(beams), device=device).unsqueeze(1) * self.beam_size + beams  # (B, K)
        self.sources = [source for source, lives in zip(self.sources, living.tolist(), strict=True) if lives]
        self.prefixes, self.log_probabilities = self.prefixes[living], self.log_probabilities[living]
        return rows[living].flatten()


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
    settings = sampling or Sampling()
    # Drawn on the processor, where a seed means the same on every machine.
    generator = torch.Generator().manual_seed(settings.seed)

    def draw(log_probabilities: Tensor) -> Tensor:
        probabilities = next_token_distribution(log_probabilities.cpu(), settings)
        return torch.multinomial(probabilities, 1, generator=generator).squeeze(1).to(log_probabilities.device)

    return generate(model, source_ids, source_mask, max_length, draw)
