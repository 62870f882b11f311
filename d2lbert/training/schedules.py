"""Learning rates: how they rise and fall from step to step, and from layer to layer."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable


def linear_warmup_and_decay(step: int, warmup_steps: int, total_steps: int) -> float:
    """Return the factor on the learning rate at a step, counted from 0 (Devlin et al. 2019, appendix A.2).

    It rises linearly to 1 at ``warmup_steps`` and falls linearly to 0 at ``total_steps``.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    return max(0.0, (total_steps - step) / max(1, total_steps - warmup_steps))


def inverse_square_root_decay(step: int, warmup_steps: int) -> float:
    """Return the factor on the learning rate at a step, counted from 0 (Vaswani et al. 2017, equation 3).

    It rises linearly to 1 at the end of the warm-up, then falls with the square root of the number of steps. The
    paper's learning rate is D^-0.5 warmup_steps^-0.5 times this factor.
    """
    return min((step + 1) / warmup_steps, math.sqrt(warmup_steps / (step + 1)))


def layer_factors(names: Iterable[str], layer_decay: float) -> dict[str, float]:
    """Return the factor on the learning rate of each parameter: smaller for lower layers (Howard and Ruder 2018).

    It is 1 for the head and the pooler, ``layer_decay`` for the top block, ``layer_decay`` squared for the block below,
    and so on down to the embeddings. The lowest layers serve any task and should change least.

    Args:
        names: of the parameters that are trained, in either edition.
    """
    depths = {name: _depth(name) for name in names}
    top = max((depth for depth in depths.values() if depth is not None), default=0)  # 0: the encoder is frozen
    return {name: 1.0 if depth is None else layer_decay ** (top + 1 - depth) for name, depth in depths.items()}


def _depth(name: str) -> int | None:
    """Return the depth of a parameter: 0 for embeddings, 1 for the first block, None above all blocks."""
    if ".embeddings." in f".{name}":
        return 0
    match = re.search(r"\.blocks\.(\d+)\.", name)
    return int(match[1]) + 1 if match else None
