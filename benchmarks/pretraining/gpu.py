"""How much of a GPU does pretraining use? BERT-base and -large, rows of 128 and 512 tokens, beside ``transformers``.

*Model FLOP utilisation* is the arithmetic that the model needs for the tokens that it read, over what the device could
have done in that time (Chowdhery et al. 2022, appendix B). It is stated of two peaks: of the nominal one, which the
maker of the device gives, and of a measured one, a large product of matrices in bfloat16. The tokens are random: the
time does not depend on what they are. Training is in bfloat16 with float32 weights, fused AdamW, clipping and dropout.
The sides take turns, in blocks of steps.

First all rows are full, and nobody needs a mask; with ``--masked`` everybody has one. Sides: ours, ours with compiled
blocks, ``transformers`` with its fused attention, and compiled. Then the texts are of every length up to that of a row:
ours in packed rows, under a mask, and the same with compiled blocks; ours in one row with attention for variable
lengths (``benchmarks/variable_length.py``), which needs neither mask nor padding; and ``transformers`` in padded rows.
That kernel has no dropout on the weights of attention, so here nobody has it. A batch that does not fit into the GPU is
halved. What an earlier call measured on the same device stays in the result, with its own command, date and commit; of
another device than the stored result's, numbers go to ``runs/pretraining/gpu.json``. Full rows are compiled for their
one size, packed ones for any.

    python -m benchmarks.pretraining.gpu                                      # on a GPU, half an hour
    python -m benchmarks.pretraining.gpu --sizes base --masked
    python -m benchmarks.pretraining.gpu --sizes tiny --rows 4 --blocks 1     # to try it out on a processor
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command_line import command_line
from benchmarks.machine import Watch, quiet
from benchmarks.pretraining_sides import (
    loss_of_rows,
    models,
    optimizer_of,
    our_loss,
    step,
    their_loss,
)
from benchmarks.random_texts import MASKED, VOCAB_SIZE, RandomTexts, random_batch
from benchmarks.record import ROOT, Record
from benchmarks.timing import Side, compare, in_words, take_turns, timed
from benchmarks.variable_length import use_variable_lengths, variable_length_loss
from d2lbert.config import PRESETS, BertConfig
from d2lbert.data.batching import pack, pad
from d2lbert.data.pretraining.batches import PretrainingBatch
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import autocast, best_device, compile_blocks, to_tensors

ROWS = {128: 256, 512: 64}  # of a batch, by their length
STEPS = 10  # of a block
TOLERANCE = 1e-3  # of the losses before training, without dropout
HALF_TOLERANCE = 3e-2  # the same in bfloat16
# Of the gradients of the first batch in bfloat16, relative. Dropout alone changes them by a tenth.
NORM_TOLERANCE = 0.5
COMPILED = ", compiled"
PAIRS = (("ours", "transformers"), (f"ours{COMPILED}", f"transformers{COMPILED}"))
PACKED, VARIABLE, PADDED = "ours, packed", "ours, variable lengths", "transformers, padded"
PAIRS_OF_LENGTHS = ((PACKED, PADDED), (VARIABLE, PADDED), (VARIABLE, PACKED), (f"{PACKED}{COMPILED}", PADDED))
# Operations a second of dense products in bfloat16, by the name that CUDA gives a device: NVIDIA's data sheets, whose
# numbers "with sparsity" are twice as high. A V100 or a T4 has no units for bfloat16, and so no such peak.
NOMINAL_PEAKS = {
    "NVIDIA A100-PCIE-40GB": 312e12,
    "NVIDIA A100 80GB PCIe": 312e12,
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA H100 80GB HBM3": 989e12,  # SXM
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H200": 989e12,
    "NVIDIA L4": 121e12,
}


@dataclass(frozen=True)
class Peaks:
    """Operations a second that a device can do: dense products of matrices in bfloat16.

    Fields:
        measured: the best of several large products.
        nominal: what its maker states; None for a device that ``NOMINAL_PEAKS`` does not name.
    """

    measured: float
    nominal: float | None

    @classmethod
    def of(cls, device: torch.device) -> Peaks:
        """Measure a device, and look its name up."""
        if device.type != "cuda":
            return cls(measured_peak(device, 512), None)
        return cls(measured_peak(device, 8192), NOMINAL_PEAKS.get(torch.cuda.get_device_name(device)))

    def shares(self, operations: Mapping[str, float]) -> dict[str, dict[str, float] | None]:
        """Return the shares of both peaks that each side reaches.

        Args:
            operations: of each side, a second.
        """
        peaks = {"measured": self.measured, "nominal": self.nominal}
        return {
            f"utilisation_of_{name}": None if peak is None else {side: done / peak for side, done in operations.items()}
            for name, peak in peaks.items()
        }


def operations_per_token(config: BertConfig, length: float) -> float:
    """Return the floating-point operations of a training step for each token: three times those of the forward pass.

    A block needs 24 D^2 for its matrices and 4 L D for attention; the head 2 V D + 2 D^2 at each masked token. That we
    leave out of the last block what nobody reads does not lower the count.

    Args:
        length: L, how many tokens each token attends to, on average.
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


