"""What a step computes: the operations that it needs, the matrix products that it runs, and where its time goes.

Shape legend: l tokens of a text, s of them asked for, D hidden size, F size of the feed-forward layer.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# Beginnings of the names of PyTorch's operations -> what they are a part of. The first that fits counts.
PARTS = {
    "aten::addmm": "matrix products",
    "aten::mm": "matrix products",
    "aten::bmm": "matrix products",
    "aten::baddbmm": "matrix products",
    "aten::_scaled_dot_product": "attention",
    "aten::_softmax": "attention",
    "aten::native_layer_norm": "LayerNorm",
    "aten::gelu": "GELU",
    "aten::native_dropout": "dropout",
    "aten::bernoulli": "dropout",
    "aten::embedding": "embeddings and loss",
    "aten::_log_softmax": "embeddings and loss",
    "aten::nll_loss": "embeddings and loss",
    "aten::index": "embeddings and loss",
}
OTHER = "other operations"


class Product(NamedTuple):
    """The shapes of a matrix product and how its two sides lie in memory."""

    one: tuple[int, ...]
    one_strides: tuple[int, ...]
    other: tuple[int, ...]
    other_strides: tuple[int, ...]

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        *batch, rows, inner = self.one
        return 2 * rows * inner * self.other[-1] * (batch[0] if batch else 1)

    def seconds(self, rounds: int = 7) -> float:
        """Return the median time of the product alone, its two sides lying as they were noted."""
        one = _lying(self.one, self.one_strides)
        other = _lying(self.other, self.other_strides)
        return median_time(lambda: one @ other, rounds)


class Products(TorchDispatchMode):
    """Notes the matrix products that PyTorch runs while it is on, forward and backward.

    Attributes:
        found: how often each was run. The two products of fused attention are noted as if they were run one by one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[Product] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = function.overloadpacket
        if packet in (aten.addmm, aten.mm, aten.bmm, aten.baddbmm):
            self._note(*args[-2:] if packet in (aten.mm, aten.bmm) else args[1:3])
        elif packet == aten._scaled_dot_product_flash_attention_for_cpu:
            self._attention(args[0], args[1], products=2)
        elif packet == aten._scaled_dot_product_flash_attention_for_cpu_backward:
            self._attention(args[1], args[2], products=5)  # the scores again, and four gradients
        return function(*args, **(kwargs or {}))

    def _note(self, one: Tensor, other: Tensor, times: int = 1) -> None:
        shapes = tuple(one.shape), one.stride(), tuple(other.shape), other.stride()
        self.found[Product(*shapes)] += times

    def _attention(self, queries: Tensor, keys: Tensor, products: int) -> None:
        one = queries.flatten(0, -3).contiguous()
        self._note(one, keys.flatten(0, -3).contiguous().mT, times=products)


def median_time(work: Callable[[], Any], rounds: int) -> float:
    """Return the median of some measurements, in seconds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def products_of(step: Callable[[], Any]) -> Counter[Product]:
    """Return the matrix products that one step runs in PyTorch."""
    with Products() as noted:
        step()
    return noted.found


def _lying(shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return torch.randn(last + 1).as_strided(shape, strides)


def rate_of(products: Iterable[Any]) -> float:
    """Return the operations a second of the fastest of these products: the peak of this machine for them."""
    return max(product.operations / product.seconds() for product in products)


def bandwidth(bytes: int = 1 << 28) -> float:
    """Return how many bytes a second memory gives and takes while an array that no cache holds is copied."""
    source, target = torch.ones(bytes // 4), torch.empty(bytes // 4)
    target.copy_(source)
    return 2 * bytes / median_time(lambda: target.copy_(source), rounds=5)


def encoder_operations(config: Any, texts: Iterable[tuple[int, float]]) -> int:
    """Return the operations of a forward pass of an encoder and its pooler that the asked tokens need.

    Args:
        texts: l and s of each. The last block computes keys and values of all l tokens, and the rest for s.
    """
    D, F, blocks = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    total = 0.0
    for length, asked in texts:
        block = 2 * length * (4 * D * D + 2 * D * F) + 4 * length * length * D
        last = 2 * length * 2 * D * D + 2 * asked * (2 * D * D + 2 * D * F) + 4 * asked * length * D
        total += (blocks - 1) * block + last + 2 * D * D
    return round(total)


def parts_of(step: Callable[[], Any]) -> dict[str, float]:
    """Return the seconds that one step spends in each kind of operation, as PyTorch's profiler sees them."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        step()
    found: dict[str, float] = defaultdict(float)
    for event in seen.key_averages():
        if event.key.startswith("aten::"):
            part = next((part for start, part in PARTS.items() if event.key.startswith(start)), OTHER)
            found[part] += event.self_cpu_time_total / 1e6
    return dict(found)
