"""Look into a trained encoder: the vectors of words after each layer, linear probes with controls, attention rollout.

A probe is a small classifier on frozen vectors. If it finds a word's part of speech, the vectors hold it. But a probe
can also learn its labels by heart, word by word; a control task measures how well it does that alone (Hewitt and Liang
2019).

Shape legend: N words, B texts, H heads, L length, D hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from d2lbert.data.batching import pack
from d2lbert.errors import UserError
from d2lbert.text import Encoding, Tokenizer
from d2lbert.torch.bert import BertModel
from d2lbert.torch.runtime import to_tensors


@torch.inference_mode()
def word_vectors(
    model: BertModel,
    tokenizer: Tokenizer,
    sentences: Sequence[Sequence[str]],
    device: torch.device | str = "cpu",
    batch_size: int = 64,
) -> list[np.ndarray]:
    """Return for each sentence the vectors of its words, after the embeddings and after each block.

    Each array is (layers + 1, words, D). A word of several pieces gets the mean of their vectors; one of which the
    tokenizer keeps nothing, such as a sign without width, has none and is filled with NaN.

    Raises:
        UserError: a sentence is longer than the model takes.
    """
    model.eval().to(device)
    encodings = tokenizer.encode_batch([" ".join(words) for words in sentences])
    longest = model.config.max_position_embeddings
    vectors = []
    for begin in range(0, len(encodings), batch_size):
        chosen = encodings[begin : begin + batch_size]
        if max(map(len, chosen)) > longest:
            raise UserError(f"a sentence has {max(map(len, chosen))} tokens, but the model takes {longest}: split it")
        batch = pack(chosen, pad_id=model.config.pad_token_id)
        states = torch.stack(model(to_tensors(batch, device), output_hidden_states=True).hidden_states).cpu()
        for number, (row, column) in enumerate(batch.starts.tolist()):
            encoding = chosen[number]
            text = states[:, row, column : column + len(encoding)]  # (layers + 1, L, D)
            places = _places(encoding, sentences[begin + number])
            vectors.append(torch.stack([text[:, one].mean(1) for one in places], dim=1).numpy())  # of none: NaN
    return vectors


def _places(encoding: Encoding, words: Sequence[str]) -> list[list[int]]:
    """Return the places of each word's pieces."""
    places, start = [], 0
    for word in words:
        places.append(encoding.tokens_between(start, start + len(word)))
        start += len(word) + 1
    return places


def probe_accuracy(train: tuple[np.ndarray, Sequence[str]], test: tuple[np.ndarray, Sequence[str]]) -> float:
    """Fit a linear classifier on vectors (N, D) with their labels; return the share of test labels that it finds.

    The vectors are scaled to mean 0 and deviation 1 over the training words, so that no layer has an advantage by size.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
    probe.fit(*train)
    return float(probe.score(*test))


def control_labels(words: Sequence[str], labels: Sequence[str], seed: int = 0) -> dict[str, str]:
    """Return a label for every different word, drawn at random with the frequencies of the true labels.

    A probe can find such labels only by telling words apart, not by anything that the labels mean (Hewitt and Liang
    2019, section 2). Its accuracy on the true labels minus that on these is called selectivity.

    Args:
        words: every word that will be asked for, of training and test; capitals count.
        labels: the true labels, whose frequencies are taken.
    """
    kinds, counts = np.unique(np.asarray(labels), return_counts=True)
    different = sorted(set(words))
    drawn = np.random.default_rng(seed).choice(kinds, size=len(different), p=counts / counts.sum())
    return dict(zip(different, drawn.tolist(), strict=True))


def attention_rollout(attentions: Sequence[Tensor]) -> Tensor:
    """Return how much of each token reaches each place through all blocks, (B, L, L): rows ask, and add up to 1.

    The mean over heads of a block's attention is mixed half and half with the identity, for the residual connection,
    and the blocks are multiplied (Abnar and Zuidema 2020, section 3). It follows attention alone: what the feed-forward
    networks and the values' sizes do is left out.

    Args:
        attentions: of all blocks, the first first, each (B, H, L, L), without packing.
    """
    length = attentions[0].shape[-1]
    identity = torch.eye(length, device=attentions[0].device)
    flow = identity.expand(len(attentions[0]), length, length)  # (B, L, L)
    for weights in attentions:
        flow = (0.5 * weights.mean(1) + 0.5 * identity) @ flow
    return flow
