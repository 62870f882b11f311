"""What one could do before BERT: means of GloVe vectors, and a BiLSTM over our small ELMo, on six sets of sentences.

Both make a vector u of a text: the mean of its words' GloVe vectors (the CBOW of GLUE), or the maximum over the states
of a BiLSTM that reads GloVe and ELMo. Of a pair they make [u; v; |u - v|; u * v] (Wang et al. 2019, section 5). One
hidden layer answers. The vectors of words do not learn. Splits and scores are those of ``benchmarks/plans.py``, so that
the numbers can stand in one table with fine-tuned BERTs. Each run is kept as it ends.

    python -m benchmarks.finetuning.glue    # needs D2LBERT_DATA for the real sets
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.command_line import add_runs, add_seeds, command_line
from benchmarks.plans import SENTENCES, read
from benchmarks.record import Record, kept, spread
from benchmarks.word_features import BATCH, Features, batches, tensors
from d2lbert.tasks.base import Loss
from d2lbert.tasks.table import named_task
from d2lbert.text import split_words
from d2lbert.torch.elmo import ScalarMix
from d2lbert.torch.runtime import seed_everything

KINDS = {"CBOW, GloVe": "GloVe", "BiLSTM, ELMo": "GloVe and ELMo"}
LONGEST = 100  # words of a text
EPOCHS = 12


class TextModel(nn.Module):
    """Logits of texts, or of pairs of texts, from given vectors of words.

    Args:
        feature_size, num_layers: of the vectors of a word, and how many layers of them are mixed.
        outputs: how many logits.
        pair: whether an input has two texts.
        recurrent: a BiLSTM and the maximum over its states; False for the mean of the vectors.
    """

    def __init__(
        self, feature_size: int, num_layers: int, outputs: int, pair: bool, recurrent: bool, hidden_size: int = 128
    ) -> None:
        super().__init__()
        self.mix = ScalarMix(num_layers)
        self.lstm = nn.LSTM(feature_size, hidden_size, batch_first=True, bidirectional=True) if recurrent else None
        size = (2 * hidden_size if recurrent else feature_size) * (4 if pair else 1)
        self.head = nn.Sequential(
            nn.Dropout(0.2), nn.Linear(size, 256), nn.Tanh(), nn.Dropout(0.2), nn.Linear(256, outputs)
        )

    def forward(self, texts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Return logits (B, C) of one or two texts an input, each as vectors (N, B, T, F) and a mask (B, T)."""
        vectors = [self.vector(*text) for text in texts]
        if len(vectors) == 1:
            return self.head(vectors[0])
        u, v = vectors
        return self.head(torch.cat([u, v, (u - v).abs(), u * v], dim=-1))

    def vector(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Return one vector a text, (B, D)."""
        words = self.mix(list(layers))  # (B, T, F)
        if self.lstm is None:
            return (words * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)
        packed = pack_padded_sequence(words, mask.sum(1), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
        return states.masked_fill(~mask.unsqueeze(2), -torch.inf).amax(1)


def words_of(example: Any) -> list[tuple[str, ...]]:
    """Return the words of an example's text, or of both its texts."""
    texts = [example.text] if hasattr(example, "text") else [example.first, example.second]
    return [tuple(split_words(text)[:LONGEST]) or ("",) for text in texts]


def logits_of(model: TextModel, vectors: list[list[np.ndarray]], chosen: np.ndarray) -> Tensor:
    """Return the logits of some examples; ``vectors`` has a list for the first texts and one for the second."""
    return model([tensors(column, chosen) for column in vectors])


@torch.inference_mode()
def outputs(model: TextModel, vectors: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Return the logits of all examples, each (C,)."""
    model.eval()
    cuts = batches(np.arange(len(vectors[0])))
    return [row for chosen in cuts for row in logits_of(model, vectors, chosen).numpy()]


def run(kind: str, task: Any, score: str, parts: dict[str, Any], seed: int) -> dict[str, float]:
    """Train one model; return the scores of the epoch that is best on what chooses it."""
    seed_everything(seed)
    layers, _, size = parts["train"][1][0][0].shape
    model = TextModel(size, layers, len(task.labels), len(parts["train"][1]) == 2, kind == "BiLSTM, ELMo")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    examples, vectors = parts["train"]
    targets = [example.score if task.loss is Loss.SCORE else task.targets([example])[0] for example in examples]
    best: tuple[float, dict[str, Any]] = (-2.0, {})
    for epoch in range(EPOCHS):
        model.train()
        for chosen in batches(np.random.default_rng([seed, epoch]).permutation(len(examples))):
            logits = logits_of(model, vectors, chosen)
            wanted = torch.tensor([targets[index] for index in chosen])
            loss = (
                nn.functional.mse_loss(logits[:, 0], wanted.float())
                if task.loss is Loss.SCORE
                else nn.functional.cross_entropy(logits, wanted)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = task.score(parts["choice"][0], [], outputs(model, parts["choice"][1]))[score]
        if found > best[0]:
            best = (found, copy.deepcopy(model.state_dict()))
    model.load_state_dict(best[1])
    scores: dict[str, float] = task.score(parts["scored"][0], [], outputs(model, parts["scored"][1]))
    return scores


def measure(name: str, kind: str, seeds: list[int], features: Features, folder: Path) -> dict[str, Any]:
    """Return the spread of every score of one set and one kind of model over the seeds."""
    plan = SENTENCES[name]

    @cache
    def prepared() -> tuple[Any, dict[str, Any]]:
        split = dict(zip(("train", "choice", "scored"), read(name, plan), strict=True))
        task = named_task(plan.task).of_examples(split["train"])
        parts = {}
        for part, examples in split.items():
            texts = list(zip(*(words_of(example) for example in examples), strict=True))
            make = features.of_glove if KINDS[kind] == "GloVe" else features.of_elmo
            parts[part] = (examples, [[make(words).astype(np.float16) for words in column] for column in texts])
        return task, parts

    def work(seed: int) -> dict[str, float]:
        task, parts = prepared()
        return run(kind, task, plan.score, parts, seed)

    settings = {"plan": asdict(plan), "epochs": EPOCHS, "batch": BATCH}
    paths = {seed: folder / f"{name}-{kind.replace(', ', '-')}-{seed}.json" for seed in seeds}
    found = [kept(path, settings, partial(work, seed)) for seed, path in paths.items()]
    print(name, kind, [one[plan.score] for one in found], flush=True)
    return {key: spread([one[key] for one in found]) for key in found[0]}


def main() -> None:
    """Measure all and write ``results/finetuning/glue.json``."""
    parser = command_line(__doc__)
    add_seeds(parser)
    parser.add_argument("--sets", nargs="+", default=list(SENTENCES), choices=list(SENTENCES))
    add_runs(parser, "finetuning/glue")
    options = parser.parse_args()
    record = Record("finetuning/glue", ["torch", "d2lbert", "scikit-learn"], options.seeds, data_sets=options.sets)
    features = Features()
    metrics = {
        name: {kind: measure(name, kind, options.seeds, features, options.runs) for kind in KINDS}
        for name in options.sets
    }
    scores = {name: SENTENCES[name].score for name in options.sets}
    record.write(metrics, score=scores, epochs=EPOCHS, batch=BATCH)


if __name__ == "__main__":
    main()
