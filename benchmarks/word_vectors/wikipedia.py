"""Word vectors learned from the same Wikipedia text: ours beside gensim's, for skip-gram, CBOW and fastText.

Both sides get the same words in the same order, the same vocabulary, vector size, window, noise words, thinning and
number of epochs, and run on one thread, one after the other. Quality: Google's analogies and eight sets of scored word
pairs. Speed: tokens of the text a second, all epochs counted, by processor time (and by the clock).

    python -m benchmarks.word_vectors.wikipedia    # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert import data
from d2lbert.data.skipgrams import Windows
from d2lbert.tasks.similarity import WordVectors
from d2lbert.text import Vocabulary, split_words
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.word_vectors import Cbow, FastText, SkipGram, train

DATA_SETS = ("wikipedia_en", "google_analogies", "word_similarity")
EPOCHS = {"skip-gram": 3, "CBOW": 5, "fastText": 2}
GENSIM_RATES = {"skip-gram": 0.05, "CBOW": 0.05, "fastText": 0.05}
SIZE, WINDOW, NOISE, THRESHOLD, MIN_COUNT, BUCKETS = 100, 5, 5, 1e-3, 5, 100_000


def read_text(tokens: int) -> list[list[str]]:
    """Return paragraphs as lists of words without punctuation marks, about so many words in all."""
    sentences: list[list[str]] = []
    read = 0
    for document in data.read("wikipedia_en", "train"):
        for paragraph in document.paragraphs:
            words = [word for word in split_words(paragraph) if word[0].isalnum()]
            sentences.append(words)
            read += len(words)
        if read >= tokens:
            break
    return sentences


def learn_ours(kind: str, examples: Windows, vocabulary: Vocabulary) -> WordVectors:
    """Train one of our models."""
    model: FastText | SkipGram | Cbow
    if kind == "fastText":
        model = FastText(vocabulary.words, SIZE, BUCKETS)
    else:
        model = {"skip-gram": SkipGram, "CBOW": Cbow}[kind](len(vocabulary), SIZE)
    batches = examples.cbow if kind == "CBOW" else examples.skip_gram
    train(model, batches(1024, EPOCHS[kind]))
    return WordVectors(vocabulary.words[2:], model.vectors().numpy()[2:])


def learn_gensim(kind: str, sentences: list[list[str]], seed: int) -> WordVectors:
    """Train gensim's model with the same settings; the learning rate is the one that suits its plain steps."""
    from gensim.models import FastText as GensimFastText
    from gensim.models import Word2Vec

    settings: dict[str, Any] = {
        "vector_size": SIZE,
        "window": WINDOW,
        "negative": NOISE,
        "sample": THRESHOLD,
        "min_count": MIN_COUNT,
        "epochs": EPOCHS[kind],
        "alpha": GENSIM_RATES[kind],
        "sg": int(kind != "CBOW"),
        "workers": 1,
        "seed": seed,
    }
    if kind == "fastText":
        model = GensimFastText(sentences, bucket=BUCKETS, min_n=3, max_n=6, **settings)
    else:
        model = Word2Vec(sentences, **settings)
    return WordVectors(model.wv.index_to_key, model.wv.vectors)


def score(vectors: WordVectors) -> dict[str, Any]:
    """Return the quality of vectors."""
    analogies = vectors.evaluate_analogies(data.load("google_analogies", "test"))
    similarity = vectors.evaluate_similarity(data.load("word_similarity", "test"))
    return {
        "analogies": {
            name: {"covered": analogies[name].covered, "accuracy": analogies[name].accuracy}
            for name in ("semantic", "syntactic", "total")
        },
        "similarity": {
            source: {"covered": found.covered, "spearman": found.correlation} for source, found in similarity.items()
        },
    }


def timed(tokens: int, learn: Callable[[], WordVectors]) -> tuple[dict[str, float], WordVectors]:
    """Return speed and result. ``tokens`` counts every epoch."""
    began, used = time.perf_counter(), time.process_time()
    vectors = learn()
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    return {"seconds": seconds, "cpu_seconds": processor, "tokens_per_cpu_second": tokens / processor}, vectors


def main() -> None:
    """Train all, score all, write ``results/word_vectors/wikipedia.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--tokens", type=int, default=1_500_000, help="words of text to learn from")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(
        "word_vectors/wikipedia", ["torch", "gensim", "numpy", "d2lbert"], [arguments.seed], data_sets=DATA_SETS
    )
    sentences = read_text(arguments.tokens)
    counts: dict[str, int] = {}
    for words in sentences:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    vocabulary = Vocabulary(counts, min_count=MIN_COUNT)
    tokens = sum(counts[word] for word in vocabulary.words[2:])
    metrics: dict[str, Any] = {}
    for kind in EPOCHS:
        seed_everything(arguments.seed)
        settings: dict[str, Any] = {"window": WINDOW, "noise": NOISE, "threshold": THRESHOLD, "seed": arguments.seed}
        sides: dict[str, Callable[[], WordVectors]] = {
            "gensim": lambda kind=kind: learn_gensim(kind, sentences, arguments.seed),
            "ours": lambda kind=kind, settings=settings: learn_ours(
                kind, Windows(sentences, vocabulary, **settings), vocabulary
            ),
        }
        metrics[kind] = {"epochs": EPOCHS[kind]}
        for side, learn in sides.items():
            speed, vectors = timed(tokens * EPOCHS[kind], learn)
            metrics[kind][side] = speed | score(vectors)
            print(kind, side, f"{speed['seconds']:.0f} s", metrics[kind][side]["analogies"]["total"], flush=True)
        rates = [metrics[kind][side]["tokens_per_cpu_second"] for side in ("ours", "gensim")]
        metrics[kind]["speed_ratio"] = rates[0] / rates[1]
    text = "wikipedia_en train, from its beginning"
    record.write(metrics, data=text, tokens=tokens, vocabulary=len(vocabulary) - 2, vector_size=SIZE, window=WINDOW)


if __name__ == "__main__":
    main()
