"""Pruning of MiniLM, fine-tuned on SST-2: accuracy against what is left of it, and what that gains in speed and size.

The examples that chose the adapter's epoch (a tenth of the training set) make every choice here, too: how weights are
ranked, whether the importance of heads is compared layer by layer, and the epoch of a retraining. The importance of
heads and neurons is taken from others of the training set. The dev set chooses nothing; each model is scored on it
once, against the labels of the whole model. Speeds are those of dev sentences in packed rows, one core, in turns. What
is finished is kept: the same command goes on where it was stopped.

    python -m benchmarks.compression.pruning    # needs D2LBERT_DATA for the real set; half an hour on one core
    python -m benchmarks.compression.pruning --size 60 --runs FOLDER --result compression/trial
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.int8_sides import BATCH, in_pytorch
from benchmarks.labels import compared, labels_of
from benchmarks.plans import PLANS, read
from benchmarks.record import Record, kept
from benchmarks.timing import compare, in_words, take_turns, timed
from d2lbert import data, get_model
from d2lbert.config.training import Training
from d2lbert.data.batching import pack
from d2lbert.tasks.classification import Classification
from d2lbert.torch.compression import (
    head_importance,
    keep_zeros,
    most_important,
    neuron_importance,
    per_layer,
    prune_encoder,
    prune_smallest,
    sparsity,
)
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.training.finetuning import fine_tune
from d2lbert.weights.folder import WEIGHTS_FILE

SHARES = tuple(round(0.1 * tenth, 1) for tenth in range(10))  # of weights that are zero
RETRAINED = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)
HEADS_LEFT = (60, 48, 36, 24, 12, 6)  # of 72
NEURONS_LEFT = (0.75, 0.5, 0.25)
WEIGHED_ON = 1000  # training examples that give the importance
EPOCHS, RATE = 2, 5e-5  # of retraining; not tuned
WARM_UP = 2

Change = Callable[[BertForSequenceClassification], None]


class Study:
    """The whole model, its examples, and what is kept of finished work.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.runs, self.precision = options.runs, options.precision
        self.model, self.tokenizer = get_model("minilm", "sst2")
        self.train, self.choice, self.dev = (part[: options.size] for part in read("sst2", PLANS["sst2"]))
        self.task = Classification(self.model.labels)
        self.settings = {"size": options.size, "precision": options.precision, "epochs": EPOCHS, "rate": RATE}
        self.whole = {id(part): self.labels(self.model, part) for part in (self.choice, self.dev)}
        weighed = (self.task, self.tokenizer, self.train[:WEIGHED_ON])
        self.heads = head_importance(self.model, *weighed)
        self.neurons = neuron_importance(self.model, *weighed)

    def labels(self, model: BertForSequenceClassification, examples: list[Any]) -> np.ndarray:
        """Return the number of the label that a model gives to each example."""
        encodings = self.tokenizer.encode_batch([example.text for example in examples], max_length=128)
        return labels_of(in_pytorch(model.eval()), encodings)

    def score(self, model: BertForSequenceClassification, examples: list[Any]) -> dict[str, float]:
        """Return the accuracy of a model, and its difference to that of the whole model."""
        truth = np.array([self.model.labels.index(example.label) for example in examples])
        return compared(self.labels(model, examples), self.whole[id(examples)], truth)

    def changed(self, change: Change) -> BertForSequenceClassification:
        """Return a copy of the whole model after a change."""
        model = copy.deepcopy(self.model)
        change(model)
        return model

    def at_once(self, name: str, change: Change) -> dict[str, Any]:
        """Return the dev score after a change, without retraining."""
        found = kept(self.runs / f"{name}.json", self.settings, lambda: self.score(self.changed(change), self.dev))
        print(name, found, flush=True)
        return dict(found)

    def retrained(self, name: str, change: Change) -> dict[str, Any]:
        """Return the dev score after a change and some epochs of training; zeros stay zero."""

        def work() -> dict[str, Any]:
            model = self.changed(change)
            keep_zeros(model)
            settings = Training(
                epochs=EPOCHS, learning_rate=RATE, best_by="accuracy", precision=self.precision, max_length=128
            )
            # On a processor the backward pass of the fused attention is slower than the formula.
            with sdpa_kernel(SDPBackend.MATH):
                history = fine_tune(
                    model, self.task, self.tokenizer, self.train, self.choice, settings, "cpu", False,
                    self.runs / name,
                )  # fmt: skip
            return {**self.score(model, self.dev), "share_of_zeros": sparsity(model), "history": history}

        found = kept(self.runs / f"{name}.json", self.settings, work)
        print(name, {key: value for key, value in found.items() if key != "history"}, flush=True)
        return dict(found)

    def on_choice(self, changes: Sequence[Change]) -> float:
        """Return the mean accuracy on the examples that choose, over some changes."""
        return float(np.mean([self.score(self.changed(change), self.choice)["accuracy"] for change in changes]))


