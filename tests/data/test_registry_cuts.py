"""Where train and dev are one file: every example in one of them, and those that belong together in the same one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from d2lbert.data import info, registry
from d2lbert.data.examples import Question, Sentence

EXAMPLES = [Sentence(str(number), None) for number in range(10)]


def _cut(split: str, **changes: object) -> list[str]:
    entry = dataclasses.replace(info("sst2"), **changes)  # type: ignore[arg-type]
    return [example.text for example in registry._cut(iter(EXAMPLES), entry, split)]


def test_every_third_example_is_dev_and_the_others_are_train() -> None:
    assert _cut("dev", cut=3) == ["2", "5", "8"]
    assert _cut("train", cut=3) == ["0", "1", "3", "4", "6", "7", "9"]


def test_neighbours_with_the_same_value_stay_together() -> None:
    articles = "aabbbcdd"
    entry = dataclasses.replace(info("sst2"), cut=2, cut_by="title")

    def questions() -> Iterator[Question]:
        return (Question(str(number), "text", (), "", title) for number, title in enumerate(articles))

    found = {split: "".join(q.title for q in registry._cut(questions(), entry, split)) for split in ("train", "dev")}
    assert found == {"train": "aac", "dev": "bbbdd"}


@pytest.mark.parametrize(("parts", "first"), [(2, 5), (3, 7), (10, 9)])
def test_the_last_part_is_dev(parts: int, first: int) -> None:
    train, dev = (list(registry._cut_tail(EXAMPLES, parts, split)) for split in ("train", "dev"))
    assert train == EXAMPLES[:first]
    assert dev == EXAMPLES[first:]
