"""Word vectors: CBOW, skip-gram with negative sampling, and fastText's subwords.

Shape legend: B examples of a batch, C context words, G n-grams of a word, N noise words, D vector size, V vocabulary.

Each model holds two tables. A word has a vector v in ``input``, used when the word is given, and a vector u in
``output``, used when the word is to be distinguished from noise. After training the vectors v are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2lbert.data.skipgrams import PADDING, Batch
from d2lbert.text.subwords import SubwordTable
from d2lbert.torch.runtime import best_device, place


def negative_sampling_loss(given: Tensor, target: Tensor, noise: Tensor) -> Tensor:
    """Return -log s(u_o · v) - sum_k log s(-u_k · v) for each example, s the logistic function.

    Args:
        given: (B, D), v.
        target: (B, D), u_o of the word that occurred.
        noise: (B, N, D), u_k of the noise words.

    Returns:
        (B,). Source: Mikolov et al. 2013b, equation 4, with the opposite sign.
    """
    score = (given * target).sum(dim=-1)  # (B,)
    noise_scores = torch.bmm(noise, given.unsqueeze(-1)).squeeze(-1)  # (B, N)
    # -log s(x) = softplus(-x), which does not overflow.
    return F.softplus(-score) + F.softplus(noise_scores).sum(dim=-1)


class SkipGram(nn.Module):
    """From a word to the words around it (Mikolov et al. 2013a, section 3.2; 2013b, section 2)."""

    def __init__(self, vocab_size: int, size: int) -> None:
        super().__init__()
        self.input = nn.Embedding(vocab_size, size, sparse=True)
        self.output = nn.Embedding(vocab_size, size, sparse=True)
        _initialize(self.input.weight, self.output.weight)

    def forward(self, inputs: Tensor, targets: Tensor, noise: Tensor) -> Tensor:
        """Return the losses (B,) of centre words (B,), words of their windows (B,) and noise words (B, N)."""
        return negative_sampling_loss(self.input(inputs), self.output(targets), self.output(noise))

    def vectors(self) -> Tensor:
        """Return the vector of every word, (V, D)."""
        return self.input.weight.detach()


class Cbow(nn.Module):
    """From the mean of the words around it to a word: continuous bag of words (Mikolov et al. 2013a, section 3.1).

    The gradient of the mean is divided among the C words. The published C program gives each word all of it, which
    amounts to a learning rate C times as high.
    """

    def __init__(self, vocab_size: int, size: int) -> None:
        super().__init__()
        self.input = nn.EmbeddingBag(vocab_size, size, mode="mean", padding_idx=PADDING, sparse=True)
        self.output = nn.Embedding(vocab_size, size, sparse=True)
        _initialize(self.input.weight, self.output.weight)

    def forward(self, inputs: Tensor, targets: Tensor, noise: Tensor) -> Tensor:
        """Return the losses (B,) of windows (B, C), padded with 0, their centre words (B,) and noise words (B, N)."""
        return negative_sampling_loss(self.input(inputs), self.output(targets), self.output(noise))

    def vectors(self) -> Tensor:
        """Return the vector of every word, (V, D)."""
        return self.input.weight.detach()


class FastText(nn.Module):
    """Skip-gram in which a word's vector is the mean of its own and one for each n-gram (Bojanowski et al. 2017).

    The paper writes a sum; the published program takes the mean, and so do we.

    Args:
        words: the vocabulary, in the order of the ids.
        size: D.
        buckets: the number of vectors that the n-grams share.
    """

    rows: Tensor

    def __init__(self, words: Sequence[str], size: int, buckets: int = 100_000) -> None:
        super().__init__()
        self.subwords = SubwordTable(words, buckets)
        self.input = nn.EmbeddingBag(len(self.subwords), size, mode="mean", padding_idx=PADDING, sparse=True)
        self.output = nn.Embedding(len(words), size, sparse=True)
        self.register_buffer("rows", torch.from_numpy(self.subwords.rows()), persistent=False)
        _initialize(self.input.weight, self.output.weight)

    def forward(self, inputs: Tensor, targets: Tensor, noise: Tensor) -> Tensor:
        """Return the losses (B,) of centre words (B,), words of their windows (B,) and noise words (B, N)."""
        # A batch holds the pairs of one centre word together, so each word's n-grams are averaged only once.
        words, inverse = torch.unique(inputs, return_inverse=True)
        vectors = self.input(self.rows[words])[inverse]  # (words, G) -> (words, D) -> (B, D)
        return negative_sampling_loss(vectors, self.output(targets), self.output(noise))

    @torch.no_grad()
    def vectors(self) -> Tensor:
        """Return the vector of every word, (V, D)."""
        return self.input(self.rows)

    @torch.no_grad()
    def vector(self, word: str) -> Tensor:
        """Return the vector (D,) of any word, known or not; zeros for a word too short to have an n-gram."""
        return self.input(torch.tensor([self.subwords.row(word) or [PADDING]])).squeeze(0)


def _initialize(input_table: Tensor, output_table: Tensor) -> None:
    """Set small random vectors v and zero vectors u: at first all scores are 0, and all probabilities one half."""
    with torch.no_grad():
        bound = 0.5 / input_table.shape[1]
        input_table.uniform_(-bound, bound)
        input_table[PADDING] = 0
        output_table.zero_()


def train(
    model: nn.Module,
    batches: Iterable[Batch],
    learning_rate: float = 0.2,
    device: torch.device | str | None = None,
) -> list[float]:
    """Train with AdaGrad; the learning rate falls linearly to almost zero.

    The programs of the papers take plain gradient steps, one example at a time. In a batch a frequent word occurs many
    times, and the sum of its steps can overshoot without bound. AdaGrad (Duchi et al. 2011) divides the step of each
    parameter by the root of the sum of its squared gradients so far: small steps for frequent words, large ones for
    rare words.

    Args:
        model: one of the three models above.
        batches: from :meth:`d2lbert.data.skipgrams.Windows.skip_gram`, or ``cbow`` for :class:`Cbow`.
        learning_rate: at the start.
        device: where to train; by default :func:`~d2lbert.torch.runtime.best_device`. The model stays there.

    Returns:
        The mean loss of each batch.
    """
    device = place(model, device or best_device())
    optimizer = torch.optim.Adagrad(model.parameters(), lr=learning_rate)
    history = []
    for batch in batches:
        optimizer.param_groups[0]["lr"] = learning_rate * max(1e-4, 1 - batch.progress)
        inputs, targets, noise = (torch.from_numpy(ids).to(device) for ids in batch[:3])
        losses = model(inputs, targets, noise)
        optimizer.zero_grad()
        losses.sum().backward()
        # The gradient of a table is sparse: it holds only the rows of this batch. PyTorch wants it said explicitly that
        # the format of such tensors need not be checked at each step.
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            optimizer.step()
        history.append(losses.detach().mean().item())
    return history
