"""What matters in BERT's recipe? The same small BERT pretrained with one thing changed, each for the same steps.

How much is asked for (5, 15, 40 tokens of 100), what stands there instead (80/10/10, always ``[MASK]``, or ``[MASK]``
with one of ten kept or replaced), whole words, next sentences or single texts, and how large the first weights are:
0.08, close to 1/sqrt(D) for D = 128, or the 0.02 of BERT-base. The yardsticks are the same for all: the loss at 15
tokens of 100 that are all ``[MASK]``, in held-out documents; the parts of speech that a linear probe finds in the
frozen vectors (Brown); SST-2 and SICK after fine-tuning. The first run is repeated with another seed: differences
smaller than between these two mean nothing. A stopped run goes on where it was.

    python -m benchmarks.pretraining.ablations --corpus PREPARED    # needs D2LBERT_DATA
"""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.command_line import add_precision, add_runs, command_line
from benchmarks.probes import SETS, probe, read
from benchmarks.record import Record, kept, spread
from d2lbert import data
from d2lbert.config import preset
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.masking import MaskingRates
from d2lbert.data.pretraining.shards import TokenShards
from d2lbert.tasks.table import named_task
from d2lbert.torch.bert import BertModel
from d2lbert.torch.encoder import initialize
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.evaluation import evaluate
from d2lbert.torch.training.finetuning import Training, fine_tune
from d2lbert.torch.training.pretraining import Pretraining, Trainer

TASKS = {"sst2": "classification", "sick": "pair"}
MAX_LENGTH, BATCH_SIZE = 64, 32
SEEDS = (0, 1, 2)  # of the fine-tuning
FINE_TUNING: dict[str, Any] = {"epochs": 4, "learning_rate": 1e-3}
YARDSTICK = MaskingRates(masked=1.0, replaced=0.0)
WORDS = {"train": 4000, "dev": 2000}  # of the probe


@dataclass(frozen=True)
class Arm:
    """One way to pretrain.

    Fields:
        rates: how tokens are masked.
        next_sentence: pairs, or single texts.
        seed: of weights and data.
        initializer_range: deviation of the first weights.
    """

    rates: MaskingRates = dataclasses.field(default_factory=MaskingRates)
    next_sentence: bool = True
    seed: int = 0
    initializer_range: float = 0.08


ARMS = {
    "BERT's recipe": Arm(),
    "the same, another seed": Arm(seed=1),
    "5 of 100 tokens": Arm(MaskingRates(chosen=0.05)),
    "40 of 100 tokens": Arm(MaskingRates(chosen=0.4)),
    "always [MASK]": Arm(MaskingRates(masked=1.0, replaced=0.0)),
    "always [MASK], another seed": Arm(MaskingRates(masked=1.0, replaced=0.0), seed=1),
    "9 of 10 [MASK], 1 kept": Arm(MaskingRates(masked=0.9, replaced=0.0)),
    "9 of 10 [MASK], 1 random": Arm(MaskingRates(masked=0.9, replaced=0.1)),
    "whole words": Arm(MaskingRates(whole_words=True)),
    "no next sentences": Arm(next_sentence=False),
    "first weights 0.02": Arm(initializer_range=0.02),
}


def pretrain(arm: Arm, shards: TokenShards, options: argparse.Namespace, folder: Path) -> BertForPretraining:
    """Train one arm, or go on with it, and return its model."""
    config = preset("tiny").replace(
        vocab_size=len(shards.tokenizer().vocab),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=arm.initializer_range,
    )
    torch.manual_seed(arm.seed)
    model = BertForPretraining(config).to(best_device())
    settings = PretrainingSettings(MAX_LENGTH, BATCH_SIZE, arm.seed, rates=arm.rates, next_sentence=arm.next_sentence)
    train, dev = (PretrainingData(shards, settings, split) for split in ("train", "dev"))
    loop = Pretraining(
        steps=options.steps,
        learning_rate=3e-3,
        seed=arm.seed,
        precision=options.precision,
        validate_every=10**6,
        keep=1,
    )
    trainer = Trainer(model, train, dev, loop, folder)
    trainer.resume()
    if trainer.step < options.steps:
        trainer.run()
    return model


def masked_words(model: BertForPretraining, shards: TokenShards) -> dict[str, float]:
    """Return loss and accuracy at held-out gaps, all of them ``[MASK]``, in single texts."""
    settings = PretrainingSettings(MAX_LENGTH, BATCH_SIZE, rates=YARDSTICK, next_sentence=False)
    train, dev = (PretrainingData(shards, settings, split) for split in ("train", "dev"))
    found = Trainer(model, train, dev, Pretraining(validation_batches=100), Path()).validate()
    return {"loss": found["dev_masked_loss"], "accuracy": found["dev_masked_accuracy"]}


def fine_tuned(name: str, encoder: BertModel, shards: TokenShards, precision: str) -> dict[str, Any]:
    """Return the accuracy of fine-tuned copies of an encoder on the dev split, with several seeds."""
    train, dev = data.load(name, "train"), data.load(name, "dev")
    task, scores = named_task(TASKS[name]).of_examples(train), []
    for seed in SEEDS:
        seed_everything(seed)
        copy = BertModel(encoder.config)
        copy.load_state_dict(encoder.state_dict())
        initialize(copy.pooler, copy.config.initializer_range)  # where single texts were read it has learned nothing
        model = BertForSequenceClassification(copy, task.labels)
        settings = Training(**FINE_TUNING, seed=seed, precision=precision)
        fine_tune(model, task, shards.tokenizer(), train, dev, settings, best_device(), progress=False)
        scores.append(evaluate(model, task, shards.tokenizer(), dev, device=best_device())[0]["accuracy"])
    return spread(scores)


def measure(arm: Arm, shards: TokenShards, words: list[Any], options: argparse.Namespace, folder: Path) -> Any:
    """Train one arm and hold every yardstick to it; what an earlier call has found is kept beside its run."""

    def work() -> dict[str, Any]:
        model = pretrain(arm, shards, options, folder)
        found: dict[str, Any] = {"masked words": masked_words(model, shards)}
        found["part of speech"] = probe(model.bert, shards.tokenizer(), words)["accuracy"]
        for name in TASKS:
            found[name] = fine_tuned(name, model.bert, shards, options.precision)
        return found

    settings = {"arm": dataclasses.asdict(arm), "steps": options.steps, "precision": options.precision}
    settings |= {"corpus": shards.digest(), "fine-tuning": FINE_TUNING}
    return kept(folder / "found.json", settings, work)


def main() -> None:
    """Train and measure every arm and write ``results/pretraining/ablations.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="a folder that d2lbert pretrain --prepare wrote")
    parser.add_argument("--steps", type=int, default=6000, help=f"of {BATCH_SIZE} texts")
    add_precision(parser)
    add_runs(parser, "pretraining/ablations")
    options = parser.parse_args()
    record = Record(
        "pretraining/ablations",
        ["torch", "scikit-learn", "d2lbert"],
        list(SEEDS),
        data_sets=[*TASKS, SETS["part of speech"]],
    )
    shards = TokenShards.open(options.corpus)
    words = [read("part of speech", split, count, 0) for split, count in WORDS.items()]
    metrics: dict[str, Any] = {}
    for title, arm in ARMS.items():
        folder = options.runs / title.replace(" ", "-")
        metrics[title] = measure(arm, shards, words, options, folder)
        print(title, metrics[title], flush=True)
    record.write(
        metrics,
        steps=options.steps,
        precision=options.precision,
        arms={title: dataclasses.asdict(arm) for title, arm in ARMS.items()},
    )


if __name__ == "__main__":
    main()
