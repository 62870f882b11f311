"""One block for all layers: does a model that uses it four times learn more than one that uses it once?

A GPT of d2lbert-tiny's width learns to name the next token, all with the same texts in the same order: with four
blocks, with one block that is used four times, and with one block that is used once. The second has the parameters of
the third and the computations of the first. A GPT, and no BERT: it is asked for every token, and not for 15 of 100, so
it learns more in the same time. Loss and accuracy in held-out documents, for each seed, and beside them the loss of one
who knows only how frequent each piece is. What is finished is kept: the same command goes on where it was stopped.

    OMP_NUM_THREADS=1 python -m benchmarks.compression.sharing_blocks    # needs D2LBERT_DATA; an hour on one core
    python -m benchmarks.compression.sharing_blocks --steps 5 --seeds 0 --runs FOLDER --result compression/trial
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.pretraining.gaps import corpus, without_context
from benchmarks.pretraining.gpt import LEARNING_RATE, gpt_sizes
from benchmarks.record import Record, kept, spread
from d2lbert.data.pretraining.batches import BEGINNING, PretrainingSettings
from d2lbert.data.pretraining.causal import CausalData
from d2lbert.data.pretraining.shards import TokenShards
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.gpt import Gpt
from d2lbert.torch.relatives import SharedEncoder
from d2lbert.torch.training.pretraining import Pretraining, Trainer

# Name -> how many layers, and how many of them have a block of their own.
STACKS = {"four blocks": (4, 4), "one block, four times": (4, 1), "one block": (1, 1)}
MAX_LENGTH, BATCH_SIZE = 64, 32


def stacked(name: str, shards: TokenShards, seed: int) -> Gpt:
    """Return a model of d2lbert-tiny's width with one of the stacks. All begin with the same weights."""
    layers, blocks = STACKS[name]
    torch.manual_seed(seed)
    model = Gpt(gpt_sizes(shards.tokenizer()).replace(n_layer=layers))
    if blocks < layers:
        shared = SharedEncoder(model.config.block, layers, blocks)
        first = model.encoder.state_dict()
        shared.load_state_dict({key: first[key] for key in shared.state_dict()})
        model.encoder = shared
    return model


def pretrained(name: str, seed: int, shards: TokenShards, options: argparse.Namespace) -> dict[str, float]:
    """Train one stack with one seed; return its loss and accuracy in held-out documents."""
    model = stacked(name, shards, seed)
    examples = PretrainingSettings(MAX_LENGTH, BATCH_SIZE, seed, next_sentence=False)
    loop = Pretraining(
        steps=options.steps,
        learning_rate=LEARNING_RATE,
        seed=seed,
        precision=options.precision,
        validation_batches=100,
    )
    train, dev = CausalData(shards, examples), CausalData(shards, examples, "dev")
    trainer = Trainer(model, train, dev, loop, Path())
    batches = train.batches(BEGINNING)
    while trainer.step < options.steps:
        trainer.train_step(batches)
    found, asked = trainer.validate(), train.objectives[0]
    return {"loss": found[f"dev_{asked}_loss"], "accuracy": found[f"dev_{asked}_accuracy"], "tokens": trainer.tokens}


def stacks(shards: TokenShards, options: argparse.Namespace) -> dict[str, Any]:
    """Train every stack with every seed."""
    found: dict[str, Any] = {}
    settings = {"steps": options.steps, "precision": options.precision, "corpus": shards.digest(), "stacks": STACKS}
    for name, (layers, blocks) in STACKS.items():
        runs = []
        for seed in options.seeds:
            path = options.runs / f"{name.replace(' ', '-')}-{seed}.json"
            runs.append(kept(path, settings, lambda name=name, seed=seed: pretrained(name, seed, shards, options)))
            print(name, seed, runs[-1], flush=True)
        model = stacked(name, shards, 0)
        found[name] = {
            "layers": layers,
            "blocks": blocks,
            "parameters": count_parameters(model),
            "in_blocks": count_parameters(model.encoder),
            "tokens": runs[0]["tokens"],
            **{score: spread([run[score] for run in runs]) for score in ("loss", "accuracy")},
        }
    return {"loss_by_frequency": without_context(shards)["frequencies"], "stacks": found}


def main() -> None:
    """Pretrain, and write ``results/compression/sharing_blocks.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--steps", type=int, default=1200, help=f"of {BATCH_SIZE} texts")
    parser.add_argument("--result", default="compression/sharing_blocks", help="results/<this>.json")
    add_seeds(parser, (0, 1))
    add_precision(parser)
    add_runs(parser, "compression/sharing_blocks")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert"], options.seeds, data_sets=["wikipedia_en"], samples_do=False)
    torch.set_num_threads(1)
    shards = corpus(options.runs / "corpus")
    record.write(
        stacks(shards, options),
        steps=options.steps,
        texts_per_step=BATCH_SIZE,
        max_length=MAX_LENGTH,
        precision=options.precision,
        data="wikipedia_en",
        corpus=shards.digest(),
    )


if __name__ == "__main__":
    main()
