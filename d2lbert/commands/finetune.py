"""The command ``d2lbert finetune``.

A framework is imported inside the command, so that a mistake on the command line is reported at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from d2lbert.commands.card import CARD_FILE, Trained, model_card, typed_columns
from d2lbert.commands.editions import Edition, EditionName, named_edition
from d2lbert.commands.examples import Format, MaxLength, Model, Task, default_dev, train_and_dev
from d2lbert.commands.options import options_from_settings
from d2lbert.commands.predict import input_length
from d2lbert.commands.rows import json_line, note, warn
from d2lbert.commands.stopping import stops_after_step
from d2lbert.config.training import Training, suited_settings
from d2lbert.data.readers.tables import Columns
from d2lbert.errors import INTERRUPTED, UserError
from d2lbert.storage import checkpoints
from d2lbert.storage.claims import claimed, publish
from d2lbert.storage.files import write_text
from d2lbert.tasks.chance import complaint_at_chance
from d2lbert.tasks.table import named_task

if TYPE_CHECKING:
    from d2lbert.text import Tokenizer
    from d2lbert.torch.training.finetuning import History

_SUITED = "by default what suits the number of examples"


def _meaning(field: str) -> str:
    return f"{Training.meanings[field].meaning}; {_SUITED}"


@options_from_settings({})
def finetune(
    task: Task,
    model: Model,
    train: Annotated[str, typer.Option("--train", help="a data set's name or a FILE")],
    out: Annotated[Path, typer.Option("--out", help="folder for the trained model; must be new or empty")],
    settings: Training,
    columns: Columns,
    dev: Annotated[
        str | None,
        typer.Option(
            "--dev",
            help="a data set's name, a FILE, or the share of --train to cut off, such as 0.1; by default the dev split "
            "of the data set, or a tenth of the FILE; what is cut off is the same for every --seed",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help=_meaning("epochs"))] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", help=_meaning("batch_size"))] = None,
    learning_rate: Annotated[float | None, typer.Option("--lr", help=_meaning("learning_rate"))] = None,
    format: Format = None,
    max_length: MaxLength = None,
    resume: Annotated[bool, typer.Option("--resume", help="keep the state in OUT.checkpoint, go on from it")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="as --resume, with the state in this FOLDER")
    ] = None,
    edition: EditionName = "torch",
) -> None:
    """Fine-tune a model on a task and keep the epoch that is best on --dev.

    A FILE is a table (CSV, TSV, JSON lines, Parquet), whose columns the options name, or in the format of a data set.
    README.md describes them all; d2lbert inspect FILE shows what would be read.
    """
    named_task(task)
    computes = named_edition(edition)
    _check_model(model, computes)
    with claimed(out) as folder:  # what would be refused below is refused before anything is read
        state = _state_folder(folder, checkpoint)
        _mention_old_checkpoint(state, resume or checkpoint is not None)
    chosen = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    given: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    settings = dataclasses.replace(settings, **given)  # checked before anything is read
    task_object, train_examples, dev_examples = train_and_dev(task, train, dev, format, columns)
    encoder, tokenizer = _encoder(model, computes)
    settings = dataclasses.replace(settings, max_length=input_length(task, max_length, encoder))
    if len(given) < 3:
        suited = suited_settings(len(train_examples), encoder.config.hidden_size, settings)
        settings = dataclasses.replace(suited, **given)
        note(_summary(settings, len(train_examples)))
    computes.seed(settings.seed)
    trained = computes.head_of(task)(encoder, task_object.labels)
    with claimed(out) as folder:
        checkpoint = state if resume or checkpoint is not None else None
        with _interruptible(checkpoint) as stopped:
            sets = train_examples, dev_examples
            history = computes.fine_tune(trained, task_object, tokenizer, sets, settings, checkpoint, stopped)
        chosen_edition = [] if computes.name == "torch" else ["--edition", computes.name]
        options = [*(["--format", format] if format else []), *typed_columns(columns), *chosen_edition]
        described = Trained(
            *(task, model, train, dev or default_dev(train), settings, (len(train_examples), len(dev_examples))),
            *(task_object.labels, history.best, options),
        )
        card = model_card(described, folder.name)
        publish(folder, lambda staging: _save(trained, tokenizer, history, card, staging))
        if checkpoint is not None:
            checkpoints.remove_all(checkpoint)
    _report(history)
    if complaint := complaint_at_chance(task_object, dev_examples, history.best):
        warn(complaint)
    print(json_line(history.best))


def _report(history: History) -> None:
    """Print a line for each epoch."""
    score = history.shown
    for record in history:
        print(f"epoch {record['epoch']}: loss {record['loss']:.4f}, dev {score} {record[score]:.4f}")


def _check_model(model: str, edition: Edition) -> None:
    """Refuse a model that cannot be fine-tuned before anything is read or downloaded.

    Raises:
        UserError: it is neither a BERT, nor a relative of one, nor an adapter; or there is none of this name; or this
            edition has no such encoder.
    """
    from d2lbert.models import kind_of_name, refuse_relatives

    kind = kind_of_name(model)
    if kind not in (None, "adapter", "bert", "albert", "distilbert", "pruned_bert"):
        raise _no_bert(model)
    refuse_relatives(kind, edition.name)


def _encoder(model: str, edition: Edition) -> tuple[Any, Tokenizer]:
    """Return the encoder to go on with, and its tokenizer.

    Raises:
        UserError: it is no BERT, or cannot be had.
    """
    from d2lbert.config.bert import BertConfig
    from d2lbert.models import get_model

    encoder, tokenizer = get_model(model, edition=edition.name)
    encoder = getattr(encoder, "bert", encoder)  # adapters, merged: go on from what they learned, with a new head
    if not isinstance(encoder.config, BertConfig):  # of a repository of the hub, which is known only now
        raise _no_bert(model)
    return encoder, tokenizer


def _no_bert(model: str) -> UserError:
    return UserError(f"{model} is no BERT, and only BERTs are fine-tuned here: choose another --model")


def _summary(settings: Training, examples: int) -> str:
    """Return the settings that suit the number of examples, and how to choose others, in one line."""
    epochs = "1 epoch" if settings.epochs == 1 else f"{settings.epochs} epochs"
    counted = "1 example" if examples == 1 else f"{examples:,} examples"
    return (
        f"{counted}: {epochs} of batches of {settings.batch_size}, learning rate "
        f"{settings.learning_rate:g}; --epochs, --batch-size and --lr choose others"
    )


def _save(trained: Any, tokenizer: Tokenizer, history: Sequence[dict[str, float]], card: str, folder: Path) -> None:
    """Write the model, its history and its card into a folder."""
    trained.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_text(folder / "training.json", json.dumps(history, indent=2) + "\n")
    write_text(folder / CARD_FILE, card)


def _state_folder(folder: Path, checkpoint: Path | None) -> Path:
    """Return the folder of the checkpoints of a run into ``folder``, an absolute path: beside it, or as one says.

    Raises:
        UserError: it is a file, or in the way of the model.
    """
    if checkpoint is None:
        return folder.with_name(f"{folder.name}.checkpoint")
    state = checkpoint.resolve()
    if state.is_file():
        raise UserError(f"--checkpoint {checkpoint} is a file: choose a folder")
    if folder in (state, *state.parents):
        raise UserError(f"--checkpoint {checkpoint} lies in --out, which is for the model alone: choose another folder")
    return state


def _mention_old_checkpoint(checkpoint: Path, resume: bool) -> None:
    """Say that there is something to go on from, where the command does not ask for it."""
    if not resume and checkpoints.begun(checkpoint):
        print(f"{checkpoint} is of a run that was stopped; only --resume goes on with it", file=sys.stderr)


@contextlib.contextmanager
def _interruptible(checkpoint: Path | None) -> Iterator[Callable[[], bool]]:
    """In this context Ctrl-C ends the command, with checkpoints after the current step; a line tells what is left.

    Yields:
        Whether the run shall end before its next step.
    """
    told = threading.Event()
    try:
        with stops_after_step(told.set) if checkpoint is not None else contextlib.nullcontext():
            yield told.is_set
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoints.begun(checkpoint):
            left = f"the same command goes on from the last step, in {checkpoint}"
        else:
            left = "nothing was written"
        print(f"interrupted; {left}", file=sys.stderr)
        sys.exit(INTERRUPTED)
