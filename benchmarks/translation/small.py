"""The two small translators that come with the book, English to German: a Transformer and a GRU with attention.

Both learn from the training captions of Multi30k, in the same batches in the same order; dev chooses the weights. They
are written in float16, loaded from their files, and these translate dev and test with a beam of four. The test set is
scored once, at the end. The standard error of BLEU is that of scores of sentences drawn anew (bootstrap; Koehn 2004).
With --resume a stopped run goes on from its last checkpoint.

    python -m benchmarks.translation.small    # needs D2LBERT_DATA or a network; 75 minutes on one core
    python -m benchmarks.translation.small --steps 20 --evaluate-every 10 --test 40 --result translation/trial
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import command_line
from benchmarks.record import ROOT, Record
from benchmarks.translation.multi30k import tokenizer_for
from d2lbert import data, get_model, metrics
from d2lbert.config import Seq2SeqConfig, transformer_preset
from d2lbert.data.translation import EncodedPair, encode_pairs
from d2lbert.storage import checkpoints
from d2lbert.text import BytePairEncoding
from d2lbert.text.bpe import VOCABULARY_FILE
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer
from d2lbert.torch.translation import SequenceTraining, train_sequences, translate

# Name in the zoo -> the highest learning rate. Neither was tuned.
LEARNING_RATES = {"transformer-en-de": 3e-3, "seq2seq-en-de": 2e-3}
DRAWS = 300  # of sentences, for the standard error
SHOWN = 8


def build(name: str, vocabulary: int, seed: int) -> Any:
    """Return one of the two models, untrained. One table serves as embeddings of both languages and as output layer."""
    seed_everything(seed)
    if name == "transformer-en-de":
        blocks = {"num_encoder_layers": 3, "num_decoder_layers": 3}
        return Transformer(transformer_preset("tiny", vocabulary).replace(hidden_dropout_prob=0.1, **blocks))
    tables = {"share_embeddings": True, "tie_word_embeddings": True}
    config = Seq2SeqConfig(vocabulary, vocabulary, 192, hidden_dropout_prob=0.1, embedding_size=128, **tables)
    return Seq2Seq(config)


def train(
    name: str, options: argparse.Namespace, tokenizer: BytePairEncoding, parts: dict[str, list[EncodedPair]]
) -> Any:
    """Train one model, or go on with it, and write it in float16; return its history."""
    settings = SequenceTraining(
        options.steps,
        options.tokens,
        LEARNING_RATES[name],
        options.warmup_steps,
        evaluate_every=options.evaluate_every,
        seed=options.seed,
        decay="linear",
    )
    model, folder = build(name, len(tokenizer), options.seed), options.out / name
    resume = options.resume and checkpoints.begun(folder / "checkpoints")
    history = train_sequences(model, parts["train"], parts["dev"], settings, best_device(), folder, resume)
    shipped = options.out / "shipped" / name
    model.cpu().save_pretrained(shipped, half=True)
    tokenizer.save(shipped / VOCABULARY_FILE)
    return history


def standard_errors(found: dict[str, list[str]], references: Sequence[str]) -> dict[str, float]:
    """Return the standard error of BLEU of each model, and of the difference of the first two, by the bootstrap.

    Args:
        found: name -> translations, in the order of the references. In each draw all models get the same sentences.
    """
    random = np.random.default_rng(0)
    scores: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(DRAWS):
        drawn = random.integers(len(references), size=len(references))
        wanted = [references[index] for index in drawn]
        for name, translations in found.items():
            scores[name].append(metrics.bleu([translations[index] for index in drawn], wanted).score)
    errors = {name: float(np.std(values, ddof=1)) for name, values in scores.items()}
    first, second = list(scores.values())[:2]
    return {**errors, "difference": float(np.std(np.subtract(first, second), ddof=1))}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = command_line(str(__doc__))
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--tokens", type=int, default=2048, help="positions of a batch")
    parser.add_argument("--warmup-steps", type=int, default=400)
    parser.add_argument("--evaluate-every", type=int, default=250)
    parser.add_argument("--merges", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test", type=int, default=1014, help="sentences of dev and test to translate, at most")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "translation_small")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--result", default="translation/small", help="results/<this>.json")
    return parser.parse_args()


def translations(options: argparse.Namespace, examples: dict[str, list[Any]]) -> dict[str, dict[str, list[str]]]:
    """Translate dev and test with what was written; return split -> name -> translations."""
    models = {name: get_model(str(options.out / "shipped" / name)) for name in LEARNING_RATES}
    sources = {split: [example.source for example in examples[split][: options.test]] for split in ("dev", "test")}
    return {split: {name: translate(*both, texts) for name, both in models.items()} for split, texts in sources.items()}


def measured(name: str, folder: Path, history: list[dict[str, float]], scores: dict[str, Any]) -> dict[str, Any]:
    """Return what the result says of one model; ``scores`` are those of dev and test."""
    model, _ = get_model(str(folder))
    return {
        "parameters": count_parameters(model),
        "bytes": sum(path.stat().st_size for path in folder.iterdir()),
        "tokens": history[-1]["tokens"],
        "training_seconds": round(history[-1]["seconds"], 1),
        **scores,
        "curve": history,
        "learning_rate": LEARNING_RATES[name],
        "configuration": dataclasses.asdict(model.config),
    }


def main() -> None:
    """Train both, translate, write ``results/translation/small.json``."""
    options = arguments()
    record = Record(options.result, ["torch", "sacrebleu", "d2lbert"], [options.seed], data_sets=["multi30k"])
    examples = {split: data.load("multi30k", split) for split in ("train", "dev", "test")}
    tokenizer = tokenizer_for(options.out / "vocabulary.json", examples["train"], options.merges)
    encoded = {split: encode_pairs(examples[split], tokenizer) for split in ("train", "dev")}
    histories = {name: train(name, options, tokenizer, encoded) for name in LEARNING_RATES}
    found = translations(options, examples)
    references = {split: [example.target for example in examples[split][: options.test]] for split in found}
    results = {}
    for name, history in histories.items():
        scores = {split: metrics.bleu(found[split][name], references[split])._asdict() for split in found}
        results[name] = measured(name, options.out / "shipped" / name, history, scores)
        print(name, scores, flush=True)
    record.write(
        results,
        data="multi30k, English to German",
        sentences={split: len(pairs) for split, pairs in examples.items()},
        settings={name: str(value) for name, value in vars(options).items() if name not in ("out", "resume")},
        standard_errors={split: standard_errors(found[split], references[split]) for split in found},
        examples=[
            {"dev sentence": place, **{name: found["dev"][name][place] for name in LEARNING_RATES}}
            for place in range(min(SHOWN, len(references["dev"])))
        ],
    )


if __name__ == "__main__":
    main()
