"""Train a small ELMo on Wikipedia and measure it beside Kneser-Ney trigrams that counted the same words.

The vocabulary to guess from, the training text and the held-out text are the same for both; case is kept; an unknown
word is one word of the vocabulary. Kneser-Ney reads the sentences backwards for the backward direction. The run saves
itself and goes on where it was stopped. The weights without the softmax go to ``--out`` in half precision.

    python -m benchmarks.elmo.language_model    # needs D2LBERT_DATA for the real text; an hour on one core
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.command_line import command_line
from benchmarks.elmo_small import CONFIG
from benchmarks.record import ROOT, Record
from d2lbert import data
from d2lbert.data.elmo import SentenceBatches, read_sentences, word_vocabulary
from d2lbert.text import Vocabulary
from d2lbert.text.characters import SENTENCE_BEGIN, SENTENCE_END
from d2lbert.text.ngrams import KneserNey
from d2lbert.torch.elmo import BidirectionalLanguageModel, Elmo
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.training.elmo import LanguageModelTraining, perplexities, train_language_model

ORDER = 3


def counted(train: list[list[str]], dev: list[list[str]], vocabulary: Vocabulary) -> dict[str, float]:
    """Return the perplexity of Kneser-Ney in both directions."""
    found = {}
    for name, step in (("forward", 1), ("backward", -1)):
        lines = {}
        for split, sentences in (("train", train), ("dev", dev)):
            known = (vocabulary.lookup(vocabulary.ids(sentence)) for sentence in sentences)
            lines[split] = [[*words[::step], SENTENCE_END] for words in known]
        found[name] = KneserNey(lines["train"], len(vocabulary), ORDER).perplexity(lines["dev"])
    return found


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = command_line(__doc__)
    parser.add_argument("--words", type=int, default=3_000_000, help="of the training text")
    parser.add_argument("--dev-words", type=int, default=60_000, help="of the held-out text")
    parser.add_argument("--vocabulary", type=int, default=20_000, help="words to guess from")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=1024, help="wrong words of the sampled softmax")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "elmo", help="folder of checkpoints and weights")
    return parser.parse_args()


def build(train: list[list[str]], vocabulary: Vocabulary, samples: int) -> BidirectionalLanguageModel:
    """Return an untrained model whose wrong words are drawn as often as they occur."""
    counts = torch.ones(len(vocabulary))
    for sentence in train:
        for index in vocabulary.ids([SENTENCE_BEGIN, *sentence, SENTENCE_END]):
            counts[index] += 1
    return BidirectionalLanguageModel(Elmo(CONFIG), len(vocabulary), noise=counts / counts.sum(), samples=samples)


def main() -> None:
    """Train, measure, write ``results/elmo/language_model.json``."""
    arguments = parse()
    torch.set_num_threads(1)
    record = Record("elmo/language_model", ["torch", "numpy", "d2lbert"], [arguments.seed], data_sets=["wikipedia_en"])
    train = read_sentences(data.read("wikipedia_en", "train"), arguments.words)
    dev = read_sentences(data.read("wikipedia_en", "dev"), arguments.dev_words)
    vocabulary = word_vocabulary(train, arguments.vocabulary)
    torch.manual_seed(arguments.seed)
    model = build(train, vocabulary, arguments.samples)
    settings = LanguageModelTraining(epochs=arguments.epochs, seed=arguments.seed)
    batches = SentenceBatches(train, vocabulary, CONFIG.max_characters, words_per_batch=1500)
    history = train_language_model(model, batches, settings, arguments.out / "checkpoints")
    model.elmo.save_pretrained(arguments.out, half=True)
    forward, backward = perplexities(model, SentenceBatches(dev, vocabulary, CONFIG.max_characters, 3000))
    metrics = {
        "elmo": {"forward": forward, "backward": backward},
        f"Kneser-Ney, order {ORDER}": counted(train, dev, vocabulary),
    }
    print(metrics)
    known = sum(index != vocabulary.unknown_id for sentence in dev for index in vocabulary.ids(sentence))
    record.write(
        metrics,
        data="wikipedia_en: train from its beginning, dev",
        train_words=sum(map(len, train)),
        dev_words=sum(map(len, dev)),
        dev_known=known / sum(map(len, dev)),
        vocabulary=len(vocabulary),
        parameters=count_parameters(model.elmo),
        settings=vars(settings),
        training_seconds=history[-1]["seconds"],
        history=history,
        paper={"forward and backward perplexity, 1B Word, mean (Peters et al. 2018, section 3.4)": 39.7},
    )


if __name__ == "__main__":
    main()
