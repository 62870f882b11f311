"""New texts from old ones, for a teacher to judge: words masked, and parts of a text (Tang et al. 2019).

A label that a person gave to a text need not hold for a part of it. A teacher judges each text anew, so that any text
near those of the task can be used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from d2lbert.errors import UserError
from d2lbert.text import MASK


def augment(
    texts: Sequence[str],
    copies: int,
    seed: int = 0,
    mask_rate: float = 0.1,
    part_rate: float = 0.25,
    longest_part: int = 5,
) -> list[str]:
    """Return new texts, made of the words between the spaces of each text.

    Each copy first loses words: each becomes ``[MASK]`` with probability ``mask_rate``. Then, with probability
    ``part_rate``, all goes but 1 to ``longest_part`` neighbouring words. A copy that is one of the texts, that was made
    before or that holds nothing but masks is left out.

    Args:
        texts: N of them.
        copies: tries for each text, so that there are at most N * copies new texts.
        seed: the same texts, numbers and seed give the same new texts.

    Raises:
        UserError: a number is out of range.

    Source: Tang et al. 2019, whose rates these are. It differs in that no word is replaced by
    another of the same part of speech, for which a tagger would be needed.
    """
    for name, rate in (("mask_rate", mask_rate), ("part_rate", part_rate)):
        if not 0 <= rate <= 1:
            raise UserError(f"{name} is {rate}: give a number from 0 to 1")
    if copies < 0 or longest_part < 1:
        raise UserError(f"copies {copies} and longest_part {longest_part}: give 0 or more, and 1 or more")
    generator = np.random.default_rng(seed)
    seen, made = set(texts), []
    for text in texts:
        words = text.split()
        for _ in range(copies if words else 0):
            new = masked(words, mask_rate, generator)
            if generator.random() < part_rate:
                new = part(new, longest_part, generator)
            joined = " ".join(new)
            if joined not in seen and any(word != MASK for word in new):
                seen.add(joined)
                made.append(joined)
    return made


def masked(words: Sequence[str], rate: float, generator: np.random.Generator) -> list[str]:
    """Return the words, each with a probability of ``rate`` replaced by ``[MASK]``."""
    hidden = generator.random(len(words)) < rate
    return [MASK if hide else word for word, hide in zip(words, hidden, strict=True)]


def part(words: Sequence[str], longest: int, generator: np.random.Generator) -> list[str]:
    """Return 1 to ``longest`` neighbouring words, or all where there are no more; every length is as likely."""
    length = min(len(words), int(generator.integers(1, longest + 1)))
    begin = int(generator.integers(len(words) - length + 1))
    return list(words[begin : begin + length])
