"""Five numbers that every machine should find again: pieces, a forward pass, a loss, a metric, a step of training.

``results/doctor/numbers.json`` has the stored ones, and how far from them a sound machine may be: kernels sum in
another order. Nothing here is random, nothing is downloaded, and all of it takes a few seconds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import torch

from d2lbert import metrics
from d2lbert.data.batching import pack
from d2lbert.tasks.base import Loss
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_tensors
from d2lbert.torch.training.losses import compute_loss, mean_cross_entropy
from d2lbert.zoo.folders import locate

_MODEL = "d2lbert-tiny"
_TEXTS = (
    "The river flows into the sea.",
    "Money in the bank, a bank by the river.",
    "Unbelievably, 3.14159 is not π – naïve café-goers disagree!",
    "She was born in 1912 and died in 1954.",
    "北京 is 2,000 km from 上海.",
)
_LABELS = np.array([0, 1, 0, 1, 0])


def pieces() -> float:
    """Return the checksum (CRC-32) of the ids of five texts: whole numbers, the same everywhere."""
    ids = [encoding.ids for encoding in _tokenizer().encode_batch(_TEXTS)]
    return float(zlib.crc32(repr(ids).encode()))


def forward_pass() -> float:
    """Return the sum of the pooled vectors of five packed texts, weighted by cosines so that no order is lost."""
    model = BertModel.from_pretrained(_MODEL).eval()
    with torch.inference_mode():
        pooled = model(to_tensors(pack(_tokenizer().encode_batch(_TEXTS)))).pooled
    return float((pooled.double() * torch.cos(torch.arange(pooled.numel()).double()).view_as(pooled)).sum())


def pretraining_loss() -> float:
    """Return the loss of every fourth token of a text, predicted where it is seen as ``[MASK]``, in nats."""
    model, tokenizer = BertForPretraining.from_pretrained(_MODEL).eval(), _tokenizer()
    ids = torch.tensor([tokenizer.encode(" ".join(_TEXTS[:2])).ids])  # (1, L)
    positions = torch.arange(2, ids.shape[1] - 1, 4)  # (P,)
    masked = ids.clone()
    masked[0, positions] = tokenizer.token_to_id["[MASK]"]
    with torch.inference_mode():
        logits = model(masked, masked_positions=positions).token_logits  # (P, V)
    return float(mean_cross_entropy(logits, ids[0, positions]))


def metric() -> float:
    """Return the F1 of SQuAD of three answers."""
    return metrics.squad([["the Pacific Ocean"], ["1912", "in 1912"], [""]], ["Pacific", "1912", "no one"])["f1"]


def training_step() -> float:
    """Return the loss of five texts after six steps of AdamW, without dropout and from a head of zeros, in nats."""
    encoder, batch = BertModel.from_pretrained(_MODEL).eval(), pack(_tokenizer().encode_batch(_TEXTS))
    head = torch.nn.Linear(encoder.config.hidden_size, 2)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(6):
        loss = compute_loss(Loss.LABEL, head(encoder(to_tensors(batch)).pooled), list(_LABELS), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.inference_mode():
        return float(compute_loss(Loss.LABEL, head(encoder(to_tensors(batch)).pooled), list(_LABELS), batch))


# Name -> how the number is found, and how far a sound machine may be from the stored one, as a share of it.
NUMBERS: dict[str, tuple[Callable[[], float], float]] = {
    "pieces of five texts": (pieces, 0.0),
    "forward pass of d2lbert-tiny": (forward_pass, 1e-3),
    "loss of masked words": (pretraining_loss, 1e-3),
    "F1 of three answers": (metric, 1e-12),
    "loss after six steps": (training_step, 1e-3),
}


def _tokenizer() -> WordPiece:
    return WordPiece.from_pretrained(locate(_MODEL))
