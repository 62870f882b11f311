"""Distil d2lbert-tiny's two layers into one, as DistilBERT was made, with each of its three losses left out once.

The student begins as a part of the teacher with the first of its layers, which alone names more pieces than the second,
or with weights that have learned nothing. It reads Wikipedia with hidden pieces and minimizes the teacher's softened
probabilities at these places, the words that stood there, and the cosine of the last hidden states; or some of the
three. All students read the same texts in the same order. Scored on held-out documents, beside the teacher: the loss of
the hidden pieces, and how many are named. The rate was not tuned. The teacher itself has learned from the same training
documents, far longer. What is finished is kept, and the file is written after each seed: the same command goes on.

    python -m benchmarks.compression.masked_words --precision bfloat16    # needs D2LBERT_DATA; an hour on one core
    python -m benchmarks.compression.masked_words --steps 5 --seeds 0 --runs FOLDER --result compression/trial
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.pretraining.gaps import corpus
from benchmarks.record import Record, kept, spread
from benchmarks.students import learn
from d2lbert.data.pretraining.batches import BEGINNING, PretrainingBatch, PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.shards import TokenShards
from d2lbert.torch.compression import DISTILBERT_WEIGHTS, copy_layers, masked_word_losses
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import autocast, seed_everything, to_tensors

TEACHER = "d2lbert-tiny"
LAYER = 0
LEARNING_RATE, BATCH_SIZE, MAX_LENGTH, HELD_OUT = 1e-3, 32, 128, 100


def without(name: str) -> dict[str, float]:
    """Return DistilBERT's weights with one of the losses left out."""
    return {loss: weight for loss, weight in DISTILBERT_WEIGHTS.items() if loss != name}


# Name of a student -> whether it begins as a part of the teacher, and the weights of its losses.
STUDENTS: Mapping[str, tuple[bool, Mapping[str, float]]] = {
    "all three losses": (True, DISTILBERT_WEIGHTS),
    "no soft targets": (True, without("soft")),
    "no masked words": (True, without("masked")),
    "no cosine": (True, without("cosine")),
    "masked words alone": (True, {"masked": 1.0}),
    "all three, new weights": (False, DISTILBERT_WEIGHTS),
    "masked words alone, new weights": (False, {"masked": 1.0}),
}


def one_layer(teacher: BertForPretraining, copied: bool, layer: int = LAYER) -> BertForPretraining:
    """Return a student of one layer: with the teacher's embeddings, heads and a layer of it, or with new weights."""
    student = BertForPretraining(dataclasses.replace(teacher.config, num_hidden_layers=1))
    if copied:
        part = copy_layers(teacher.bert, [layer]).state_dict()
        state = teacher.state_dict() | {f"bert.{name}": own for name, own in part.items()}
        student.load_state_dict({name: state[name] for name in student.state_dict()})
    return student


class Lesson:
    """What the teacher says of a batch, and how a student is held against it.

    Args:
        weights: of the losses, by their names.
        precision: of the forward passes.
    """

    def __init__(
        self, teacher: BertForPretraining, student: BertForPretraining, weights: Mapping[str, float], precision: str
    ) -> None:
        self.teacher, self.student, self.weights, self.precision = teacher, student, weights, precision

    def loss(self, batch: PretrainingBatch) -> Tensor:
        """Return the weighted sum of the losses, a scalar."""
        rows = to_tensors(batch.rows)
        positions, targets = torch.from_numpy(batch.masked_positions), torch.from_numpy(batch.masked_ids)
        tokens = torch.from_numpy(batch.rows.mask.reshape(-1)) > 0  # (B L,), False for padding
        with autocast("cpu", self.precision):
            with torch.no_grad():
                wanted = self.teacher.bert(rows).sequence.flatten(0, 1)  # (B L, D)
                wanted_logits = self.teacher.token_logits(wanted[positions])  # (P, V)
            found = self.student.bert(rows).sequence.flatten(0, 1)
            logits = self.student.token_logits(found[positions])
        losses = masked_word_losses(logits, wanted_logits, targets, found[tokens], wanted[tokens])
        return torch.stack([weight * losses[name] for name, weight in self.weights.items()]).sum()


