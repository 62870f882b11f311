"""What a training run shows as it goes: a bar with its speed."""

from __future__ import annotations

import sys

from tqdm import tqdm


def progress_bar(total_steps: int, step: int, shown: bool) -> tqdm:
    """Return a progress bar on standard error, over ``total_steps`` steps of which ``step`` are done."""
    return tqdm(total=total_steps, initial=step, disable=not shown, file=sys.stderr, unit="step", mininterval=1.0)


def show_speed(bar: tqdm, text: str, tokens_per_second: float) -> None:
    """Advance the bar by one step, and show a text such as the loss, and the speed, after it."""
    bar.update()
    bar.set_postfix_str(f"{text}, {tokens_per_second:,.0f} tokens/s", refresh=False)


def per_second(count: float, seconds: float) -> float:
    """Return a speed; 0 where no time has passed by a clock that is coarse or was set back."""
    return count / seconds if seconds > 0 else 0.0
