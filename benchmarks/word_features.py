"""Vectors of words for small networks: random ones, GloVe's, and GloVe's beside the layers of our small ELMo.

Shape legend: N layers of vectors, B sentences, T words of the longest, F size of a vector, D of a direction of ELMo.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch

from d2lbert.data.examples import TaggedSentence
from d2lbert.data.glove import glove
from d2lbert.tasks.similarity import WordVectors
from d2lbert.torch.elmo import Elmo
from d2lbert.zoo import locate

BATCH = 32
SIZE = 50  # of the random vectors, as of GloVe's


class Features:
    """Vectors of the words of a sentence, (N, T, F) float16, by kind."""

    def __init__(self) -> None:
        self.glove = WordVectors(*glove())
        self.elmo = Elmo.from_pretrained(locate("elmo-small"))

    def random(self, words: tuple[str, ...]) -> np.ndarray:
        """A normal vector for each word, drawn with the word as the seed: the same wherever it stands."""
        rows = [np.random.default_rng(zlib.crc32(word.lower().encode())).normal(size=SIZE) for word in words]
        return np.array(rows)[None]

    def of_glove(self, words: tuple[str, ...]) -> np.ndarray:
        """GloVe's vector of the word in lower case; zeros for a word that it does not know."""
        vectors = np.zeros((1, len(words), self.glove.matrix.shape[1]))
        for place, word in enumerate(words):
            if word.lower() in self.glove:
                vectors[0, place] = self.glove[word.lower()]
        return vectors

    def of_elmo(self, words: tuple[str, ...]) -> np.ndarray:
        """Beside GloVe's vector, each layer of ELMo; the mix weighs the layers."""
        layers = self.elmo.embed([words])[0]  # (N, T, 2 D)
        return np.concatenate([np.repeat(self.of_glove(words), len(layers), axis=0), layers], axis=2)

    def table(self, kind: str, examples: list[TaggedSentence]) -> list[np.ndarray]:
        """Return the vectors of every sentence."""
        make = {"random": self.random, "GloVe": self.of_glove, "GloVe and ELMo": self.of_elmo}[kind]
        return [make(example.words).astype(np.float16) for example in examples]


def batches(order: np.ndarray) -> list[np.ndarray]:
    """Cut an order of sentences into batches."""
    return [order[start : start + BATCH] for start in range(0, len(order), BATCH)]


def tensors(vectors: list[np.ndarray], chosen: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return padded vectors (N, B, T, F) and the mask (B, T)."""
    lengths = [vectors[index].shape[1] for index in chosen]
    layers, _, size = vectors[0].shape
    padded = torch.zeros(layers, len(chosen), max(lengths), size)
    for row, index in enumerate(chosen):
        padded[:, row, : lengths[row]] = torch.from_numpy(vectors[index]).float()
    return padded, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