def models_of_sides(name: str, masked: bool, device: torch.device) -> dict[str, tuple[Any, Any]]:
    """Return each side's model, with the function that gives its loss; all have the same weights."""
    our, their = (our_loss, their_loss) if masked else (our_full_loss, their_full_loss)
    found: dict[str, tuple[Any, Any]] = {}
    for suffix in ("", COMPILED):
        reference, ours = models(name, VOCAB_SIZE)
        if suffix:
            for block in ours.bert.encoder.layers():
                block.compile(dynamic=False)  # all batches have one size
            reference.compile(dynamic=False)
        found[f"ours{suffix}"] = (ours.to(device), our)
        found[f"transformers{suffix}"] = (reference.to(device), their)
    return found


def our_full_loss(model: BertForPretraining, batch: PretrainingBatch) -> torch.Tensor:
    """Return our loss of a batch of full rows."""
    rows = to_tensors(batch.rows, model.decoder_bias.device)
    return loss_of_rows(model, batch, dataclasses.replace(rows, mask=None))


def their_full_loss(model: Any, batch: PretrainingBatch) -> torch.Tensor:
    """Return the reference's loss of a batch of full rows."""
    return their_loss(model, batch, masked=False)


def measure(name: str, length: int, rows: int, peaks: Peaks, options: argparse.Namespace) -> dict[str, Any]:
    """Return tokens a second and utilisation of every side, for one size of model and one length."""
    device, random = best_device(), np.random.default_rng(0)
    batches = [random_batch(rows, length, random) for _ in range(STEPS)]
    sides = {
        title: (model, loss, batches) for title, (model, loss) in models_of_sides(name, options.masked, device).items()
    }
    speeds = race(sides, PAIRS, operations_per_token(PRESETS[name], length), peaks, options.blocks)
    return {"rows": rows, "length": length, **speeds}


def measure_lengths(name: str, length: int, rows: int, peaks: Peaks, options: argparse.Namespace) -> dict[str, Any]:
    """Return the same for texts of every length up to ``length``, as many tokens as would fill the rows."""
    device, random = best_device(), np.random.default_rng(0)
    drawn = [RandomTexts.draw(rows * length, length, random) for _ in range(STEPS)]
    reference, packed = models(name, VOCAB_SIZE, attention_dropout=0.0)
    one_row, compiled = (models(name, VOCAB_SIZE, attention_dropout=0.0)[1] for _ in range(2))
    use_variable_lengths(one_row)
    compile_blocks(compiled)
    in_packed_rows = [texts.batch(pack(texts.encodings, length)) for texts in drawn]
    sides = {
        PACKED: (packed.to(device), our_loss, in_packed_rows),
        f"{PACKED}{COMPILED}": (compiled.to(device), our_loss, in_packed_rows),
        VARIABLE: (
            one_row.to(device),
            variable_length_loss,
            [texts.batch(pack(texts.encodings, sum(map(len, texts.encodings)))) for texts in drawn],
        ),
        PADDED: (reference.to(device), their_loss, [texts.batch(pad(texts.encodings)) for texts in drawn]),
    }
    lengths = np.array([len(encoding.ids) for texts in drawn for encoding in texts.encodings])
    seen = float((lengths**2).sum() / lengths.sum())  # tokens that a token attends to
    needed = operations_per_token(PRESETS[name], seen)
    found = race(sides, PAIRS_OF_LENGTHS, needed, peaks, options.blocks)
    real = {title: sum(batch.rows.num_tokens for batch in batches) for title, (_, _, batches) in sides.items()}
    places = {title: sum(batch.rows.mask.size for batch in batches) for title, (_, _, batches) in sides.items()}
    return {
        "rows": rows,
        "longest": length,
        "mean_length": float(lengths.mean()),
        "padding": {title: 1 - real[title] / places[title] for title in sides},
        **found,
    }


def race(
    sides: dict[str, tuple[Any, Any, list[PretrainingBatch]]],
    pairs: Sequence[tuple[str, str]],
    needed: float,
    peaks: Peaks,
    blocks: int,
) -> dict[str, Any]:
    """Let all sides take steps in turn; return tokens a second, ratios and utilisation.

    Args:
        sides: by name, the model, the function that gives its loss, and the batches.
        pairs: of sides whose ratio is reported.
        needed: operations for a token.
        peaks: of the device.
        blocks: of steps, for each side.

    Raises:
        SystemExit: before training the losses or the gradients differ.
    """
    refuse_unequal(sides)
    device = best_device()
    runners = {
        title: block_of_steps(model.train(), loss, batches, device) for title, (model, loss, batches) in sides.items()
    }
    laps = take_turns(runners, range(blocks + 1), warm_up=1)  # the first one compiles, too
    found = compare(laps, "tokens", pairs)
    speeds = found["tokens_per_second"].items()
    return {
        "operations_per_token": needed,
        **found,
        **peaks.shares({side: one["median"] * needed for side, one in speeds}),
    }


