"""What would be read from a file: its format, its columns, its examples, and what is wrong with them."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

from d2lbert.data.examples import ChoiceQuestion, Pair, Question, ScoredPair, Sentence, TaggedSentence
from d2lbert.data.readers.formats import guess_format, open_table, read_file
from d2lbert.data.readers.tables import FORMATS, UNNAMED, Columns
from d2lbert.data.readers.tag_schemes import entities
from d2lbert.data.splitting import text_of
from d2lbert.errors import UserError


def inspect_file(
    path: str | Path,
    task: str = "classification",
    format: str | None = None,
    columns: Columns = UNNAMED,
    labelled: bool = True,
) -> tuple[dict[str, Any], list[Any]]:
    """Read a file as ``d2lbert finetune`` would, and describe it. What is wrong with the file is part of the answer.

    Args:
        path: the file.
        task: what its examples are for.
        format, columns: as for :func:`d2lbert.data.read_file`; None is guessed.
        labelled: whether the file should have labels.

    Returns:
        A description, ready for JSON, and the examples. If none has a label where all should, they are those without.

    Raises:
        UserError: there is no such task or format.
    """
    faults: list[str] = []
    chosen = format or guess_format(path, task, columns, labelled)
    examples = read_file(path, chosen, None, task, columns, labelled, faults)
    if labelled and not examples:
        other = format or guess_format(path, task, columns, labelled=False)
        examples = read_file(path, other, None, task, columns, labelled=False, faults=[])
        chosen, labelled = (other, False) if examples else (chosen, True)
    description: dict[str, Any] = {"file": str(path), "task": task, "format": chosen}
    if chosen in FORMATS:
        description["columns"] = _columns(path, chosen, task, columns)
    description |= {"examples": len(examples), "labelled": labelled}
    if examples:
        description["first"] = {name: value for name, value in dataclasses.asdict(examples[0]).items() if value}
        description["labels"] = count_labels(examples) if labelled else {}
        description["words"] = spread(len(text.split()) for text in map(whole_text, examples))
        description["characters"] = spread(map(len, map(whole_text, examples)))
        description["duplicates"] = _duplicates(examples)
    return {**description, "problems": faults}, examples


def count_labels(examples: Sequence[Any]) -> dict[str, int]:
    """Return how often each label occurs, the commonest first: of tags each type of entity, of answers any or none."""
    counts: Counter[str] = Counter()
    for example in examples:
        if isinstance(example, Sentence | Pair):
            counts[str(example.label)] += 1
        elif isinstance(example, TaggedSentence):
            counts.update(entity.type for entity in entities(example.tags or ()))
        elif isinstance(example, Question):
            counts["answered" if example.answers else "not answered by the text"] += 1
        elif isinstance(example, ChoiceQuestion):
            counts[f"choice {example.answer}"] += 1
        elif isinstance(example, ScoredPair):
            counts[f"{example.score:g}"] += 1
    return dict(counts.most_common())


def whole_text(example: Any) -> str:
    """Return all that a model reads of an example, its parts on lines of their own."""
    if isinstance(example, TaggedSentence):
        return " ".join(example.words)
    if isinstance(example, Question):
        return f"{example.question}\n{example.context}"
    if isinstance(example, ChoiceQuestion):
        return "\n".join([example.premise, max(example.choices, key=len)])
    if isinstance(example, Pair | ScoredPair):
        return f"{example.first}\n{example.second}"
    return str(example.text)


def spread(numbers: Iterable[int]) -> dict[str, float]:
    """Return the smallest number, the median and the largest."""
    found = list(numbers)
    return {"least": min(found), "median": statistics.median(found), "most": max(found)}


def _columns(path: str | Path, format: str, task: str, columns: Columns) -> list[str]:
    try:
        return list(open_table(path, format, task, columns).header)
    except UserError:
        return []


def _duplicates(examples: Sequence[Any]) -> dict[str, int]:
    """Return how many examples repeat an earlier one's text, and how many texts come with different labels."""
    answers: dict[Hashable, list[Any]] = defaultdict(list)
    for example in examples:
        key = (example.question, example.context) if isinstance(example, Question) else text_of(example)
        answers[key].append({name: getattr(example, name, None) for name in ("label", "score", "tags", "answer")})
    different = sum(any(answer != group[0] for answer in group) for group in answers.values())
    return {"repeated": len(examples) - len(answers), "with different labels": different}
