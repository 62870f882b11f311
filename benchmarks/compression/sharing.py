"""ALBERT's two ideas, measured: word embeddings as a product of two factors, and one block for all layers.

* The word embeddings of MiniLM, fine-tuned on SST-2, become the nearest product of rank r, without any retraining. All
  pieces count the same, or as often as they stand in the training texts (and once more). The error of the matrix, the
  parameters, the bytes of the file, and the accuracy on dev against the whole model's labels.
* A BERT of d2lbert-tiny's width learns to fill gaps for the same short time: with four blocks, with one block that is
  used four times, and with one block that is used once. The second has the parameters of the third and the computations
  of the first. Loss and accuracy at ``[MASK]`` in held-out documents, for each seed; and how many times as long as with
  one layer a step takes. What is finished is kept: the same command goes on where it was stopped.

    OMP_NUM_THREADS=1 python -m benchmarks.compression.sharing    # needs D2LBERT_DATA; half an hour on one core
    python -m benchmarks.compression.sharing --size 60 --steps 5 --runs FOLDER --result compression/trial
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.pretraining.gaps import corpus, without_context
from benchmarks.pruned import Change, Whole
from benchmarks.record import Record, kept, spread
from d2lbert.config import preset
from d2lbert.data.pretraining.batches import BEGINNING, PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.masking import MaskingRates
from d2lbert.data.pretraining.shards import TokenShards
from d2lbert.torch.compression import factorise_embeddings
from d2lbert.torch.encoder import count_parameters, initialize
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.relatives import SharedEncoder
from d2lbert.torch.training.pretraining import Pretraining, Trainer
from d2lbert.weights.folder import WEIGHTS_FILE

RANKS = (320, 256, 192, 128, 96, 64, 32, 16)
# Name -> how many layers, and how many of them have a block of their own.
STACKS = {"four blocks": (4, 4), "one block, four times": (4, 1), "one block": (1, 1)}
MAX_LENGTH, BATCH_SIZE = 64, 32
LEARNING_RATE, FIRST_WEIGHTS = 3e-3, 0.08  # d2lbert-tiny's
YARDSTICK = MaskingRates(masked=1.0, replaced=0.0)


def how_often(whole: Whole) -> torch.Tensor:
    """Return how often each piece stands in the training texts, plus one, (V,)."""
    ids = torch.cat([torch.tensor(encoding.ids) for encoding in whole.encodings("train")])
    return 1 + torch.bincount(ids, minlength=whole.model.config.vocab_size)


def factorised(rank: int, counts: torch.Tensor | None) -> Change:
    """Replace the word embeddings by two factors."""

    def change(model: BertForSequenceClassification) -> None:
        model.bert = factorise_embeddings(model.bert, rank, counts)

    return change


def size_of(model: BertForSequenceClassification) -> dict[str, int]:
    """Return the parameters of a model and the bytes of its written weights."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        written = (Path(folder) / WEIGHTS_FILE).stat().st_size
    return {"parameters": count_parameters(model), "bytes": written}


def at_rank(whole: Whole, rank: int, counts: torch.Tensor | None) -> dict[str, Any]:
    """Return the error of the matrix, the size and the dev score of the model at a rank."""
    matrix = whole.model.bert.embeddings.word.weight.detach()
    model = whole.after(factorised(rank, counts))
    words = model.bert.embeddings.word
    error = float((matrix - words.widen(words.narrow.weight).detach()).norm() / matrix.norm())
    return {"relative_error": error, **size_of(model), **whole.score(model, "dev")}


def ranks(options: argparse.Namespace, whole: Whole) -> dict[str, Any]:
    """Factorise at every rank, with each way to count."""
    found: dict[str, Any] = {}
    for name, counts in (("all the same", None), ("as often as read", how_often(whole))):
        found[name] = {}
        for rank in RANKS:
            path = options.runs / f"rank-{rank}-{name.replace(' ', '-')}.json"
            found[name][str(rank)] = kept(
                path, {"size": options.size}, lambda rank=rank, counts=counts: at_rank(whole, rank, counts)
            )
            print(name, rank, found[name][str(rank)], flush=True)
    return found


