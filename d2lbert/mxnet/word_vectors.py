"""Word vectors: CBOW, skip-gram with negative sampling, and fastText's subwords.

Shape legend: B examples of a batch, C context words, G n-grams of a word, N noise words, D vector size, V vocabulary.

The twin of :mod:`d2lbert.torch.word_vectors`. Word ids come and go as NumPy arrays; the vectors are MXNet's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from mxnet import autograd, gluon, init, nd

from d2lbert.data.skipgrams import PADDING, Batch
from d2lbert.text.subwords import SubwordTable


def negative_sampling_loss(given: nd.NDArray, target: nd.NDArray, noise: nd.NDArray) -> nd.NDArray:
    """Return -log s(u_o · v) - sum_k log s(-u_k · v) for each example, s the logistic function.

    Args:
        given: (B, D), v.
        target: (B, D), u_o of the word that stood there.
        noise: (B, N, D), u_k of the words that did not.

    Returns:
        (B,). Source: Mikolov et al. 2013b, equation 4, with the sign turned.
    """
    score = (given * target).sum(axis=-1)  # (B,)
    noise_scores = nd.batch_dot(noise, given.expand_dims(-1)).squeeze(axis=-1)  # (B, N)
    # -log s(x) = softrelu(-x) = log(1 + exp(-x)), which does not overflow.
    return nd.Activation(-score, "softrelu") + nd.Activation(noise_scores, "softrelu").sum(axis=-1)


class _TwoTables(gluon.Block):
    """The tables ``input`` (vectors v) and ``output`` (vectors u) that the three models share."""

    def __init__(self, input_rows: int, vocab_size: int, size: int) -> None:
        super().__init__()
        bound = 0.5 / size
        self.input = gluon.nn.Embedding(
            input_rows, size, weight_initializer=init.Uniform(bound), sparse_grad=True, prefix="input_"
        )
        self.output = gluon.nn.Embedding(
            vocab_size, size, weight_initializer="zeros", sparse_grad=True, prefix="output_"
        )
        self.initialize()
        self.input.weight.data()[PADDING] = 0

    def _mean_of_inputs(self, rows: np.ndarray) -> nd.NDArray:
        """Return the mean vector (B, D) of table rows (B, C), padding left out; zeros where all is padding."""
        mask = nd.array(rows != PADDING, dtype="float32").expand_dims(-1)  # (B, C, 1)
        total = (self.input(_ids(rows)) * mask).sum(axis=1)  # (B, C, D) -> (B, D)
        return total / nd.maximum(mask.sum(axis=1), 1.0)


class SkipGram(_TwoTables):
    """From a word to the words around it (Mikolov et al. 2013a, section 3.2; 2013b, section 2)."""

    def __init__(self, vocab_size: int, size: int) -> None:
        super().__init__(vocab_size, vocab_size, size)

    def forward(self, inputs: np.ndarray, targets: np.ndarray, noise: np.ndarray) -> nd.NDArray:
        """Return the losses (B,) of centre words (B,), words of their windows (B,) and noise words (B, N)."""
        given = self.input(_ids(inputs))  # (B, D)
        return negative_sampling_loss(given, self.output(_ids(targets)), self.output(_ids(noise)))

    def vectors(self) -> nd.NDArray:
        """Return the vector of every word, (V, D)."""
        return self.input.weight.data().detach()


class Cbow(_TwoTables):
    """From the mean of the words around it to a word: continuous bag of words (Mikolov et al. 2013a, section 3.1)."""

    def __init__(self, vocab_size: int, size: int) -> None:
        super().__init__(vocab_size, vocab_size, size)

    def forward(self, inputs: np.ndarray, targets: np.ndarray, noise: np.ndarray) -> nd.NDArray:
        """Return the losses (B,) of windows (B, C), padded with 0, their centre words (B,) and noise words (B, N)."""
        given = self._mean_of_inputs(inputs)  # (B, D)
        return negative_sampling_loss(given, self.output(_ids(targets)), self.output(_ids(noise)))

    def vectors(self) -> nd.NDArray:
        """Return the vector of every word, (V, D)."""
        return self.input.weight.data().detach()


class FastText(_TwoTables):
    """Skip-gram in which a word is the mean of a vector of its own and one for each n-gram (Bojanowski et al. 2017)."""

    def __init__(self, words: Sequence[str], size: int, buckets: int = 100_000) -> None:
        subwords = SubwordTable(words, buckets)
        super().__init__(len(subwords), len(words), size)
        self.subwords = subwords
        self.rows = subwords.rows()

    def forward(self, inputs: np.ndarray, targets: np.ndarray, noise: np.ndarray) -> nd.NDArray:
        """Return the losses (B,) of centre words (B,), words of their windows (B,) and noise words (B, N)."""
        given = self._mean_of_inputs(self.rows[inputs])  # (B, G) -> (B, D)
        return negative_sampling_loss(given, self.output(_ids(targets)), self.output(_ids(noise)))

    def vectors(self) -> nd.NDArray:
        """Return the vector of every word, (V, D)."""
        return self._mean_of_inputs(self.rows)

    def vector(self, word: str) -> nd.NDArray:
        """Return the vector (D,) of any word, known or not; zeros for a word too short to have an n-gram."""
        return self._mean_of_inputs(np.array([self.subwords.row(word) or [PADDING]]))[0]


def _ids(values: np.ndarray) -> nd.NDArray:
    return nd.array(values, dtype="int32")


def train(model: gluon.Block, batches: Iterable[Batch], learning_rate: float = 0.2) -> list[float]:
    """Train with AdaGrad; the learning rate falls in a straight line to nearly nothing.

    The programs of the papers take plain gradient steps, one example at a time. In a batch a frequent word occurs many
    times, and its steps added up can overshoot without bound. AdaGrad (Duchi et al. 2011) divides each step by the root
    of the sum of that number's squared gradients so far: small steps for frequent words, large ones for rare words.

    Args:
        model: one of the three models above.
        batches: from :meth:`d2lbert.data.skipgrams.Windows.skip_gram`, or ``cbow`` for :class:`Cbow`.
        learning_rate: at the start.

    Returns:
        The mean loss of each batch.
    """
    settings = {"learning_rate": learning_rate, "eps": 1e-14}
    trainer = gluon.Trainer(model.collect_params(), "adagrad", settings)
    history = []
    for batch in batches:
        trainer.set_learning_rate(learning_rate * max(1e-4, 1 - batch.progress))
        with autograd.record():
            losses = model(batch.inputs, batch.targets, batch.noise)
        losses.backward()  # of the sum: every example has weight 1
        trainer.step(batch_size=1)
        history.append(float(losses.mean().asscalar()))
    return history
