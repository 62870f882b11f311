"""Use a model with a head for masked words: predict what fits a gap, and score how likely a text is.

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
from d2lbert.text import Encoding, Tokenizer, WordPiece
from d2lbert.text.encoding import MASK
from d2lbert.torch.bert import first_positions
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_tensors

_BATCH_SIZE = 128  # masked copies in a batch


class _Gap(NamedTuple):
    """An input with a mask, the position to predict, and the token that belongs there."""

    encoding: Encoding
    position: int
    target: int
    text: int  # index of the text that it was made from


class Likelihood(NamedTuple):
    """How likely a text is.

    Fields:
        log_probability: the sum over its tokens of log p(token | all other tokens), in nats.
        tokens: the number of tokens, without [CLS] and [SEP].
    """

    log_probability: float
    tokens: int


def fill_masks(model: BertForPretraining, tokenizer: Tokenizer, text: str, k: int = 5) -> list[list[tuple[str, float]]]:
    """Return the k most likely pieces for each ``[MASK]`` of a text, each with its probability, best first.

    Raises:
        UserError: there is no ``[MASK]``, or the text is longer than the model takes.
    """
    encoding = tokenizer.encode(text)
    mask_id = tokenizer.token_to_id[MASK]
    positions = [position for position, token in enumerate(encoding.ids) if token == mask_id]
    if not positions:
        raise UserError(f"the text {text[:40]!r} has no {MASK}: write one where a word is to be guessed")
    longest = model.config.max_position_embeddings
    if len(encoding) > longest:
        raise UserError(f"the text has {len(encoding)} tokens, but the model takes {longest}: give a shorter one")
    gaps = [_Gap(encoding, position, mask_id, 0) for position in positions]
    log_probabilities = _log_probabilities(model, gaps)  # (gaps, V)
    predictions = []
    for row in log_probabilities:
        best = row.topk(min(k, len(row)))
        pairs = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        predictions.append([(tokenizer.vocab[token], probability) for token, probability in pairs])
    return predictions


def pseudo_log_likelihoods(
    model: BertForPretraining, tokenizer: WordPiece, texts: Sequence[str], max_length: int | None = None
) -> list[Likelihood]:
    """Score texts by masking one token at a time (Salazar et al. 2020, equation 2).

    A masked model gives no probability of a whole text. The sum over the tokens of log p(token | all others) replaces
    it. A text of T tokens needs T copies, each with one mask.

    Args:
        max_length: longer texts are cut after this many tokens, [CLS] and [SEP] included; by default as many as the
            model takes.

    Raises:
        UserError: a text is empty, or has only characters that the tokenizer drops.
    """
    longest = max_length or model.config.max_position_embeddings
    encodings = tokenizer.encode_batch(texts, max_length=longest)
    for text, encoding in zip(texts, encodings, strict=True):
        if all(encoding.special):
            raise UserError(f"the text {text[:40]!r} holds nothing that the tokenizer keeps: give at least one word")
    sums = [0.0] * len(texts)
    gaps = _gaps(encodings, tokenizer.token_to_id[MASK])
    while chunk := list(islice(gaps, _BATCH_SIZE)):
        targets = torch.tensor([gap.target for gap in chunk])
        values = _log_probabilities(model, chunk).gather(1, targets.unsqueeze(1)).squeeze(1)  # (gaps,)
        for gap, value in zip(chunk, values.tolist(), strict=True):
            sums[gap.text] += value
    counts = [sum(not special for special in encoding.special) for encoding in encodings]
    return [Likelihood(value, count) for value, count in zip(sums, counts, strict=True)]


def pseudo_perplexity(likelihoods: Sequence[Likelihood]) -> float:
    """Return the exponential of the mean of -log p over all tokens (Salazar et al. 2020, equation 4)."""
    tokens = sum(likelihood.tokens for likelihood in likelihoods)
    return math.exp(-sum(likelihood.log_probability for likelihood in likelihoods) / tokens)


def _gaps(encodings: Sequence[Encoding], mask_id: int) -> Iterator[_Gap]:
    """Yield each text once for each of its tokens, with that token masked."""
    for text, encoding in enumerate(encodings):
        for position, special in enumerate(encoding.special):
            if not special:
                ids = [*encoding.ids[:position], mask_id, *encoding.ids[position + 1 :]]
                yield _Gap(dataclasses.replace(encoding, ids=ids), position, encoding.ids[position], text)


@torch.inference_mode()
def _log_probabilities(model: BertForPretraining, gaps: Sequence[_Gap]) -> Tensor:
    """Return log p of every piece at each gap, (gaps, V), on the CPU."""
    batch = pack([gap.encoding for gap in gaps], pad_id=model.config.pad_token_id)
    rows = to_tensors(batch, model.decoder_bias.device)
    positions = first_positions(rows) + torch.tensor([gap.position for gap in gaps], device=model.decoder_bias.device)
    return model(rows, masked_positions=positions).token_logits.float().log_softmax(-1).cpu()
