"""Cut a part of the examples off for dev, and find texts that two sets share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from d2lbert.data.examples import ChoiceQuestion, Pair, Question, ScoredPair, TaggedSentence
from d2lbert.errors import UserError


def text_of(example: Any) -> Hashable:
    """Return what an example asks about, without its label: two examples with the same should not be parted."""
    if isinstance(example, Pair | ScoredPair):
        return example.first, example.second
    if isinstance(example, TaggedSentence):
        return example.words
    if isinstance(example, ChoiceQuestion):
        return example.premise
    if isinstance(example, Question):
        return example.context
    text: str = example.text
    return text


def count_shared(train: Sequence[Any], dev: Sequence[Any]) -> int:
    """Return how many examples of ``dev`` have a text that ``train`` has as well."""
    known = set(map(text_of, train))
    return sum(text_of(example) in known for example in dev)


def cut_dev(examples: Sequence[Any], share: float, seed: int = 0) -> tuple[list[Any], list[Any]]:
    """Divide examples into train and dev; both keep the order that they had.

    Each label has the same share in dev, as nearly as whole examples allow, and at least one example in train. Examples
    with the same text stay together. Examples without labels (scores, tags, answers) are drawn without regard to them.

    Args:
        examples: labelled; of one label at least, two different texts.
        share: of the examples that go to dev, between 0 and 1.
        seed: of the drawing.

    Returns:
        train and dev, neither of them empty.

    Raises:
        UserError: the share is not between 0 and 1, or no label has two different texts.
    """
    if not 0 < share < 1:
        raise UserError(f"a share of {share} for dev is not between 0 and 1: give one such as 0.1")
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        groups[text_of(example)].append(index)
    strata: dict[Any, list[list[int]]] = defaultdict(list)
    for group in groups.values():
        strata[getattr(examples[group[0]], "label", None)].append(group)
    if max(map(len, strata.values()), default=0) < 2:
        raise UserError("no two texts of one label to divide into train and dev: give more examples, or a dev file")
    generator = np.random.default_rng(seed)
    chosen: set[int] = set()
    wanted = 0.0  # so many examples should be in dev, up to here
    for label in sorted(strata, key=str):
        stratum = strata[label]
        wanted += share * sum(map(len, stratum))
        for number in generator.permutation(len(stratum))[1:]:  # the first stays in train
            if len(chosen) + len(stratum[number]) / 2 > wanted:
                break
            chosen.update(stratum[number])
    if not chosen:
        chosen.update(max(strata.values(), key=len)[-1])
    train = [example for index, example in enumerate(examples) if index not in chosen]
    return train, [example for index, example in enumerate(examples) if index in chosen]
