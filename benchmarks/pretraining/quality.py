"""What a pretrained model knows before any fine-tuning: masked words, next sentences, whole texts, grammar.

* On held-out documents: the share of chosen tokens guessed right and the loss, at all places that training asks for
  (``benchmarks/pretraining/gaps.py`` tells the hidden ones apart); the share of pairs told apart; and the
  pseudo-perplexity of sentences (Salazar et al. 2020). Beside it what the frequencies of single tokens give.
* BLiMP (Warstadt et al. 2020): the share of minimal pairs in which the right sentence is the likelier one, for each of
  the 67 paradigms. Guessing gives one half.

    python -m benchmarks.pretraining.quality --model DIR --corpus PREPARED    # needs D2LBERT_DATA or a network
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert import data
from d2lbert.data.examples import MinimalPair
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.shards import TokenShards
from d2lbert.text import WordPiece
from d2lbert.torch.masked_words import pseudo_log_likelihoods, pseudo_perplexity
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import best_device
from d2lbert.torch.training.pretraining import Pretraining, Trainer

LENGTH = 128


def held_out(model: BertForPretraining, shards: TokenShards, batches: int) -> dict[str, float]:
    """Return losses and accuracies on chosen tokens and pairs of documents that were held out."""
    settings = PretrainingSettings(max_length=LENGTH, batch_size=64)
    train, dev = PretrainingData(shards, settings), PretrainingData(shards, settings, "dev", ask_everywhere=True)
    return Trainer(model, train, dev, Pretraining(validation_batches=batches), Path()).validate()


def by_frequency(shards: TokenShards) -> dict[str, float]:
    """Return what one knows without context: the loss by frequency, and how often the most frequent token is right.

    The frequencies are those of the training documents, one added to each count; the loss is that of held-out ones.
    """
    train = np.ones(len(shards.tokenizer().vocab))
    for name in shards.names("train"):
        train += np.bincount(shards.load(name).tokens, minlength=len(train))
    dev = np.concatenate([shards.load(name).tokens for name in shards.names("dev")])
    loss = float(-np.log(train / train.sum())[dev].mean())
    return {"loss": loss, "accuracy": float((dev == train.argmax()).mean()), "perplexity": math.exp(loss)}


def sentences_of(shards: TokenShards, count: int) -> list[str]:
    """Return ``count`` held-out sentences of ordinary length, evenly spread over the documents."""
    tokenizer, texts = shards.tokenizer(), []
    for name in shards.names("dev"):
        shard = shards.load(name)
        for start, end in itertools.pairwise(shard.sentences):
            if 8 <= end - start <= 60:
                texts.append(tokenizer.decode(shard.tokens[start:end].tolist()))
    return texts[:: max(1, len(texts) // count)][:count]


def grammar(model: BertForPretraining, tokenizer: WordPiece, pairs: Sequence[MinimalPair]) -> dict[str, Any]:
    """Return the share of pairs whose right sentence is likelier, for each paradigm and in the mean over them."""
    right: dict[str, list[bool]] = defaultdict(list)
    scores = pseudo_log_likelihoods(model, tokenizer, [text for pair in pairs for text in (pair.good, pair.bad)])
    for pair, good, bad in zip(pairs, scores[::2], scores[1::2], strict=True):
        right[pair.paradigm].append(good.log_probability > bad.log_probability)
    paradigms = {name: float(np.mean(found)) for name, found in sorted(right.items())}
    return {"mean": float(np.mean(list(paradigms.values()))), "pairs": len(pairs), "paradigms": paradigms}


def main() -> None:
    """Measure all and write the result."""
    parser = command_line(__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True, help="a folder that d2lbert pretrain --prepare wrote")
    parser.add_argument("--batches", type=int, default=100, help="of 64 held-out pairs")
    parser.add_argument("--sentences", type=int, default=400, help="whose pseudo-perplexity is taken")
    parser.add_argument("--pairs", type=int, default=1000, help="of each paradigm of BLiMP")
    parser.add_argument("--result", default="pretraining/quality", help="results/<this>.json")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "numpy", "d2lbert"], [0], data_sets=["blimp"])
    shards, tokenizer = TokenShards.open(options.corpus), WordPiece.from_pretrained(options.model)
    model = BertForPretraining.from_pretrained(options.model).to(best_device())
    metrics: dict[str, Any] = {
        "held out": held_out(model, shards, options.batches),
        "by frequency": by_frequency(shards),
    }
    texts = sentences_of(shards, options.sentences)
    metrics["pseudo_perplexity"] = pseudo_perplexity(pseudo_log_likelihoods(model, tokenizer, texts, LENGTH))
    pairs = data.load("blimp", "test")
    chosen = [pair for number, pair in enumerate(pairs) if number % 1000 < options.pairs]  # 1,000 pairs of each in turn
    metrics["blimp"] = grammar(model, tokenizer, chosen)
    print({name: metrics["blimp"]["mean"] if name == "blimp" else found for name, found in metrics.items()})
    record.write(metrics, model=options.model.name, sentences=len(texts), max_length=LENGTH)


if __name__ == "__main__":
    main()
