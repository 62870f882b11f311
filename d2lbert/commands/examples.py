"""From what a user names, a data set or a file, to the examples of a task; and what is odd about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from d2lbert import data
from d2lbert.commands.rows import note, warn
from d2lbert.data.examples import without_label
from d2lbert.data.readers.formats import guess_format, is_file
from d2lbert.data.readers.tables import Columns
from d2lbert.data.splitting import count_shared, cut_dev
from d2lbert.errors import UserError, unknown_name
from d2lbert.tasks.table import NAMED, fitting_examples, named_task

if TYPE_CHECKING:
    from d2lbert.tasks.base import Task as TaskProtocol

Task = Annotated[str, typer.Argument(metavar="TASK", help=" or ".join(NAMED))]
Model = Annotated[
    str, typer.Option("--model", help="a model folder, a name of d2lbert models (such as minilm-sst2) or of the hub")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="of a FILE: csv, tsv, jsonl, json, parquet, or that of a data set, such as sst2, conll, squad; "
        "by its ending otherwise. README.md describes them all, d2lbert inspect FILE shows what is read",
    ),
]
_LENGTH = "longest input in tokens; the rest is cut off, or read in windows. By default"
MaxLength = Annotated[
    int | None,
    typer.Option(
        "--max-length", help=f"{_LENGTH} 128, question_answering 384; the trained model reads as many by default"
    ),
]
LengthOfTraining = Annotated[
    int | None,
    typer.Option(
        "--max-length",
        help=f"{_LENGTH} that of the model's training (trained_length in its config.json); where it has none, 128, "
        "question_answering 384",
    ),
]

SHARE = 0.1  # of a training file, where the user names nothing for dev
FEW = 5  # examples of a label: with fewer, a model hardly learns it


def read_examples(
    task: str,
    source: str,
    split: str,
    format: str | None,
    columns: Columns,
    labels: Sequence[str] | None,
    labelled: bool = True,
) -> list[Any]:
    """Read the examples of a task from a named data set or a file.

    Args:
        task: its name.
        source: the data set's name, or the path of the file.
        split: of a named data set.
        format, columns: of a file; None is guessed.
        labels: those that may occur; None for any.
        labelled: whether a file must have labels.

    Raises:
        UserError: there is no such data set or file, it is a pipe, or it cannot be read.
    """
    if source in data.names():
        examples = fitting_examples(task, source, data.load(source, split))
        return examples if labelled else [without_label(example) for example in examples]
    if is_file(source):
        chosen = format or guess_format(source, task, columns, labelled)
        return data.read_file(source, chosen, labels, task, columns, labelled)
    if "/" in source or "." in source:
        raise UserError(f"no file {source}: check the path, or give the name of a data set")
    raise unknown_name("data set", source, data.names())


def train_and_dev(
    task: str, train: str, dev: str | None, format: str | None, columns: Columns
) -> tuple[TaskProtocol, list[Any], list[Any]]:
    """Return the task of the training examples, these examples, and those of dev.

    Args:
        task: its name.
        train: a data set's name or a file.
        dev: a data set's name, a file, or a share of the training examples such as ``0.1``. None is the same data set,
            or a tenth of the file. The cut is always the same, so that runs with other seeds are compared on one dev.
        format, columns: of files.

    Raises:
        UserError: something cannot be read, or there is nothing to cut.
    """
    examples = read_examples(task, train, "train", format, columns, None)
    if dev is None:
        dev = default_dev(train)
    share = _share(dev)
    if share is None:
        task_object = named_task(task).of_examples(examples)
        dev_examples = read_examples(task, dev, "dev", format, columns, task_object.labels)
    else:
        whole, (examples, dev_examples) = len(examples), cut_dev(examples, share)
        note(f"{len(dev_examples):,} of {whole:,} examples are cut off for --dev; {len(examples):,} are trained on")
        task_object = named_task(task).of_examples(examples)
    for oddity in oddities(examples, dev_examples):
        warn(oddity)
    return task_object, examples, dev_examples


def default_dev(train: str) -> str:
    """Return what --dev is unless the user says otherwise: the same data set, or a share of the file."""
    return train if train in data.names() else str(SHARE)


def _share(dev: str) -> float | None:
    """Return --dev as a share; None where it names a data set or a file."""
    try:
        share = float(dev)
    except ValueError:
        return None
    return None if Path(dev).is_file() else share


def oddities(train: Sequence[Any], dev: Sequence[Any]) -> list[str]:
    """Return what a user should know about two sets of examples before a model is trained, a sentence each."""
    found = []
    shared = count_shared(train, dev)
    if shared:
        what = f"{shared:,} of {len(dev):,} dev examples have a text that is also trained on"
        found.append(f"{what}: they say nothing about new texts")
    counts = Counter(example.label for example in train if hasattr(example, "label"))
    rare = sorted((count, str(label)) for label, count in counts.items() if count < FEW)
    if rare:
        names = ", ".join(f"{label} ({count})" for count, label in rare[:5])
        more = f" and {len(rare) - 5:,} more" if len(rare) > 5 else ""
        found.append(f"fewer than {FEW} training examples of the label {names}{more}: it will hardly be learned")
    return found
