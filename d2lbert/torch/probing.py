"""Look into a trained encoder: the vectors of words after each layer, linear probes with controls, attention rollout.

A probe is a small classifier on frozen vectors. If it predicts a word's part of speech, the vectors encode it. But a
probe can also memorise the label of each word; a control task measures how well it does with memory alone (Hewitt and
Liang 2019).

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
from d2lbert.torch.runtime import place, to_tensors


@torch.inference_mode()
def word_vectors(
    model: BertModel,
    tokenizer: Tokenizer,
    sentences: Sequence[Sequence[str]],
    device: torch.device | str | None = None,
    batch_size: int = 64,
) -> list[np.ndarray]:
    """Return the vectors of the words of each sentence, after the embeddings and after each block.

    Args:
        model: set to evaluation.
        sentences: each a sequence of words.
        device: where to compute; by default where the model is. The model is moved there.
        batch_size: sentences in a batch.

    Returns:
        For each sentence (layers + 1, words, D). The vector of a word of several pieces is the mean of theirs. A word
        of which the tokenizer keeps nothing, such as a zero-width character, has none: its vector is all NaN.

    Raises:
        UserError: a sentence is longer than the model takes.
    """
    device = place(model.eval(), device)
    encodings = tokenizer.encode_batch([" ".join(words) for words in sentences])
    longest = model.config.max_position_embeddings
    vectors = []
    for begin in range(0, len(encodings), batch_size):
        group = encodings[begin : begin + batch_size]
        if max(map(len, group)) > longest:
            raise UserError(f"a sentence has {max(map(len, group))} tokens, but the model takes {longest}: split it")
        batch = pack(group, pad_id=model.config.pad_token_id)
        states = torch.stack(model(to_tensors(batch, device), output_hidden_states=True).hidden_states).cpu()
        for index, (row, column) in enumerate(batch.starts.tolist()):
            encoding = group[index]
            text = states[:, row, column : column + len(encoding)]  # (layers + 1, L, D)
            positions = _piece_positions(encoding, sentences[begin + index])
            # The mean over no pieces is NaN.
            vectors.append(torch.stack([text[:, pieces].mean(1) for pieces in positions], dim=1).numpy())
    return vectors


def _piece_positions(encoding: Encoding, words: Sequence[str]) -> list[list[int]]:
    """Return the positions of the pieces of each word."""
    positions, start = [], 0
    for word in words:
        positions.append(encoding.tokens_between(start, start + len(word)))
        start += len(word) + 1
    return positions


def probe_accuracy(train: tuple[np.ndarray, Sequence[str]], test: tuple[np.ndarray, Sequence[str]]) -> float:
    """Fit a linear classifier and return its accuracy on the test set, a fraction.

    The vectors are scaled to mean 0 and standard deviation 1 over the training words, so that no layer gains from the
    size of its vectors.

    Args:
        train, test: vectors (N, D) with the label of each.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
    probe.fit(*train)
    return float(probe.score(*test))


def control_labels(words: Sequence[str], labels: Sequence[str], seed: int = 0) -> dict[str, str]:
    """Return a random label for every distinct word, drawn with the frequencies of the true labels.

    A probe can predict such labels only by telling words apart, not by anything that the labels mean (Hewitt and Liang
    2019, section 2). Its accuracy on the true labels minus that on these is called selectivity.

    Args:
        words: every word of training and test; upper and lower case differ.
        labels: the true labels, which give the frequencies.
        seed: of the draw.
    """
    names, counts = np.unique(np.asarray(labels), return_counts=True)
    distinct = sorted(set(words))
    drawn = np.random.default_rng(seed).choice(names, size=len(distinct), p=counts / counts.sum())
    return dict(zip(distinct, drawn.tolist(), strict=True))


def attention_rollout(attentions: Sequence[Tensor]) -> Tensor:
    """Return how much of each token reaches each position through all blocks, (B, L, L).

    Row i holds the weights of the tokens at position i and sums to 1. For each block, the mean of its attention over
    heads is mixed half and half with the identity, for the residual connection; then the blocks are multiplied (Abnar
    and Zuidema 2020, section 3). Rollout follows attention alone: it ignores the feed-forward networks and the sizes of
    the values.

    Args:
        attentions: the weights of all blocks, from first to last, each (B, H, L, L), of rows that are not packed.
    """
    length = attentions[0].shape[-1]
    identity = torch.eye(length, device=attentions[0].device)
    flow = identity.expand(len(attentions[0]), length, length)  # (B, L, L)
    for weights in attentions:
        flow = (0.5 * weights.mean(1) + 0.5 * identity) @ flow
    return flow