def zeros(share: float, together: bool) -> Change:
    """Set a share of the weights to zero."""
    return lambda model: prune_smallest(model, share, together)


def without(heads: list[list[int]] | None = None, neurons: list[list[int]] | None = None) -> Change:
    """Keep some heads and neurons alone."""

    def change(model: BertForSequenceClassification) -> None:
        model.bert = prune_encoder(model.bert, heads, neurons)

    return change


def in_each_layer(importance: Sequence[Tensor], share: float) -> list[list[int]]:
    """Return the indices of the most important parts, the same share of each layer."""
    return [most_important([own], round(share * len(own)))[0] for own in importance]


def random_order(importance: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Return numbers that say nothing, in place of an importance."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(len(own), generator=generator) for own in importance]


def weights(study: Study) -> dict[str, Any]:
    """Prune single weights: at once, and with retraining."""
    tried = {
        name: study.on_choice([zeros(share, together) for share in SHARES[1:]])
        for name, together in (("each matrix", False), ("all together", True))
    }
    together = tried["all together"] > tried["each matrix"]
    return {
        "ranked": "all together" if together else "each matrix",
        "accuracy_on_choice": tried,
        "at_once": {str(share): study.at_once(f"zeros-{share}", zeros(share, together)) for share in SHARES},
        "retrained": {
            str(share): study.retrained(f"zeros-{share}-retrained", zeros(share, together)) for share in RETRAINED
        },
    }


def heads(study: Study, seeds: Sequence[int]) -> tuple[dict[str, Any], list[Tensor]]:
    """Remove heads, the least important first, and in random orders; return the importance that was chosen, too."""
    ways = {"as it is": study.heads, "layer by layer": per_layer(study.heads)}
    tried = {
        name: study.on_choice([without(most_important(importance, left)) for left in HEADS_LEFT])
        for name, importance in ways.items()
    }
    best = max(tried, key=lambda name: tried[name])
    orders = {"importance": ways[best]} | {f"random {seed}": random_order(study.heads, seed) for seed in seeds}
    found = {
        name: {
            str(left): study.at_once(f"heads-{name}-{left}".replace(" ", "-"), without(most_important(order, left)))
            for left in HEADS_LEFT
        }
        for name, order in orders.items()
    }
    half = without(most_important(ways[best], HEADS_LEFT[2]))
    return {
        "compared": best,
        "accuracy_on_choice": tried,
        "importance": [own.tolist() for own in study.heads],
        "at_once": found,
        "retrained": {str(HEADS_LEFT[2]): study.retrained(f"heads-{HEADS_LEFT[2]}-retrained", half)},
    }, ways[best]


def neurons(study: Study, seeds: Sequence[int]) -> dict[str, Any]:
    """Remove the same share of neurons from each layer: the least important, and random ones."""
    found: dict[str, Any] = {"at_once": {}, "retrained": {}}
    orders = {"importance": study.neurons} | {f"random {seed}": random_order(study.neurons, seed) for seed in seeds}
    for name, order in orders.items():
        found["at_once"][name] = {
            str(share): study.at_once(
                f"neurons-{name}-{share}".replace(" ", "-"), without(neurons=in_each_layer(order, share))
            )
            for share in NEURONS_LEFT
        }
    for share in NEURONS_LEFT:
        change = without(neurons=in_each_layer(study.neurons, share))
        found["retrained"][str(share)] = study.retrained(f"neurons-{share}-retrained", change)
    return found


def changes_to_time(study: Study, order: Sequence[Tensor]) -> dict[str, Change]:
    """Return the models whose speed and size are measured."""
    half_heads = most_important(order, HEADS_LEFT[2])
    return {
        "90 % of the weights zero": zeros(0.9, False),
        "half of the heads": without(half_heads),
        **{f"{share:.0%} of the neurons": without(None, in_each_layer(study.neurons, share)) for share in NEURONS_LEFT},
        "half of both": without(half_heads, in_each_layer(study.neurons, 0.5)),
    }


def size_of(model: BertForSequenceClassification) -> dict[str, int]:
    """Return the parameters, the bytes of the written weights, and these bytes when they are compressed."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        content = (Path(folder) / WEIGHTS_FILE).read_bytes()
    return {
        "parameters": count_parameters(model),
        "in_blocks": count_parameters(model.bert.encoder),
        "bytes": len(content),
        "bytes_compressed": len(zlib.compress(content, 6)),
    }


def speed_and_size(study: Study, order: Sequence[Tensor]) -> dict[str, Any]:
    """Let the models take turns over the dev sentences, and a dense product with two sparse ones."""
    models = {"whole": study.model}
    models |= {name: study.changed(change) for name, change in changes_to_time(study, order).items()}
    encodings = study.tokenizer.encode_batch([example.text for example in study.dev], max_length=128)
    turns = [encodings[start : start + BATCH] for start in range(0, len(encodings), BATCH)]

    def side(model: BertForSequenceClassification) -> Callable[[list[Any]], Any]:
        run = in_pytorch(model)
        return lambda batch: run(pack(batch))

    sides = {name: timed(side(model), len) for name, model in models.items()}
    found = compare(
        take_turns(sides, [turns[0]] * WARM_UP + turns, WARM_UP), "sentences", [(name, "whole") for name in models][1:]
    )
    print(in_words(found), flush=True)
    return {**found, "sizes": {name: size_of(model) for name, model in models.items()}}


def sparse_products(study: Study) -> dict[str, Any]:
    """Time one product of a matrix with 90 % zeros in formats of PyTorch: dense, and the rows of what is not zero."""
    model = study.changed(zeros(0.9, False))
    weight = model.bert.encoder.layers()[0].feed_forward.expand.weight.detach()  # (O, I)
    x = torch.randn(768, weight.shape[1], generator=torch.Generator().manual_seed(0))  # tokens of a batch
    formats = {"dense": weight, "sparse, CSR": weight.to_sparse_csr(), "sparse, COO": weight.to_sparse_coo()}
    expected = weight @ x.T
    for name, own in formats.items():
        torch.testing.assert_close(own @ x.T, expected, atol=1e-3, rtol=1e-4, msg=f"{name}: another product")
    sides = {name: timed(lambda _, own=own: own @ x.T, lambda _: 1.0) for name, own in formats.items()}
    laps = take_turns(sides, range(WARM_UP + 60), WARM_UP)
    found = compare(laps, "products", [(name, "dense") for name in formats][1:])
    print(in_words(found), flush=True)
    return found


def main() -> None:
    """Prune, score, time, and write ``results/compression/pruning.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    parser.add_argument("--result", default="compression/pruning", help="results/<this>.json")
    add_seeds(parser)
    add_precision(parser)
    add_runs(parser, "compression/pruning")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert"], options.seeds)
    torch.set_num_threads(1)
    study = Study(options)
    metrics: dict[str, Any] = {"weights": weights(study)}
    metrics["heads"], order = heads(study, options.seeds)
    metrics["neurons"] = neurons(study, options.seeds)
    both = without(most_important(order, HEADS_LEFT[2]), in_each_layer(study.neurons, 0.5))
    metrics["half of both"] = {
        "at_once": study.at_once("both", both),
        "retrained": study.retrained("both-retrained", both),
    }
    metrics["speed"] = kept(options.runs / "speed.json", study.settings, lambda: speed_and_size(study, order))
    metrics["products"] = kept(options.runs / "products.json", study.settings, lambda: sparse_products(study))
    record.write(
        metrics,
        data="sst2, sample" if data.is_sample("sst2") else "sst2",
        examples={"train": len(study.train), "choice": len(study.choice), "dev": len(study.dev)},
        weighed_on=min(WEIGHED_ON, len(study.train)),
        retraining=asdict(Training(epochs=EPOCHS, learning_rate=RATE, best_by="accuracy", precision=options.precision)),
    )


if __name__ == "__main__":
    main()
