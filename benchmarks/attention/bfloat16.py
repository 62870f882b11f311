"""Train attention in bfloat16 on a processor: PyTorch's fused kernel as it is, and computing in float32.

Both sides get queries, keys and values in bfloat16, where texts of 30 tokens share rows, and take the slopes of the
sum of the squares of what comes out, without dropout, in one thread. The second is
:func:`d2lbert.torch.attention.fused_attention`. They take turns in one process. The slopes of both are compared with
the exact ones, in float64.

    python -m benchmarks.attention.bfloat16    # a minute on one core
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.command_line import command_line
from benchmarks.record import Record
from benchmarks.timing import compare, in_words, take_turns, timed
from d2lbert.torch.attention import fused_attention, same_sequence

HEADS, TOKENS, TEXT = 12, 1024, 30  # tokens of a batch, and of a text
SHAPES = ((32, 32), (128, 32), (256, 32), (128, 64), (512, 64))  # length of a row, size of a head
Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def as_it_is(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Return what the kernel gives in the precision of what it gets."""
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def in_float32(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Return what the package's encoder gets."""
    return fused_attention(q, k, v, mask, 0.0)


SIDES: dict[str, Attention] = {"as it is": as_it_is, "in float32": in_float32}


def inputs(length: int, size: int) -> tuple[list[Tensor], Tensor]:
    """Return random queries, keys and values (B, H, L, K), and the mask of texts that share rows."""
    generator = torch.Generator().manual_seed(0)
    rows = TOKENS // length
    given = [torch.randn(rows, HEADS, length, size, generator=generator).bfloat16() for _ in range(3)]
    mask = same_sequence((torch.arange(length) // TEXT).expand(rows, length)).unsqueeze(1)
    return given, mask


def slopes(attention: Attention, given: list[Tensor], mask: Tensor) -> list[Tensor]:
    """Return the slopes at queries, keys and values of the sum of the squared outcome."""
    leaves = [one.clone().requires_grad_() for one in given]
    attention(*leaves, mask).float().square().sum().backward()
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


def error(attention: Attention, given: list[Tensor], mask: Tensor) -> float:
    """Return how far the slopes are from the exact ones, as a share of their length."""
    exact = torch.cat([one.flatten() for one in slopes(as_it_is, [one.double() for one in given], mask)])
    found = torch.cat([one.double().flatten() for one in slopes(attention, given, mask)])
    return float((found - exact).norm() / exact.norm())


def measure(length: int, size: int, turns: int) -> dict[str, Any]:
    """Return the speeds of both sides in steps of training, and their errors."""
    given, mask = inputs(length, size)

    def step(attention: Attention, _: int) -> int:
        slopes(attention, given, mask)
        return 1

    laps = take_turns({name: timed(partial(step, side)) for name, side in SIDES.items()}, range(turns + 2), 2)
    found = compare(laps, "steps", [("in float32", "as it is")])
    return {**found, "errors": {name: error(side, given, mask) for name, side in SIDES.items()}}


def main() -> None:
    """Let both take turns at each shape, and write ``results/attention/bfloat16.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--result", default="attention/bfloat16", help="results/<this>.json")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert"], [0])
    torch.set_num_threads(1)
    metrics = {}
    for length, size in SHAPES:
        name = f"rows of {length}, heads of {size}"
        metrics[name] = measure(length, size, options.turns)
        print(name, in_words(metrics[name]), flush=True)
    record.write(metrics, heads=HEADS, tokens=TOKENS, tokens_of_a_text=TEXT)


if __name__ == "__main__":
    main()