@torch.inference_mode()
def scores(model: BertForPretraining, held_out: PretrainingData) -> dict[str, float]:
    """Return the mean loss in nats at the hidden pieces of held-out documents, the share named, and how many."""
    losses, hits = [], []
    for batch, _ in itertools.islice(held_out.epoch(0), HELD_OUT):
        asked = batch.masked_ids >= 0
        positions, truth = batch.masked_positions[asked], torch.from_numpy(batch.masked_ids[asked])
        found = model.objectives(to_tensors(batch.rows), torch.from_numpy(positions))["masked"].log_softmax(-1)
        losses.append(-found.gather(1, truth[:, None])[:, 0].numpy())
        hits.append((found.argmax(-1) == truth).numpy())
    hit = np.concatenate(hits)
    return {"loss": float(np.concatenate(losses).mean()), "accuracy": float(hit.mean()), "tokens": len(hit)}


def settings_of(seed: int) -> PretrainingSettings:
    """Return how the texts are made."""
    return PretrainingSettings(max_length=MAX_LENGTH, batch_size=BATCH_SIZE, seed=seed)


def taught(name: str, seed: int, shards: TokenShards, options: argparse.Namespace) -> dict[str, Any]:
    """Train one student with one seed; return its scores before and after."""
    seed_everything(seed)
    copied, weights = STUDENTS[name]
    teacher = BertForPretraining.from_pretrained(TEACHER).eval()
    student = one_layer(teacher, copied).train()
    held_out = PretrainingData(shards, settings_of(0), "dev")
    before = scores(student.eval(), held_out)
    lesson = Lesson(teacher, student.train(), weights, options.precision)
    learn(student, _batches(shards, seed), lesson.loss, options.steps, LEARNING_RATE)
    return {"before": before, "after": scores(student.eval(), held_out)}


def _batches(shards: TokenShards, seed: int) -> Iterator[PretrainingBatch]:
    return (batch for batch, _ in PretrainingData(shards, settings_of(seed)).batches(BEGINNING))


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return loss and accuracy after training over the seeds, and before it (of new weights: of the first seed)."""
    after = {score: spread([run["after"][score] for run in runs]) for score in ("loss", "accuracy")}
    return {"before": runs[0]["before"], **after}


def main() -> None:
    """Train what is not there yet and write ``results/compression/masked_words.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--steps", type=int, default=500, help=f"of {BATCH_SIZE} pairs of texts")
    parser.add_argument("--result", default="compression/masked_words", help="results/<this>.json")
    add_seeds(parser, (0, 1))
    add_precision(parser)
    add_runs(parser, "compression/masked_words")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert"], data_sets=["wikipedia_en"], samples_do=False)
    torch.set_num_threads(1)
    shards = corpus(options.runs / "corpus")
    settings = {"steps": options.steps, "precision": options.precision, "corpus": shards.digest()}
    teacher = BertForPretraining.from_pretrained(TEACHER).eval()
    held_out = PretrainingData(shards, settings_of(0), "dev")
    own = scores(teacher, held_out)
    layers = range(teacher.config.num_hidden_layers)
    starts = {str(layer): scores(one_layer(teacher, True, layer).eval(), held_out) for layer in layers}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in STUDENTS}
    for seed in options.seeds:
        for name, runs in found.items():
            path = options.runs / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}.json"
            runs.append(kept(path, settings, partial(taught, name, seed, shards, options)))
            print(name, seed, runs[-1], flush=True)
        record.seeds.append(seed)
        record.write(
            {"teacher": own, "starts": starts, "students": {name: summary(runs) for name, runs in found.items()}},
            teacher=TEACHER,
            layer=LAYER,
            parameters={"teacher": count_parameters(teacher), "student": count_parameters(one_layer(teacher, True))},
            weights=dict(DISTILBERT_WEIGHTS),
            learning_rate=LEARNING_RATE,
            pairs_per_step=BATCH_SIZE,
            held_out_batches=HELD_OUT,
            max_length=MAX_LENGTH,
            data="wikipedia_en",
            **settings,
        )


if __name__ == "__main__":
    main()
