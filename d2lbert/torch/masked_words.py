"""What a model with a head for masked words can be asked: what fits into a gap, and how likely a text is.

Shape legend: T tokens of a text, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from d2lbert.data.batching import pack
from d2lbert.errors import UserError
from d2lbert.text import Encoding, WordPiece
from d2lbert.text.encoding import MASK
from d2lbert.torch.bert import first_positions
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_tensors

_COPIES = 128  # texts of a batch


class _Gap(NamedTuple):
    """An input with a mask, the place that is asked for, and what should stand there."""

    encoding: Encoding
    place: int
    answer: int
    text: int  # which text it was made from


class Likelihood(NamedTuple):
    """How likely a text is.

    Fields:
        log_probability: the sum over its tokens of log p(token | all other tokens), in nats.
        tokens: how many there are, [CLS] and [SEP] not counted.
    """

    log_probability: float
    tokens: int


def fill_masks(model: BertForPretraining, tokenizer: WordPiece, text: str, k: int = 5) -> list[list[tuple[str, float]]]:
    """Return for each ``[MASK]`` of a text the k pieces that fit best, each with its probability, the best first.

    Raises:
        UserError: there is no ``[MASK]``, or the text is longer than the model takes.
    """
    encoding = tokenizer.encode(text)
    mask_id = tokenizer.token_to_id[MASK]
    places = [place for place, token in enumerate(encoding.ids) if token == mask_id]
    if not places:
        raise UserError(f"the text {text[:40]!r} has no {MASK}: write one where a word is to be guessed")
    longest = model.config.max_position_embeddings
    if len(encoding) > longest:
        raise UserError(f"the text has {len(encoding)} tokens, but the model takes {longest}: give a shorter one")
    log_probabilities = _log_probabilities(model, [_Gap(encoding, place, mask_id, 0) for place in places])  # (gaps, V)
    found = []
    for row in log_probabilities:
        best = row.topk(min(k, len(row)))
        pairs = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        found.append([(tokenizer.vocab[token], probability) for token, probability in pairs])
    return found


def pseudo_log_likelihoods(
    model: BertForPretraining, tokenizer: WordPiece, texts: Sequence[str], max_length: int | None = None
) -> list[Likelihood]:
    """Score texts by masking one token at a time (Salazar et al. 2020, equation 2).

    A masked model gives no probability of a whole text. The sum over the tokens of log p(token | all others) takes its
    place: T texts with one mask each stand for a text of T tokens.

    Args:
        max_length: longer texts are cut after so many tokens; the model's longest input by default.

    Raises:
        UserError: nothing of a text is left, because it holds only signs that the tokenizer drops.
    """
    longest = max_length or model.config.max_position_embeddings
    encodings = tokenizer.encode_batch(texts, max_length=longest)
    for text, encoding in zip(texts, encodings, strict=True):
        if all(encoding.special):
            raise UserError(f"the text {text[:40]!r} holds nothing that the tokenizer keeps: give at least one word")
    sums = [0.0] * len(texts)
    gaps = _gaps(encodings, tokenizer.token_to_id[MASK])
    while chunk := list(islice(gaps, _COPIES)):
        answers = torch.tensor([gap.answer for gap in chunk])
        found = _log_probabilities(model, chunk).gather(1, answers.unsqueeze(1)).squeeze(1)  # (gaps,)
        for gap, value in zip(chunk, found.tolist(), strict=True):
            sums[gap.text] += value
    counts = [sum(not special for special in encoding.special) for encoding in encodings]
    return [Likelihood(value, count) for value, count in zip(sums, counts, strict=True)]


def pseudo_perplexity(likelihoods: Sequence[Likelihood]) -> float:
    """Return the exponential of the mean of -log p over all tokens (Salazar et al. 2020, equation 4)."""
    tokens = sum(one.tokens for one in likelihoods)
    return math.exp(-sum(one.log_probability for one in likelihoods) / tokens)


def _gaps(encodings: Sequence[Encoding], mask_id: int) -> Iterator[_Gap]:
    """Yield each text once for each of its tokens, with that token masked."""
    for text, encoding in enumerate(encodings):
        for place, special in enumerate(encoding.special):
            if not special:
                ids = [*encoding.ids[:place], mask_id, *encoding.ids[place + 1 :]]
                yield _Gap(dataclasses.replace(encoding, ids=ids), place, encoding.ids[place], text)


@torch.inference_mode()
def _log_probabilities(model: BertForPretraining, gaps: Sequence[_Gap]) -> Tensor:
    """Return log p of every piece at each gap, (gaps, V), on the CPU."""
    batch = pack([gap.encoding for gap in gaps], pad_id=model.config.pad_token_id)
    rows = to_tensors(batch, model.decoder_bias.device)
    positions = first_positions(rows) + torch.tensor([gap.place for gap in gaps], device=model.decoder_bias.device)
    return model(rows, masked_positions=positions).token_logits.float().log_softmax(-1).cpu()
