"""How many steps a recurrent encoder-decoder needs to write sequences backwards, with one context vector or attention.

Tokens are random, so nothing can be guessed. All models have about as many parameters as the one with the additive
score: the others get wider states. Every batch is new; accuracy is the share of tokens at their right place in what
greedy search writes for new sequences of one length. The model with one context vector learns a second time, three
times as long. Each run is kept as it ends, so that a stopped benchmark goes on.

    python -m benchmarks.seq2seq.bottleneck --seeds 0    # six minutes a seed on a free core
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from benchmarks.command_line import add_runs, add_seeds, command_line
from benchmarks.record import Record, kept, spread
from d2lbert.config import Seq2SeqConfig
from d2lbert.data.translation import pad_ids
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.generation import greedy_search
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.seq2seq import Seq2Seq

# What a run is called -> its attention, and how many times the steps of the others it learns.
RUNS = {"none": ("none", 1), "additive": ("additive", 1), "dot": ("dot", 1), "none, longer": ("none", 3)}
PAD, BOS, EOS, FIRST, VOCABULARY = 0, 1, 2, 3, 13  # ten different tokens
HIDDEN, EMBEDDING = 64, 32
SHORTEST, LONGEST, BEYOND = 2, 14, 22
LENGTHS = (4, 10, LONGEST, BEYOND)
STEPS = 2000
LOOKS = (100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 4000, 5000, 6000)
BATCH, RATE, TESTED = 32, 5e-3, 200
CUT = 0.75  # after this part of the steps the rate is a tenth
SHOWN = [5, 9, 3, 12, 7, 7, 4, 10]  # whose alignment is kept


def configuration(attention: str, hidden_size: int = HIDDEN) -> Seq2SeqConfig:
    """Return the sizes of one model."""
    return Seq2SeqConfig(
        VOCABULARY,
        VOCABULARY,
        hidden_size,
        embedding_size=EMBEDDING,
        attention=attention,
        hidden_dropout_prob=0.0,
    )


def same_size(attention: str) -> Seq2SeqConfig:
    """Return the sizes with which a model has about as many parameters as the one with the additive score."""
    wanted = count_parameters(Seq2Seq(configuration("additive")))
    choices = [configuration(attention, hidden) for hidden in range(HIDDEN, 2 * HIDDEN, 2)]
    return min(choices, key=lambda sizes: abs(count_parameters(Seq2Seq(sizes)) - wanted))


def reversal(
    count: int, shortest: int, longest: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return sources (B, S), their mask, and targets (B, T): the source backwards between begin and end token."""
    sources = []
    for length in torch.randint(shortest, longest + 1, (count,), generator=generator).tolist():
        sources.append(torch.randint(FIRST, VOCABULARY, (length,), generator=generator).tolist())
    ids, mask = (torch.from_numpy(array) for array in pad_ids(sources))
    return ids, mask, torch.from_numpy(pad_ids([[BOS, *reversed(source), EOS] for source in sources])[0])


def accuracy(model: Seq2Seq, length: int) -> float:
    """Return the share of tokens at their right place, over new sequences of one length."""
    ids, mask, _ = reversal(TESTED, length, length, torch.Generator().manual_seed(1000 + length))
    right = 0
    for hypothesis, source in zip(greedy_search(model, ids, mask, length + 1), ids.tolist(), strict=True):
        right += sum(one == two for one, two in zip(hypothesis.ids, reversed(source), strict=False))
    return right / (TESTED * length)


def run(attention: str, seed: int, steps: int) -> dict[str, Any]:
    """Train one model and return its accuracies by length, at each look, and one alignment."""
    seed_everything(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Seq2Seq(same_size(attention))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    history = []
    for step in range(1, steps + 1):
        if step == int(CUT * steps) + 1:
            optimizer.param_groups[0]["lr"] = RATE / 10
        ids, mask, targets = reversal(BATCH, SHORTEST, LONGEST, generator)
        logits = model(ids, targets[:, :-1], mask).logits  # (B, T - 1, V)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step in LOOKS or step == steps:
            history.append({"step": step, "accuracy": {str(length): accuracy(model, length) for length in LENGTHS}})
            print(attention, seed, history[-1], flush=True)
    return {"history": history, "alignment": alignment(model)}


@torch.inference_mode()
def alignment(model: Seq2Seq) -> list[list[float]]:
    """Return where each step looks for one fixed source: (T, S), empty without attention."""
    ids = torch.tensor([SHOWN])
    found = model(ids, torch.tensor([[BOS, *reversed(SHOWN)]])).attentions
    return [] if found is None else [[round(weight, 4) for weight in row] for row in found[0].tolist()]


def main(arguments: argparse.Namespace) -> None:
    record = Record("seq2seq/bottleneck", ["torch"], arguments.seeds, arguments.out)
    metrics: dict[str, Any] = {}
    for name, (attention, times) in RUNS.items():
        steps = times * arguments.steps
        settings = {"steps": steps, "rate": RATE, "batch": BATCH, "lengths": list(LENGTHS)}
        found = []
        for seed in arguments.seeds:
            path = arguments.runs / f"{name.replace(', ', '-')}-{seed}.json"
            found.append(kept(path, settings, partial(run, attention, seed, steps)))
        curve = []
        for looks in zip(*(one["history"] for one in found), strict=True):
            by_length = {
                length: spread([look["accuracy"][length] for look in looks]) for length in looks[0]["accuracy"]
            }
            curve.append({"step": looks[0]["step"], "accuracy": by_length})
        sizes = same_size(attention)
        size = {"hidden_size": sizes.hidden_size, "parameters": count_parameters(Seq2Seq(sizes))}
        metrics[name] = {**size, "steps": steps, "curve": curve, "alignment": found[0]["alignment"]}
    training = {"steps": arguments.steps, "batch": BATCH, "rate": RATE, "rate_is_a_tenth_after": CUT}
    lengths = {"trained_lengths": [SHORTEST, LONGEST], "tested": TESTED}
    record.write(metrics, training=training, source=SHOWN, embedding_size=EMBEDDING, **lengths)


if __name__ == "__main__":
    parser = command_line(__doc__)
    add_seeds(parser)
    add_runs(parser, "seq2seq/bottleneck")
    parser.add_argument("--steps", type=int, default=STEPS, help="of training")
    parser.add_argument("--out", type=Path, help="where to write instead, for a run that only tries")
    main(parser.parse_args())
