"""The command ``d2lbert inspect``: what would be read from a file, and what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from d2lbert.commands.examples import FEW, Format
from d2lbert.commands.options import options_from_settings
from d2lbert.commands.rows import json_line
from d2lbert.data.examples import ChoiceQuestion, Pair, Question, ScoredPair
from d2lbert.data.inspection import inspect_file, spread, whole_text
from d2lbert.data.readers.formats import is_file
from d2lbert.data.readers.tables import Columns
from d2lbert.errors import UserError
from d2lbert.tasks.table import NAMED, named_task

_SHOWN = 20  # of labels and of problems; --json has all


@options_from_settings({})
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    columns: Columns,
    task: Annotated[str, typer.Option("--task", help="what it is for: " + ", ".join(NAMED))] = "classification",
    format: Format = None,
    model: Annotated[
        str | None, typer.Option("--model", help="count tokens, too: a model folder, or a name of d2lbert models")
    ] = None,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="for predict: the FILE needs no labels")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Show what finetune, evaluate and predict would read from a FILE, and every problem with the number of its line.

    Exit status 1 if there are problems. Of a table all are shown, of other formats the first.
    """
    named_task(task)
    if not is_file(str(file)):
        raise UserError(f"no file {file}: check the path")
    description, examples = inspect_file(file, task, format, columns, not unlabelled)
    if model is not None and examples:
        description["tokens"] = _count_tokens(model, task, examples)
    print(json_line(description) if as_json else "\n".join(_lines(description)))
    sys.exit(1 if description["problems"] else 0)


def _count_tokens(model: str, task: str, examples: Sequence[Any]) -> dict[str, Any]:
    """Return the spread of the inputs' lengths in tokens, and how many are longer than the model reads by default."""
    from d2lbert.models import tokenizer_of_name
    from d2lbert.weights.folder import CONFIG_FILE
    from d2lbert.weights.heads import read_trained_length
    from d2lbert.zoo.folders import locate

    tokenizer = tokenizer_of_name(model)
    limit = read_trained_length(locate(model) / CONFIG_FILE) or named_task(task).max_length
    limit = min(limit, tokenizer.model_max_length or limit)
    if isinstance(examples[0], Pair | ScoredPair | Question | ChoiceQuestion):
        firsts, seconds = zip(*(whole_text(example).split("\n", 1) for example in examples), strict=True)
        encodings = tokenizer.encode_batch(firsts, seconds)
    else:
        encodings = tokenizer.encode_batch([whole_text(example) for example in examples])
    lengths = [len(encoding) for encoding in encodings]
    return {**spread(lengths), "limit": limit, "longer": sum(length > limit for length in lengths)}


def _lines(description: dict[str, Any]) -> list[str]:
    """Return the description for people."""
    lines = [f"{description['file']}: read as {description['format']}, for {description['task']}"]
    if "columns" in description:
        lines.append(f"columns: {', '.join(description['columns']) or 'none'}")
    lines.append(f"examples: {description['examples']:,}{'' if description['labelled'] else ', without labels'}")
    if description["examples"]:
        lines += _lines_of_examples(description)
    problems = description["problems"]
    lines.append(f"problems: {len(problems):,}" if problems else "no problems")
    lines += [f"  {problem}" for problem in problems[:_SHOWN]]
    return lines + ([f"  and {len(problems) - _SHOWN:,} more"] if len(problems) > _SHOWN else [])


def _lines_of_examples(description: dict[str, Any]) -> list[str]:
    first = json.dumps(description["first"], ensure_ascii=False)
    lines = [f"first: {first if len(first) <= 200 else first[:200] + '...'}"]
    labels = list(description["labels"].items())
    if labels:
        shown = ", ".join(f"{label} {count:,}" for label, count in labels[:_SHOWN])
        lines.append(f"labels: {shown}" + (f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""))
        rare = [label for label, count in labels if count < FEW]
        if rare and description["task"] in ("classification", "pair", "tagging"):
            lines.append(f"rare: {len(rare):,} of the labels have fewer than {FEW} examples")
    for name in ("words", "characters", "tokens"):
        if name in description:
            values = description[name]
            lines.append(f"{name}: {values['least']:,} to {values['most']:,}, median {values['median']:,.0f}")
    if "tokens" in description:
        tokens = description["tokens"]
        lines.append(f"longer than {tokens['limit']} tokens: {tokens['longer']:,} (give a larger --max-length)")
    duplicates = description["duplicates"]
    return [
        *lines,
        f"duplicates: {duplicates['repeated']:,} examples repeat a text, "
        f"{duplicates['with different labels']:,} texts have different labels",
    ]
