"""Nearest neighbours of "play" in context: ELMo's vectors of the word in sentences of a corpus that have it.

For each query sentence, and for every layer, the corpus sentences whose "play" has the highest cosine with that of the
query (Peters et al. 2018, table 4). Beside them what a table of word vectors gives: GloVe's neighbours of the word.

Then a map of all uses: the two main directions of the top layer, each use named a noun or a verb by the word before it
(*the play*, *to play*), and how often the nearest other use is of the same kind.

    python -m benchmarks.elmo.neighbours    # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert import data
from d2lbert.data.elmo import read_sentences
from d2lbert.data.glove import glove
from d2lbert.tasks.similarity import WordVectors
from d2lbert.torch.elmo import Elmo
from d2lbert.zoo import locate

WORD = "play"
QUERIES = (
    "The theatre showed a new play by a young writer .",
    "She wrote the play in two months .",
    "The children play in the garden .",
    "He will play for the national team .",
)
BEFORE_NOUN = frozenset(
    (
        "a",
        "an",
        "the",
        "this",
        "that",
        "his",
        "her",
        "their",
        "its",
        "my",
        "your",
        "our",
        "each",
        "every",
        "another",
        "one",
    )
)
BEFORE_VERB = frozenset(
    (
        "to",
        "will",
        "would",
        "can",
        "could",
        "may",
        "might",
        "must",
        "should",
        "not",
        "did",
        "does",
        "do",
        "they",
        "we",
        "you",
        "i",
        "who",
    )
)
LONGEST = 40  # words; longer sentences are left out, for they could not be shown
BATCH = 64


def vectors(elmo: Elmo, sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the unit vectors of the first "play" of each sentence, after every layer: (S, layers, 2 D)."""
    found = []
    for start in range(0, len(sentences), BATCH):
        chunk = sentences[start : start + BATCH]
        for words, layers in zip(chunk, elmo.embed(chunk), strict=True):
            found.append(layers[:, words.index(WORD)])
    stacked = np.stack(found)
    unit: np.ndarray = stacked / np.linalg.norm(stacked, axis=-1, keepdims=True)
    return unit


def neighbours(
    query: np.ndarray, corpus: np.ndarray, sentences: Sequence[Sequence[str]], k: int
) -> list[dict[str, Any]]:
    """Return the k sentences whose vector (2 D,) has the highest cosine with the query's."""
    cosines = corpus @ query
    best = np.argsort(-cosines, kind="stable")[:k]
    return [{"sentence": " ".join(sentences[place]), "cosine": float(cosines[place])} for place in best]


def kinds(sentences: Sequence[Sequence[str]]) -> list[str]:
    """Return "noun", "verb" or "unclear" for the first "play" of each sentence, by the word before it."""
    found = []
    for words in sentences:
        place = words.index(WORD)
        before = words[place - 1].lower() if place else ""
        found.append("noun" if before in BEFORE_NOUN else "verb" if before in BEFORE_VERB else "unclear")
    return found


def same_kind(corpus: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """Return how often the nearest other use (by cosine, uses of unclear kind left out) is of the same kind.

    Beside the share and its standard error what chance gives: the share of ordered pairs of one kind.
    """
    clear = np.array([name != "unclear" for name in names])
    verbs = np.array([name == "verb" for name in names])[clear]
    cosines = corpus[clear] @ corpus[clear].T
    np.fill_diagonal(cosines, -np.inf)
    hits = verbs[cosines.argmax(1)] == verbs
    count, of_verbs = len(verbs), int(verbs.sum())
    chance = (of_verbs * (of_verbs - 1) + (count - of_verbs) * (count - of_verbs - 1)) / (count * (count - 1))
    return {
        "share": float(hits.mean()),
        "standard_error": float(hits.std() / np.sqrt(count)),
        "chance": chance,
        "uses": count,
    }


def plane(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (S, 2 D) along their two main directions, (S, 2)."""
    centred = vectors - vectors.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    projected: np.ndarray = centred @ directions[:2].T
    return projected


def main() -> None:
    """Embed, compare, write ``results/elmo/neighbours.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--k", type=int, default=3, help="neighbours of each query")
    options = parser.parse_args()
    record = Record("elmo/neighbours", ["torch", "numpy", "d2lbert"], data_sets=["wikipedia_en"])
    text = read_sentences(data.read("wikipedia_en", "train"), 10**9)
    sentences = [words for words in text if WORD in words and len(words) <= LONGEST]
    elmo = Elmo.from_pretrained(locate("elmo-small"))
    corpus, queries = vectors(elmo, sentences), vectors(elmo, [query.split() for query in QUERIES])
    found = []
    for number, query in enumerate(QUERIES):
        layers = range(1, corpus.shape[1])  # at layer 0 all uses are one point
        nearest = {
            str(layer): neighbours(queries[number, layer], corpus[:, layer], sentences, options.k) for layer in layers
        }
        found.append({"query": query, "layers": nearest})
    names = kinds(sentences)
    across, up = np.round(plane(corpus[:, -1]).astype(float), 3).T  # as float32 they would be written with 17 digits
    record.write(
        {
            "queries": found,
            "glove": [word for word, _ in WordVectors(*glove()).nearest(WORD, 8)],
            "same kind": {str(layer): same_kind(corpus[:, layer], names) for layer in range(1, corpus.shape[1])},
            "map": {"kind": names, "x": across.tolist(), "y": up.tolist()},
        },
        data="wikipedia_en",
        sentences=len(sentences),
        model="elmo-small",
    )


if __name__ == "__main__":
    main()
