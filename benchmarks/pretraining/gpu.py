"""How much of a GPU does pretraining use? BERT-base and -large, rows of 128 and 512 tokens, beside ``transformers``.

*Model FLOP utilisation* is the arithmetic that the model needs for the tokens that it read, over what the device could
have done in that time (Chowdhery et al. 2022, appendix B). The device's peak is measured here: a large product of
matrices in bfloat16. All rows are full, the tokens random: the time does not depend on what they are. Sides: ours,
ours with compiled blocks, ``transformers`` with its fused attention, and compiled; in bfloat16 with float32 weights,
fused AdamW, clipping and dropout. The sides take turns, in blocks of steps.

    python -m benchmarks.pretraining.gpu                                      # on a GPU, ten minutes
    python -m benchmarks.pretraining.gpu --sizes tiny --rows 4 --blocks 1     # to try it out on a processor
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

from benchmarks.command_line import command_line
from benchmarks.pretraining_sides import full_rows, models, optimizer_of, our_loss, step, their_loss
from benchmarks.record import Record
from benchmarks.timing import Side, compare, in_words, take_turns, timed
from d2lbert.config import PRESETS, BertConfig
from d2lbert.data.pretraining.batches import PretrainingBatch
from d2lbert.torch.runtime import autocast, best_device, compile_blocks

VOCAB_SIZE = 30522
MASKED = 0.15
ROWS = {128: 256, 512: 64}  # of a batch, by their length
STEPS = 10  # of a block
TOLERANCE = 1e-3  # of the losses before training, without dropout
PAIRS = (("ours", "transformers"), ("ours, compiled", "transformers, compiled"))


def random_batch(rows: int, length: int, random: np.random.Generator) -> PretrainingBatch:
    """Return full rows of random tokens, some of which are asked for."""
    ids = random.integers(1000, VOCAB_SIZE, size=(rows, length))
    places = np.sort(random.permutation(rows * length)[: round(MASKED * rows * length)])
    targets = ids.reshape(-1)[places].copy()
    ids.reshape(-1)[places] = 103  # [MASK]
    return PretrainingBatch(full_rows(ids), places, targets, random.integers(2, size=rows))


def operations_per_token(config: BertConfig, length: int) -> float:
    """Return the floating-point operations of a training step for each token: three times those of the forward pass.

    A block needs 24 D^2 for its matrices and 4 L D for attention; the head 2 V D + 2 D^2 at each masked token. That we
    leave out of the last block what nobody reads does not lower the count.
    """
    width = config.hidden_size
    block = 8 * width**2 + 4 * width * config.intermediate_size + 4 * length * width
    head = MASKED * (2 * config.vocab_size * width + 2 * width**2)
    return 3.0 * (config.num_hidden_layers * block + head)


def wait(device: torch.device) -> None:
    """Wait until a GPU has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def measured_peak(device: torch.device, size: int) -> float:
    """Return the operations a second of a product of square matrices in bfloat16, the best of several."""
    matrix = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    best = 0.0
    for _ in range(10):
        wait(device)
        began = time.perf_counter()
        for _ in range(5):
            matrix @ matrix
        wait(device)
        best = max(best, 5 * 2.0 * size**3 / (time.perf_counter() - began))
    return best


def models_of_sides(name: str, device: torch.device) -> dict[str, tuple[Any, Any]]:
    """Return each side's model, with the function that gives its loss; all have the same weights."""
    found: dict[str, tuple[Any, Any]] = {}
    for suffix in ("", ", compiled"):
        reference, ours = models(name, VOCAB_SIZE)
        if suffix:
            compile_blocks(ours)
            reference.compile(dynamic=False)
        found[f"ours{suffix}"] = (ours.to(device), our_loss)
        found[f"transformers{suffix}"] = (reference.to(device), their_loss)
    return found


def measure(name: str, length: int, rows: int, peak: float, options: argparse.Namespace) -> dict[str, Any]:
    """Return tokens a second and utilisation of every side, for one size of model and one length."""
    device, random = best_device(), np.random.default_rng(0)
    batches = [random_batch(rows, length, random) for _ in range(STEPS)]
    first: dict[str, float] = {}
    sides: dict[str, Side] = {}
    for title, (model, loss) in models_of_sides(name, device).items():
        with torch.no_grad():
            first[title] = float(loss(model.eval(), batches[0]))
        sides[title] = block_of_steps(model.train(), loss, batches, device)
    if max(first.values()) - min(first.values()) > TOLERANCE:
        raise SystemExit(f"{name}: the losses are {first}; the sides do not compute the same")
    laps = take_turns(sides, range(options.blocks + 1), warm_up=1)  # the first one compiles, too
    found, needed = compare(laps, "tokens", PAIRS), operations_per_token(PRESETS[name], length)
    return {
        "rows": rows,
        "length": length,
        "operations_per_token": needed,
        **found,
        "utilisation": {side: one["median"] * needed / peak for side, one in found["tokens_per_second"].items()},
    }


def block_of_steps(model: Any, loss: Any, batches: list[PretrainingBatch], device: torch.device) -> Side:
    """Return the side that takes a step on every batch, to the end of what the GPU was given."""
    optimizer, tokens = optimizer_of(model), sum(batch.rows.num_tokens for batch in batches)

    def in_half(model: Any, batch: PretrainingBatch) -> torch.Tensor:
        with autocast(device, "bfloat16"):
            return loss(model, batch)

    def steps(turn: int) -> int:
        for batch in batches:
            step(model, optimizer, in_half, batch)
        wait(device)
        return tokens

    return timed(steps)


def main() -> None:
    """Measure and write ``results/pretraining/gpu.json``; on a processor, print alone."""
    parser = command_line(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["base", "large"], choices=list(PRESETS))
    parser.add_argument("--rows", type=int, help="of a batch, whatever their length")
    parser.add_argument("--blocks", type=int, default=5)
    options = parser.parse_args()
    record = Record("pretraining/gpu", ["torch", "transformers", "d2lbert"], seeds=[0])
    device = best_device()
    peak = measured_peak(device, 8192 if device.type == "cuda" else 512)
    metrics: dict[str, Any] = {"measured_peak": peak}
    for name in options.sizes:
        for length, rows in ROWS.items():
            found = measure(name, length, options.rows or rows, peak, options)
            metrics[f"{name}, {length} tokens"] = found
            print(f"{name}, {length} tokens, {in_words(found)}")
            print("    of the measured peak:", {side: f"{share:.0%}" for side, share in found["utilisation"].items()})
    if device.type == "cuda":
        record.write(metrics, steps_of_a_block=STEPS)


if __name__ == "__main__":
    main()