def stacked(name: str, vocab_size: int, seed: int) -> BertForPretraining:
    """Return a model of d2lbert-tiny's width with one of the stacks."""
    layers, blocks = STACKS[name]
    config = preset("tiny").replace(
        vocab_size=vocab_size,
        num_hidden_layers=layers,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=FIRST_WEIGHTS,
    )
    torch.manual_seed(seed)
    model = BertForPretraining(config)
    if blocks < layers:
        model.bert.encoder = SharedEncoder(config.block, layers, blocks)
        model.bert.encoder.apply(lambda module: initialize(module, FIRST_WEIGHTS))
    return model


def pretrained(name: str, seed: int, shards: TokenShards, options: argparse.Namespace) -> dict[str, float]:
    """Train one stack with one seed; return its loss and accuracy at held-out gaps."""
    model = stacked(name, len(shards.tokenizer().vocab), seed)
    made = PretrainingSettings(MAX_LENGTH, BATCH_SIZE, seed, next_sentence=False)
    asked = PretrainingSettings(MAX_LENGTH, BATCH_SIZE, rates=YARDSTICK, next_sentence=False)
    loop = Pretraining(
        steps=options.steps,
        learning_rate=LEARNING_RATE,
        seed=seed,
        precision=options.precision,
        validation_batches=100,
    )
    train, dev = PretrainingData(shards, made, "train"), PretrainingData(shards, asked, "dev")
    trainer = Trainer(model, train, dev, loop, Path())
    batches = train.batches(BEGINNING)
    while trainer.step < options.steps:
        trainer.train_step(batches)
    found = trainer.validate()
    return {"loss": found["dev_masked_loss"], "accuracy": found["dev_masked_accuracy"], "tokens": trainer.tokens}


def stacks(options: argparse.Namespace) -> dict[str, Any]:
    """Train every stack with every seed."""
    shards = corpus(options.runs / "corpus")
    size, found = len(shards.tokenizer().vocab), {}
    settings = {"steps": options.steps, "precision": options.precision, "corpus": shards.digest(), "stacks": STACKS}
    for name, (layers, blocks) in STACKS.items():
        runs = []
        for seed in options.seeds:
            path = options.runs / f"{name.replace(' ', '-')}-{seed}.json"
            runs.append(kept(path, settings, lambda name=name, seed=seed: pretrained(name, seed, shards, options)))
            print(name, seed, runs[-1], flush=True)
        model = stacked(name, size, 0)
        found[name] = {
            "layers": layers,
            "blocks": blocks,
            "parameters": count_parameters(model),
            "in_blocks": count_parameters(model.bert.encoder),
            "tokens": runs[0]["tokens"],
            **{score: spread([run[score] for run in runs]) for score in ("loss", "accuracy")},
        }
    return {"corpus": shards.digest(), "loss_by_frequency": without_context(shards)["frequencies"], "runs": found}


def main() -> None:
    """Factorise, pretrain, and write ``results/compression/sharing.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--size", type=int, help="examples of each part of SST-2, to try the script out; default all")
    parser.add_argument("--steps", type=int, default=2500, help=f"of {BATCH_SIZE} texts, in each pretraining")
    parser.add_argument("--result", default="compression/sharing", help="results/<this>.json")
    add_seeds(parser, (0, 1))
    add_precision(parser)
    add_runs(parser, "compression/sharing")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert"], options.seeds)
    torch.set_num_threads(1)
    whole = Whole(options.size)
    exact = {**size_of(whole.model), **whole.score(whole.model, "dev")}
    record.write(
        {"whole": exact, "ranks": ranks(options, whole), "stacks": stacks(options)},
        steps=options.steps,
        precision=options.precision,
        pretraining_corpus="wikipedia_en",
        **whole.notes(),
    )


if __name__ == "__main__":
    main()
