"""How much of a GPU does pretraining use? BERT-base and -large, rows of 128 and 512 tokens, beside ``transformers``.

*Model FLOP utilisation* is the arithmetic that the model needs for the tokens that it read, over what the device could
have done in that time (Chowdhery et al. 2022, appendix B). It is stated of two peaks: of the nominal one, which the
maker of the device gives, and of a measured one, a large product of matrices in bfloat16. The tokens are random: the
time does not depend on what they are. Training is in bfloat16 with float32 weights, fused AdamW, clipping and dropout.
The sides take turns, in blocks of steps.

First all rows are full, and nobody needs a mask. Sides: ours, ours with compiled blocks, ``transformers`` with its
fused attention, and compiled. Then the texts are of every length up to that of a row: ours in packed rows, under a
mask, and the same with compiled blocks; ours in one row with attention for variable lengths
(``benchmarks/variable_length.py``), which needs neither mask nor padding; and ``transformers`` in padded rows. That
kernel has no dropout on the weights of attention, so here nobody has it.

    python -m benchmarks.pretraining.gpu                                      # on a GPU, ten minutes
    python -m benchmarks.pretraining.gpu --sizes tiny --rows 4 --blocks 1     # to try it out on a processor
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.command_line import command_line
from benchmarks.pretraining_sides import (
    full_rows,
    loss_of_rows,
    models,
    optimizer_of,
    our_loss,
    step,
    their_loss,
)
from benchmarks.record import Record
from benchmarks.timing import Side, compare, in_words, take_turns, timed
from benchmarks.variable_length import use_variable_lengths, variable_length_loss
from d2lbert.config import PRESETS, BertConfig
from d2lbert.data.batching import Batch, pack, pad
from d2lbert.data.pretraining.batches import PretrainingBatch
from d2lbert.text.encoding import Encoding
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import autocast, best_device, compile_blocks, to_tensors

VOCAB_SIZE = 30522
MASK_ID = 103  # of [MASK]
MASKED = 0.15
ROWS = {128: 256, 512: 64}  # of a batch, by their length
STEPS = 10  # of a block
SHORTEST = 16  # tokens of a text, where they are of every length
TOLERANCE = 1e-3  # of the losses before training, without dropout
HALF_TOLERANCE = 3e-2  # the same in bfloat16
NORM_TOLERANCE = 0.5  # of the gradients of the first batch in bfloat16, with dropout; relative
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


def random_batch(rows: int, length: int, random: np.random.Generator) -> PretrainingBatch:
    """Return full rows of random tokens, some of which are asked for."""
    ids = random.integers(1000, VOCAB_SIZE, size=(rows, length))
    places = np.sort(random.permutation(rows * length)[: round(MASKED * rows * length)])
    targets = ids.reshape(-1)[places].copy()
    ids.reshape(-1)[places] = MASK_ID
    return PretrainingBatch(full_rows(ids), places, targets, random.integers(2, size=rows))


@dataclass(frozen=True)
class RandomTexts:
    """Texts of random tokens, some of which are asked for.

    Fields:
        encodings: the texts, with [MASK] where a token is asked for.
        masked: (P, 2), the text and the place in it of each such token.
        targets: (P,), what stood there.
        next_labels: (N,), 0 or 1.
    """

    encodings: list[Encoding]
    masked: np.ndarray
    targets: np.ndarray
    next_labels: np.ndarray

    @classmethod
    def draw(cls, tokens: int, longest: int, random: np.random.Generator) -> RandomTexts:
        """Return texts of ``SHORTEST`` to ``longest`` tokens, all lengths equally often, until there are ``tokens``."""
        lengths: list[int] = []
        while sum(lengths) < tokens:
            lengths.append(int(random.integers(min(SHORTEST, longest), longest + 1)))
        encodings, masked, targets = [], [], []
        for text, length in enumerate(lengths):
            ids = random.integers(1000, VOCAB_SIZE, size=length)
            places = np.sort(random.permutation(length)[: max(1, round(MASKED * length))])
            targets.append(ids[places].copy())
            ids[places] = MASK_ID
            masked.append(np.stack([np.full(len(places), text), places], axis=1))
            halves = [int(place > length // 2) for place in range(length)]
            encodings.append(Encoding(ids.tolist(), halves, [], [], []))
        return cls(encodings, np.concatenate(masked), np.concatenate(targets), random.integers(2, size=len(lengths)))

    def batch(self, rows: Batch) -> PretrainingBatch:
        """Return input and targets, with the texts in the given rows."""
        row, column = rows.starts[self.masked[:, 0]].T
        places = row * rows.token_ids.shape[1] + column + self.masked[:, 1]
        return PretrainingBatch(rows, places, self.targets, self.next_labels)


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


def models_of_sides(name: str, device: torch.device) -> dict[str, tuple[Any, Any]]:
    """Return each side's model, with the function that gives its loss; all have the same weights."""
    found: dict[str, tuple[Any, Any]] = {}
    for suffix in ("", COMPILED):
        reference, ours = models(name, VOCAB_SIZE)
        if suffix:
            for block in ours.bert.encoder.layers():
                block.compile(dynamic=False)  # all batches have one size
            reference.compile(dynamic=False)
        found[f"ours{suffix}"] = (ours.to(device), our_full_loss)
        found[f"transformers{suffix}"] = (reference.to(device), their_full_loss)
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
    sides = {title: (model, loss, batches) for title, (model, loss) in models_of_sides(name, device).items()}
    found = race(sides, PAIRS, operations_per_token(PRESETS[name], length), peaks, options.blocks)
    return {"rows": rows, "length": length, **found}


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


def main() -> None:
    """Measure and write ``results/pretraining/gpu.json`` as far as it is done; on a processor, print alone."""
    parser = command_line(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["base", "large"], choices=list(PRESETS))
    parser.add_argument("--rows", type=int, help="of a batch, whatever their length")
    parser.add_argument("--blocks", type=int, default=5)
    options = parser.parse_args()
    record = Record("pretraining/gpu", ["torch", "transformers", "d2lbert"], seeds=[0])
    device = best_device()
    peaks = Peaks.of(device)
    metrics: dict[str, Any] = {"measured_peak": peaks.measured, "nominal_peak": peaks.nominal}
    for name in options.sizes:
        for length, rows in ROWS.items():
            for title, work in (("", measure), ("texts of up to ", measure_lengths)):
                found = work(name, length, options.rows or rows, peaks, options)
                metrics[f"{name}, {title}{length} tokens"] = found
                print(f"{name}, {title}{length} tokens, {in_words(found)}")
                for peak in ("measured", "nominal"):
                    shares = found[f"utilisation_of_{peak}"] or {}
                    told = ", ".join(f"{side} {share:.0%}" for side, share in shares.items()) or "not known"
                    print(f"    of the {peak} peak: {told}", flush=True)
                if device.type == "cuda":
                    record.write(metrics, steps_of_a_block=STEPS)
                clear()


if __name__ == "__main__":
    main()
