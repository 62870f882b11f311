"""The commands ``d2lbert evaluate`` and ``predict``: scores and answers of a fine-tuned model.

A framework is imported inside the commands, so that a mistake on the command line is reported at once.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from d2lbert import data
from d2lbert.commands.editions import Edition, EditionName, named_edition
from d2lbert.commands.examples import Format, LengthOfTraining, Model, Task, read_examples
from d2lbert.commands.fill_mask import FILL_MASK, fill_mask
from d2lbert.commands.options import options_from_settings
from d2lbert.commands.rows import (
    check_file_to_write,
    json_line,
    note,
    place_of_answers,
    readable_row,
    write_rows,
)
from d2lbert.data.readers.tables import Columns
from d2lbert.errors import UserError
from d2lbert.storage.files import write_text
from d2lbert.tasks.base import longest_input
from d2lbert.tasks.table import NAMED, named_task

if TYPE_CHECKING:
    from d2lbert.tasks.base import Task as TaskProtocol


@options_from_settings({})
def evaluate(
    task: Task,
    model: Model,
    data_set: Annotated[str, typer.Option("--data", help="a data set's name or a FILE")],
    columns: Columns,
    split: Annotated[str, typer.Option("--split", help="of a named data set")] = "dev",
    format: Format = None,
    max_length: LengthOfTraining = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions",
            help="file for the answers, new or with answers to the same examples; by default predictions-DATA.jsonl in "
            "the model's folder, or here for a name",
        ),
    ] = None,
    edition: EditionName = "torch",
) -> None:
    """Score a fine-tuned model; the last line printed is one JSON object of metrics.

    Then the answer to every example is written to a file, one JSON object a line. The same command writes it anew;
    beside answers to other examples it gets a number.
    """
    named_task(task)
    computes = named_edition(edition)
    if predictions is not None and predictions.is_dir():
        raise UserError(f"--predictions {predictions} is a folder: name a file")
    from d2lbert.zoo.folders import local_folder

    trained, tokenizer = computes.load_trained(task, model)
    task_object, length = task_of(task, trained), input_length(task, max_length, trained)
    examples = read_examples(task, data_set, split, format, columns, task_object.labels)
    name = f"{data_set}-{split}" if data_set in data.names() else Path(data_set).name
    # The folder of a model that is known by its name is not the user's to write into.
    default = (local_folder(model) or Path()) / f"predictions-{name}.jsonl"
    file = place_of_answers(predictions, default, examples)
    scores, predicted = computes.evaluate(trained, task_object, tokenizer, examples, length)
    print(json_line({**scores, "examples": len(examples)}))
    _write_predictions(file, predictions is not None, examples, predicted)


@options_from_settings({})
def predict(
    task: Annotated[str, typer.Argument(metavar="TASK", help=" or ".join([*NAMED, FILL_MASK]))],
    model: Model,
    columns: Columns,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="a text, a text to ask about, or a premise; may be given several times"),
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option("--pair", help="the second text of each pair; the question; or a choice, two or more of them"),
    ] = None,
    data_set: Annotated[
        str | None,
        typer.Option("--data", help="instead of --text: a FILE, with or without labels, or a data set's name"),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="of a named data set")] = "dev",
    out: Annotated[
        Path | None, typer.Option("--out", help="new file for the answers: NAME.jsonl or NAME.csv; otherwise printed")
    ] = None,
    format: Format = None,
    max_length: LengthOfTraining = None,
    edition: EditionName = "torch",
) -> None:
    """Answer for texts, in their order: one JSON object a text is printed, or all are written to --out.

    A file of lines (.txt) is a text on each line. Columns of a table, as for finetune; labels are not read.

    A question with choices is one --text, the premise, and one --pair for every choice. For a model of COPA the
    premise ends in "What was the cause?" or in "What happened as a result?".

    The task fill_mask guesses what stands at each [MASK] of a --text: the likeliest pieces, with their probabilities.
    Its model is one that was pretrained on such gaps, with the head of that task, such as d2lbert-tiny.
    """
    computes = named_edition(edition)
    if task == FILL_MASK:
        if computes.name != "torch":
            raise UserError("fill_mask is of the torch edition alone: leave --edition out")
        if pair or data_set is not None or not text:
            raise UserError("fill_mask reads one or more --text with [MASK] in it: give these, and no --pair or --data")
        return _show(lambda: fill_mask(model, text), out)
    named = named_task(task)
    _check_source(text, pair, data_set)
    if data_set is None:
        named.check_texts(task, text or [], pair or [])
    typed = (text or [], pair or [])
    _show(lambda: _answers(computes, task, model, typed, data_set, split, format, columns, max_length), out)


def _answers(
    edition: Edition,
    task: str,
    model: str,
    typed: tuple[Sequence[str], Sequence[str]],
    data_set: str | None,
    split: str,
    format: str | None,
    columns: Columns,
    max_length: int | None,
) -> list[dict[str, Any]]:
    """Return a row for each typed text, or for each example of --data."""
    trained, tokenizer = edition.load_trained(task, model)
    named, length = named_task(task), input_length(task, max_length, trained)
    if data_set is None:
        examples = named.of_texts(*typed, trained.labels)
    else:
        examples = read_examples(task, data_set, split, format, columns, trained.labels, labelled=False)
    predictions = edition.predict(trained, task_of(task, trained), tokenizer, examples, length)
    rows = [readable_row(*both) for both in zip(examples, predictions, strict=True)]
    if data_set is None:
        rows = [_typed_row(index, *typed, named.seconds, row) for index, row in enumerate(rows)]
    return rows


def _show(answers: Callable[[], list[dict[str, Any]]], out: Path | None) -> None:
    """Print the answers, or write them to --out, of which it is known before the work that it can be written."""
    if out is not None:
        check_file_to_write(out)
    rows = answers()
    if out is None:
        print("\n".join(map(json_line, rows)))
        return
    write_rows(out, rows)
    note(f"{len(rows):,} answers are in {out}")


def _check_source(text: Sequence[str] | None, pair: Sequence[str] | None, data_set: str | None) -> None:
    """Check that there is one source of texts.

    Raises:
        UserError: there is none, or both --text and --data.
    """
    if data_set is None and not text:
        raise UserError("nothing to answer: give --text TEXT, or --data FILE")
    if data_set is not None and (text or pair):
        raise UserError("--data beside --text or --pair: give one or the other")


def _typed_row(
    index: int, texts: Sequence[str], pairs: Sequence[str], seconds: int, row: dict[str, Any]
) -> dict[str, Any]:
    """Return a row with what the user typed in place of the example's own fields, and the words beside their tags."""
    typed = {"text": _short(texts[index])} | ({"pair": _short(pairs[index])} if pairs and seconds == 1 else {})
    read = ("text", "first", "second", "question", "context", "premise", "choices")
    return typed | {name: value for name, value in row.items() if name not in read}


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "..."


def task_of(task: str, trained: Any) -> TaskProtocol:
    """Return the task that a model was fine-tuned for."""
    return named_task(task).of_model(trained.labels, getattr(trained, "null_threshold", None))


def input_length(task: str, requested: int | None, model: Any) -> int:
    """Return the longest input in tokens: as requested, or that of the model's training, or else the task's default.

    Raises:
        UserError: the model does not take so many.
    """
    positions = int(model.config.max_position_embeddings)
    if requested is None:
        return longest_input(model, named_task(task).max_length)
    if not 3 <= requested <= positions:
        raise UserError(f"--max-length is {requested}: this model takes 3 to {positions} tokens")
    return requested


def _write_predictions(path: Path, chosen: bool, examples: Sequence[Any], predictions: Sequence[Any]) -> None:
    """Write each example with its prediction; if a path that the user has not chosen cannot be written, only warn."""
    rows = [
        json_line({"example": dataclasses.asdict(example), **prediction})
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    try:
        write_text(path, "\n".join(rows) + "\n")
    except UserError as error:
        if chosen:
            raise
        warnings.warn(f"no file of predictions ({error}); --predictions names another place", stacklevel=2)