def refuse_unequal(sides: dict[str, tuple[Any, Any, list[PretrainingBatch]]]) -> None:
    """Stop unless the sides compute the same from the first batch: losses without dropout, and gradients with it.

    What is compiled is compiled once, for training: there the gradients alone are compared.

    Raises:
        SystemExit: they do not.
    """
    device = best_device()
    losses: dict[str, dict[str, float]] = {"float32": {}, "bfloat16": {}}
    norms = {}
    for title, (model, loss, batches) in sides.items():
        for precision, found in losses.items():
            if not title.endswith(COMPILED):
                with torch.no_grad(), autocast(device, precision):
                    found[title] = float(loss(model.eval(), batches[0]))
        with autocast(device, "bfloat16"):
            first = loss(model.train(), batches[0])
        first.backward()
        norms[title] = float(
            torch.nn.utils.get_total_norm(one.grad for one in model.parameters() if one.grad is not None)
        )
        model.zero_grad()
    for precision, allowed in (("float32", TOLERANCE), ("bfloat16", HALF_TOLERANCE)):
        if max(losses[precision].values()) - min(losses[precision].values()) > allowed:
            raise SystemExit(f"the losses in {precision} are {losses[precision]}: the sides do not compute the same")
    if max(norms.values()) / min(norms.values()) - 1 > NORM_TOLERANCE:
        raise SystemExit(f"the norms of the gradients are {norms}: the sides do not compute the same")


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


def clear() -> None:
    """Give the memory of the models before back: a GPU does not hold those of every row of the table."""
    torch.compiler.reset()
    gc.collect()
    torch.cuda.empty_cache()


def with_rows_that_fit(work: Callable[[int], dict[str, Any]], rows: int) -> dict[str, Any]:
    """Return what ``work(rows)`` returns, with half the rows as often as they do not fit into the GPU."""
    while True:
        try:
            return work(rows)
        except torch.OutOfMemoryError:
            if rows == 1:
                raise
        rows //= 2  # here the error is gone, and with it what it held in memory
        clear()
        print(f"that does not fit into this GPU: again, with {rows} rows", flush=True)


def earlier(stored: Path, other: Path, accelerator: str) -> tuple[Path, dict[str, Any]]:
    """Return where results of this accelerator belong, and what earlier calls have measured there.

    Args:
        stored: the result that the book shows, of whatever accelerator it is.
        other: for the results of others.
    """
    path = stored if _accelerator_of(stored) in ("", accelerator) else other
    kept = json.loads(path.read_text(encoding="utf-8"))["metrics"] if _accelerator_of(path) == accelerator else {}
    return path, kept


def _accelerator_of(path: Path) -> str:
    return str(json.loads(path.read_text(encoding="utf-8"))["device"]["accelerator"]) if path.is_file() else ""


def tell(title: str, found: dict[str, Any]) -> None:
    """Print speeds, ratios and utilisation."""
    print(f"{title}, {in_words(found)}")
    for peak in ("measured", "nominal"):
        shares = found[f"utilisation_of_{peak}"] or {}
        told = ", ".join(f"{side} {share:.0%}" for side, share in shares.items()) or "not known"
        print(f"    of the {peak} peak: {told}", flush=True)


def main() -> None:
    """Measure and write ``results/pretraining/gpu.json`` as far as it is done; on a processor, print alone."""
    parser = command_line(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["base", "large"], choices=list(PRESETS))
    parser.add_argument("--rows", type=int, help="of a batch, whatever their length")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--masked", action="store_true", help="full rows alone, with a mask, which they do not need")
    options = parser.parse_args()
    record = Record("pretraining/gpu", ["torch", "transformers", "d2lbert"], seeds=[0])
    stamp, device = record.stamp(), best_device()
    peaks = Peaks.of(device)
    other = ROOT / "runs" / "pretraining" / "gpu.json"
    record.path, metrics = earlier(record.path, other, stamp["device"]["accelerator"])
    metrics |= {"measured_peak": peaks.measured, "nominal_peak": peaks.nominal}
    kinds = [("", ", with a mask" if options.masked else "", measure)]
    kinds += [] if options.masked else [("texts of up to ", "", measure_lengths)]
    for name, length, (before, after, work) in itertools.product(options.sizes, ROWS, kinds):
        watch = Watch()
        measured = functools.partial(work, name, length, peaks=peaks, options=options)
        found = with_rows_that_fit(measured, options.rows or ROWS[length])
        shares = watch.shares()
        title = f"{name}, {before}{length} tokens{after}"
        run = {key: stamp[key] for key in ("command", "date", "commit")}
        metrics[title] = {**found, **run, "measured_peak": peaks.measured, "taken_by": shares, "quiet": quiet(shares)}
        tell(title, found)
        if device.type == "cuda":
            record.write(metrics, steps_of_a_block=STEPS)
        clear()


if __name__ == "__main__":
    main()
