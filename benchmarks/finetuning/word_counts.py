"""What counting words can do: the simple rivals of MiniLM on sets of many labels, and on parts of speech.

Texts: a logistic regression on the weighted counts (tf-idf) of words and pairs of neighbours; the strength of its
regularisation is chosen on the examples that choose the epoch of MiniLM. Words: each gets the tag that it had most
often in training, and a new word the commonest tag of new words of dev. Splits are those of ``benchmarks/plans.py``,
but for Brown, of which the rival counts all the training files. Nothing is drawn by chance, so there are no seeds.

    python -m benchmarks.finetuning.word_counts    # needs D2LBERT_DATA for the real sets; some minutes
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from benchmarks.command_line import command_line
from benchmarks.plans import PLANS, read
from benchmarks.record import Record
from d2lbert import data, metrics
from d2lbert.data.examples import Sentence, TaggedSentence
from d2lbert.tasks.base import label_indices

TEXTS = ("sst2_glue", "trec", "trec_fine", "agnews")
WORDS = "brown_universal"
STRENGTHS = (1.0, 3.0, 10.0, 30.0)  # inverse regularisation


def of_texts(train: list[Sentence], choice: list[Sentence], scored: list[Sentence]) -> dict[str, Any]:
    """Return the scores of a logistic regression, and the strength that was chosen."""
    counts = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    vectors, *others = (
        counts.fit_transform([example.text for example in train]),
        *(counts.transform([example.text for example in part]) for part in (choice, scored)),
    )
    labels = [example.label for example in train]
    models = [LogisticRegression(C=strength, max_iter=1000).fit(vectors, labels) for strength in STRENGTHS]
    right = [model.score(others[0], [example.label for example in choice]) for model in models]
    best = int(np.argmax(right))
    names = sorted({str(label) for label in labels})
    found = label_indices(names, list(models[best].predict(others[1])))
    scores = metrics.classification(label_indices(names, [example.label for example in scored]), found)
    return {**scores, "strength": STRENGTHS[best]}


def of_words(
    train: list[TaggedSentence], choice: list[TaggedSentence], scored: list[TaggedSentence]
) -> dict[str, float]:
    """Return the scores of the commonest tag of each word."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in pairs(train):
        seen[word][tag] += 1
    commonest = {word: tags.most_common(1)[0][0] for word, tags in seen.items()}
    new = Counter(tag for word, tag in pairs(choice) if word not in commonest).most_common(1)[0][0]
    names = sorted({tag for tags in seen.values() for tag in tags})
    words, gold = zip(*pairs(scored), strict=True)
    found = [commonest.get(word, new) for word in words]
    unknown = sum(word not in commonest for word in words) / len(words)
    return {**metrics.classification(label_indices(names, gold), label_indices(names, found)), "new words": unknown}


def pairs(sentences: list[TaggedSentence]) -> list[tuple[str, str]]:
    """Return each word, in lower case, with its tag."""
    return [
        (word.lower(), tag)
        for sentence in sentences
        for word, tag in zip(sentence.words, sentence.tags or (), strict=True)
    ]


def main() -> None:
    """Count, score, and write ``results/finetuning/word_counts.json``."""
    command_line(__doc__).parse_args()
    record = Record("finetuning/word_counts", ["d2lbert", "scikit-learn"], data_sets=[*TEXTS, WORDS])
    measured = {name: of_texts(*read(name, PLANS[name])) for name in TEXTS}
    measured[WORDS] = of_words(*(data.load(WORDS, split) for split in ("train", "dev", "test")))
    record.write(measured)


if __name__ == "__main__":
    main()
