"""Words in context (WiC): does the cosine of a word's two vectors tell whether its sense is the same?

For every layer of a BERT, as it comes and with the mean vector of the training set subtracted: the threshold on the
cosine is chosen on the training pairs, the accuracy is counted on the development pairs. A pair may show two forms of
its word (*plays* and *played*), so vectors without context have something to go by as well. Three such rivals stand
beside the layers: whether both forms are equal, GloVe's vectors of the forms, and the model's own piece embeddings. The
best layer, chosen on the training pairs, is compared with each of them on the same resampled pairs.

    python -m benchmarks.bert.wic    # needs D2LBERT_DATA for the real pairs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert import data
from d2lbert.data.examples import WordInContext
from d2lbert.data.glove import glove
from d2lbert.tasks.similarity import WordVectors
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.probing import word_vectors
from d2lbert.zoo import locate

RESAMPLES = 2000


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cosines of vectors (..., D) with vectors (..., D)."""
    return (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def best_threshold(cosines: np.ndarray, labels: np.ndarray) -> float:
    """Return the threshold t for which "same sense if the cosine is at least t" is right most often."""
    candidates = np.append(np.unique(cosines), np.inf)
    same, different = np.sort(cosines[labels]), np.sort(cosines[~labels])
    right = len(same) - np.searchsorted(same, candidates) + np.searchsorted(different, candidates)
    return float(candidates[right.argmax()])


def accuracy(cosines: np.ndarray, labels: np.ndarray, threshold: float, seed: int) -> dict[str, Any]:
    """Return the accuracy with a 95 % bootstrap interval (percentiles of means over resampled pairs)."""
    right = (cosines >= threshold) == labels
    generator = np.random.default_rng(seed)
    means = [generator.choice(right, len(right)).mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return {"accuracy": float(right.mean()), "low": float(low), "high": float(high), "n": len(right)}


def score(train: tuple[np.ndarray, np.ndarray], dev: tuple[np.ndarray, np.ndarray], seed: int) -> dict[str, Any]:
    """Choose the threshold on (cosines, labels) of the training pairs and apply it to those of the dev pairs."""
    threshold = best_threshold(*train)
    fitted = float(((train[0] >= threshold) == train[1]).mean())
    return {"threshold": threshold, "train_accuracy": fitted, **accuracy(*dev, threshold, seed)}


def evaluate(model: BertModel, tokenizer: WordPiece, seed: int) -> dict[str, Any]:
    """Score every layer, raw and with the mean subtracted, the rivals without context, and the larger class."""
    pairs = {split: data.load("wic", split) for split in ("train", "dev")}
    labels = {split: np.array([pair.label for pair in examples]) for split, examples in pairs.items()}
    vectors = {split: _both(model, tokenizer, examples) for split, examples in pairs.items()}
    mean = np.concatenate(vectors["train"]).mean(0)  # (layers + 1, D)
    nouns = np.array([pair.pos == "N" for pair in pairs["dev"]])
    scores: dict[str, Any] = {"pairs": {split: len(examples) for split, examples in pairs.items()}}
    for name, centre in (("raw", 0 * mean), ("mean subtracted", mean)):
        train, dev = (cosine(first - centre, second - centre) for first, second in vectors.values())
        rows = []
        for layer in range(len(mean)):
            row = {"layer": layer, **score((train[:, layer], labels["train"]), (dev[:, layer], labels["dev"]), seed)}
            for kind, chosen in (("nouns", nouns), ("verbs", ~nouns)):
                row[kind] = accuracy(dev[chosen, layer], labels["dev"][chosen], row["threshold"], seed)
            rows.append(row)
        scores[name] = rows
        best = max(rows, key=lambda row: row["train_accuracy"])
        scores[f"{name}: layer chosen on train"] = best["layer"]
        chosen = (dev[:, best["layer"]] >= best["threshold"]) == labels["dev"]  # of the last, "mean subtracted"
    static, ahead = {}, {}
    for name, cosines in _static(model, tokenizer, pairs).items():
        static[name] = score((cosines["train"], labels["train"]), (cosines["dev"], labels["dev"]), seed)
        right = (cosines["dev"] >= static[name]["threshold"]) == labels["dev"]
        ahead[name] = difference(chosen, right, seed)
    scores["static"] = static
    scores["mean subtracted: chosen layer minus static"] = ahead
    scores["majority class of dev"] = float(max(labels["dev"].mean(), 1 - labels["dev"].mean()))
    scores["forms differ"] = float(np.mean([len(set(_forms(pair))) > 1 for pair in pairs["dev"]]))
    return scores


def difference(first: np.ndarray, second: np.ndarray, seed: int) -> dict[str, float]:
    """Return how much more often ``first`` is right than ``second``, with a 95 % bootstrap interval over the pairs."""
    gain = first.astype(float) - second
    generator = np.random.default_rng(seed)
    means = [generator.choice(gain, len(gain)).mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return {"difference": float(gain.mean()), "low": float(low), "high": float(high)}


def _forms(pair: WordInContext) -> tuple[str, str]:
    """Return the word as it is written in its first and in its second sentence, in lower case."""
    first, second = pair.first.split(" ")[pair.first_index], pair.second.split(" ")[pair.second_index]
    return first.lower(), second.lower()


def _static(
    model: BertModel, tokenizer: WordPiece, pairs: dict[str, Sequence[WordInContext]]
) -> dict[str, dict[str, np.ndarray]]:
    """Return the cosines of the two forms of each pair, without their sentences, by rival and split."""
    vectors = WordVectors(*glove())
    table = model.embeddings.word.weight.detach().numpy()

    def piece_mean(form: str) -> np.ndarray:
        ids = [tokenizer.token_to_id[piece] for piece in tokenizer.tokenize(form)]
        return np.asarray(table[ids].mean(0))

    found: dict[str, dict[str, np.ndarray]] = {"equal forms": {}, "GloVe": {}, "piece embeddings": {}}
    for split, examples in pairs.items():
        forms = [_forms(pair) for pair in examples]
        equal = np.array([first == second for first, second in forms], dtype=float)
        # A form that GloVe lacks says nothing: the pair is judged as equal forms are.
        known = [first in vectors and second in vectors for first, second in forms]
        glove_cosines = [vectors.cosine(*both) if have else 1.0 for both, have in zip(forms, known, strict=True)]
        pieces = [cosine(piece_mean(first), piece_mean(second)) for first, second in forms]
        found["equal forms"][split] = equal
        # Equal vectors have cosine one: without rounding their last bits would order the pairs by chance.
        found["GloVe"][split] = np.round(glove_cosines, 4)
        found["piece embeddings"][split] = np.round(pieces, 4)
    return found


def _both(model: BertModel, tokenizer: WordPiece, pairs: Sequence[WordInContext]) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of the word in its first and in its second sentence, each (N, layers + 1, D)."""
    found = []
    for texts, places in (
        ([pair.first for pair in pairs], [pair.first_index for pair in pairs]),
        ([pair.second for pair in pairs], [pair.second_index for pair in pairs]),
    ):
        vectors = word_vectors(model, tokenizer, [text.split(" ") for text in texts])
        found.append(np.stack([one[:, place] for one, place in zip(vectors, places, strict=True)]))
    return found[0], found[1]


def main() -> None:
    """Measure and write ``results/bert/wic.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--model", default="minilm", help="a model folder, or a name of the zoo")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap")
    arguments = parser.parse_args()
    record = Record("bert/wic", ["torch", "d2lbert"], seeds=[arguments.seed], data_sets=["wic"])
    folder = locate(arguments.model)
    scores = evaluate(BertModel.from_pretrained(folder), WordPiece.from_pretrained(folder), arguments.seed)
    for name, row in scores["static"].items():
        print(f"{name}: {row['accuracy']:.3f} ({row['low']:.3f} to {row['high']:.3f})")
    for row in scores["mean subtracted"]:
        print(f"layer {row['layer']}: {row['accuracy']:.3f} ({row['low']:.3f} to {row['high']:.3f})")
    record.write(scores, data="wic: threshold from train, accuracy on dev", model=arguments.model)


if __name__ == "__main__":
    main()
