"""Memory and processor time of the ways of data, at 1, 4 and 16 times a size: what grows with a corpus, and how.

A corpus is generated: words of a small vocabulary by Zipf's law, and every fiftieth one that no other place has. Then
each stage runs in a process of its own, with its defaults: the checksum of the files, learning a vocabulary, preparing
shards, one epoch of shuffled and masked batches. Last, pairs of sentences are fine-tuned on for three steps, which
holds all of them in memory.

    python -m benchmarks.cost.memory                       # 16, 64 and 256 MB of text; 6,250, 25,000, 100,000 pairs
    python -m benchmarks.cost.memory --megabytes 128 --pairs 25000    # up to 2 GB and 400,000 pairs: 20 minutes
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.children import cached_code, used_by
from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert.data.examples import Pair
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.corpus import corpus_files, learn_vocabulary
from d2lbert.data.pretraining.origin import origin_of
from d2lbert.data.pretraining.shards import TokenShards, prepare
from d2lbert.text import WordPiece
from d2lbert.zoo import locate

TIMES = (1, 4, 16)
CORPUS, SHARDS = "corpus.txt", "shards"  # in the folder of a stage
SENTENCE, SENTENCES, PARAGRAPHS = 20, 3, 5  # words, of a paragraph, of a document
SEED = 0


def main() -> None:
    """Measure all stages and write ``results/cost/memory.json``; with ``--stage``, be one of them."""
    parser = command_line(__doc__)
    parser.add_argument("--megabytes", type=int, default=16, help="of the smallest corpus")
    parser.add_argument("--pairs", type=int, default=6_250, help="fewest to fine-tune on")
    parser.add_argument("--stage", nargs=3, help="its name, the folder, the size (used by the script itself)")
    arguments = parser.parse_args()
    if arguments.stage:
        name, folder, size = arguments.stage
        STAGES[name](Path(folder), int(size))
        return
    record = Record("cost/memory", ["numpy", "tokenizers", "torch", "d2lbert"], [SEED])
    metrics: dict[str, Any] = {name: [] for name in ("imports", *STAGES)}
    for times in TIMES:
        with tempfile.TemporaryDirectory() as folder:
            for name in metrics:
                size = times * (arguments.pairs if name == "fine_tune" else arguments.megabytes)
                metrics[name].append(one := measured(name, folder, size))
                print(f"{name}, size {size:,}: {one['peak_mebibytes']:,.0f} MiB, {one['seconds']:.1f} s", flush=True)
    record.write(metrics, sizes="megabytes of text; of fine_tune, pairs", threads=1)


def measured(name: str, folder: str, size: int) -> dict[str, float]:
    """Return what a stage used in a process of its own; ``imports`` is one that does nothing."""
    stage = [] if name == "imports" else ["--stage", name, folder, str(size)]
    words = ["-m", "benchmarks.cost.memory", *stage] if stage else ["-c", "import benchmarks.cost.memory"]
    used = used_by(words, cached_code(Path(folder) / "code"))
    return {"size": size, "seconds": used.seconds, "peak_mebibytes": used.mebibytes}


def generate(folder: Path, megabytes: int) -> None:
    """Write a corpus into a folder, a hundred thousand words at a time."""
    random = np.random.default_rng(SEED)
    words = np.array([piece for piece in _tokenizer().vocab if piece.isalpha() and piece.isascii() and len(piece) > 2])
    chances = np.cumsum(1 / np.arange(1, len(words) + 1))
    written = 0
    with (folder / CORPUS).open("w", encoding="utf-8") as file:
        while written < megabytes * 1_000_000:
            drawn = words[np.searchsorted(chances, random.random(100_000) * chances[-1])].astype(object)
            drawn[::50] = [f"{letters}x" for letters in _letters(random, len(drawn[::50]))]
            drawn[::SENTENCE] = [word.capitalize() for word in drawn[::SENTENCE]]
            drawn[SENTENCE - 1 :: SENTENCE] = [f"{word}." for word in drawn[SENTENCE - 1 :: SENTENCE]]
            paragraph = SENTENCE * SENTENCES
            lines = [" ".join(drawn[start : start + paragraph]) for start in range(0, len(drawn), paragraph)]
            documents = ["\n".join(lines[start : start + PARAGRAPHS]) for start in range(0, len(lines), PARAGRAPHS)]
            written += file.write("\n\n".join(documents) + "\n\n")


def _letters(random: np.random.Generator, count: int) -> list[str]:
    """Return words of seven random letters."""
    return ["".join(map(chr, row)) for row in random.integers(97, 123, (count, 7))]


def digest(folder: Path, size: int) -> None:
    """Take the checksum of the corpus, as the index of its shards keeps it."""
    origin_of(corpus_files([folder / CORPUS]), {})


def learn(folder: Path, size: int) -> None:
    """Learn a vocabulary from the corpus."""
    learn_vocabulary(corpus_files([folder / CORPUS]), 8000)


def prepare_shards(folder: Path, size: int) -> None:
    """Tokenise the corpus into shards."""
    prepare(corpus_files([folder / CORPUS]), folder / SHARDS, _tokenizer())


def stream(folder: Path, size: int) -> None:
    """Go through an epoch of batches, shuffled, paired, masked and packed."""
    data = PretrainingData(TokenShards.open(folder / SHARDS), PretrainingSettings(batch_size=256))
    data.check()
    for _ in data.epoch(0):
        pass


def fine_tune(folder: Path, size: int) -> None:
    """Take three steps on pairs of generated sentences of 20 words, all of which are encoded before."""
    from d2lbert.config.training import Training
    from d2lbert.tasks.pair import PairClassification
    from d2lbert.torch.bert import BertModel
    from d2lbert.torch.heads import BertForSequenceClassification
    from d2lbert.torch.training.finetuning import fine_tune as train

    random = np.random.default_rng(SEED)
    words = np.array([piece for piece in _tokenizer().vocab if piece.isalpha() and len(piece) > 2], dtype=object)
    drawn = (words[random.integers(0, len(words), 2 * SENTENCE)] for _ in range(size))
    pairs = [Pair(" ".join(one[:SENTENCE]), " ".join(one[SENTENCE:]), "ab"[n % 2]) for n, one in enumerate(drawn)]
    model = BertForSequenceClassification(BertModel.from_pretrained("d2lbert-tiny"), ("a", "b"))
    steps = iter([False, False, False])
    try:
        train(
            model, PairClassification(("a", "b")), _tokenizer(), pairs, pairs[:100], Training(epochs=1), "cpu", False,
            stopped=lambda: next(steps, True),
        )  # fmt: skip
    except KeyboardInterrupt:
        print("stopped after three steps", file=sys.stderr)


def _tokenizer() -> WordPiece:
    return WordPiece.from_pretrained(locate("d2lbert-tiny"))


STAGES: dict[str, Callable[[Path, int], None]] = {
    "generate": generate,
    "digest": digest,
    "learn": learn,
    "prepare": prepare_shards,
    "stream": stream,
    "fine_tune": fine_tune,
}

if __name__ == "__main__":
    main()
