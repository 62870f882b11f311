"""The commands ``d2lbert finetune``, ``evaluate`` and ``predict``.

PyTorch is imported inside the commands, so that a mistake on the command line is reported at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from d2lbert import data
from d2lbert.commands.options import options_from_settings
from d2lbert.config.training import Training
from d2lbert.data.readers.formats import guess_format
from d2lbert.errors import INTERRUPTED, UserError, unknown_name
from d2lbert.storage import checkpoints
from d2lbert.storage.claims import claimed, publish
from d2lbert.storage.files import write_text
from d2lbert.tasks.table import NAMED, fitting_examples, named_task

if TYPE_CHECKING:
    from d2lbert.tasks.base import Task as TaskProtocol
    from d2lbert.text import Tokenizer

Task = Annotated[str, typer.Argument(metavar="TASK", help=" or ".join(NAMED))]
Model = Annotated[str, typer.Option("--model", help="a model folder, a name of d2lbert models or of the hub")]
Format = Annotated[
    str | None, typer.Option("--format", help="of a FILE, such as sst2, glue-tsv, mrpc; by its ending otherwise")
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        "--max-length",
        help="longest input in tokens; the rest is cut off, or read in windows. By default 128, question_answering 384",
    ),
]


@options_from_settings({"learning_rate": "--lr"})
def finetune(
    task: Task,
    model: Model,
    train: Annotated[str, typer.Option("--train", help="a data set's name or a FILE")],
    dev: Annotated[str, typer.Option("--dev", help="a data set's name or a FILE")],
    out: Annotated[Path, typer.Option("--out", help="folder for the trained model; must be new or empty")],
    settings: Training,
    format: Format = None,
    max_length: MaxLength = None,
    resume: Annotated[bool, typer.Option("--resume", help="keep the state in OUT.checkpoint, go on from it")] = False,
) -> None:
    """Fine-tune a model on a task and keep the epoch that is best on --dev."""
    named_task(task)
    with claimed(out) as folder:  # what would be refused below is refused before anything is read
        _mention_old_checkpoint(folder, resume)
    train_examples = _read(task, train, "train", format, None)
    task_object = named_task(task).of_examples(train_examples)
    dev_examples = _read(task, dev, "dev", format, task_object.labels)
    from d2lbert.models import get_model
    from d2lbert.torch.bert import BertModel
    from d2lbert.torch.runtime import best_device, seed_everything
    from d2lbert.torch.training.finetuning import fine_tune

    encoder, tokenizer = get_model(model)
    if not isinstance(encoder, BertModel):
        raise UserError(f"{model} is no BERT, and only BERTs are fine-tuned here: choose another --model")
    settings = dataclasses.replace(settings, max_length=_length(task, max_length, encoder))
    seed_everything(settings.seed)
    trained = _head(task)(encoder, task_object.labels)
    with claimed(out) as folder:
        checkpoint = _checkpoint_of(folder) if resume else None
        with _interruptible(checkpoint):
            history = fine_tune(
                trained,
                task_object,
                tokenizer,
                train_examples,
                dev_examples,
                settings,
                best_device(),
                checkpoint=checkpoint,
            )
        publish(folder, lambda staging: _save(trained.cpu(), tokenizer, history, staging))
        if checkpoint is not None:
            shutil.rmtree(checkpoint, ignore_errors=True)
    score = history.best_by
    for record in history:
        print(f"epoch {record['epoch']}: loss {record['loss']:.4f}, dev {score} {record[score]:.4f}")
    print(json.dumps(history.best))


def evaluate(
    task: Task,
    model: Model,
    data_set: Annotated[str, typer.Option("--data", help="a data set's name or a FILE")],
    split: Annotated[str, typer.Option("--split", help="of a named data set")] = "dev",
    format: Format = None,
    max_length: MaxLength = None,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="file for the answers; by default in the model's folder")
    ] = None,
) -> None:
    """Score a fine-tuned model; the last line printed is one JSON object of metrics.

    Then the answer to every example is written to a file, one JSON object a line.
    """
    named_task(task)
    if predictions is not None and predictions.is_dir():
        raise UserError(f"--predictions {predictions} is a folder: name a file")
    from d2lbert.torch.runtime import best_device
    from d2lbert.torch.training.evaluation import evaluate as score
    from d2lbert.zoo.folders import locate

    trained, tokenizer = _load(task, model)
    task_object, length = _task_of(task, trained), _length(task, max_length, trained.bert)
    examples = _read(task, data_set, split, format, task_object.labels)
    device = best_device()
    scores, predicted = score(trained.to(device), task_object, tokenizer, examples, length, device)
    name = f"{data_set}-{split}" if data_set in data.names() else Path(data_set).name
    print(json.dumps({**scores, "examples": len(examples)}))
    _write_predictions(predictions, locate(model) / f"predictions-{name}.jsonl", examples, predicted)


def predict(
    task: Task,
    model: Model,
    text: Annotated[
        list[str],
        typer.Option("--text", help="a text, a text to ask about, or a premise; may be given several times"),
    ],
    pair: Annotated[
        list[str] | None,
        typer.Option("--pair", help="the second text of each pair; the question; or a choice, two or more of them"),
    ] = None,
    max_length: MaxLength = None,
) -> None:
    """Answer for texts; prints one JSON object a text.

    A question with choices is one --text, the premise, and one --pair for every choice. For a model of COPA the
    premise ends in "What was the cause?" or in "What happened as a result?".
    """
    named = named_task(task)
    named.check_texts(task, text, pair or [])
    from d2lbert.torch.runtime import best_device
    from d2lbert.torch.training.evaluation import predict as predict_examples

    trained, tokenizer = _load(task, model)
    length, device = _length(task, max_length, trained.bert), best_device()
    examples = named.of_texts(text, pair or [], trained.labels)
    predictions = predict_examples(trained.to(device), _task_of(task, trained), tokenizer, examples, length, device)
    for index, prediction in enumerate(predictions):
        seconds = {"pair": _short(pair[index])} if pair and named.seconds == 1 else {}
        print(json.dumps({"text": _short(text[index]), **seconds, **prediction}))


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "..."


def _read(task: str, source: str, split: str, format: str | None, labels: Sequence[str] | None) -> list[Any]:
    """Read the examples of a task from a named data set or a file."""
    if source in data.names():
        return fitting_examples(task, source, data.load(source, split))
    if Path(source).is_file():
        return data.read_file(source, format or guess_format(source, task), labels, task)
    if "/" in source or "." in source:
        raise UserError(f"no file {source}: check the path, or give the name of a data set")
    raise unknown_name("data set", source, data.names())


def _head(task: str) -> Any:
    """Return the model class that a task trains."""
    from d2lbert.torch import heads

    return getattr(heads, named_task(task).head)


def _task_of(task: str, trained: Any) -> TaskProtocol:
    """Return the task that a model was fine-tuned for."""
    return named_task(task).of_model(trained.labels, getattr(trained, "null_threshold", None))


def _load(task: str, model: str) -> tuple[Any, Tokenizer]:
    """Load a fine-tuned model and its tokenizer, and check that they fit."""
    from d2lbert.models import tokenizer_of
    from d2lbert.zoo.folders import locate

    folder = locate(model)
    trained = _head(task).from_pretrained(folder)
    return trained, tokenizer_of(folder, trained.bert.config)


def _length(task: str, requested: int | None, encoder: Any) -> int:
    """Return the longest input in tokens: as requested, or else the task's default, as far as the encoder allows."""
    positions = int(encoder.config.max_position_embeddings)
    if requested is None:
        return min(named_task(task).max_length, positions)
    if not 3 <= requested <= positions:
        raise UserError(f"--max-length is {requested}: this model takes 3 to {positions} tokens")
    return requested


def _write_predictions(path: Path | None, default: Path, examples: Sequence[Any], predictions: Sequence[Any]) -> None:
    """Write each example with its prediction; if the default path cannot be written, only warn."""
    rows = [
        _json_line({"example": dataclasses.asdict(example), **prediction})
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    try:
        write_text(path or default, "\n".join(rows) + "\n")
    except UserError as error:
        if path is not None:
            raise
        warnings.warn(f"no file of predictions ({error}); --predictions names another place", stacklevel=2)


def _json_line(row: dict[str, Any]) -> str:
    """Return readable JSON; it is escaped only where a text holds half a surrogate pair, which UTF-8 cannot encode."""
    line = json.dumps(row, ensure_ascii=False)
    return line if line.encode("utf-8", "ignore").decode() == line else json.dumps(row)


def _save(trained: Any, tokenizer: Tokenizer, history: Sequence[dict[str, float]], folder: Path) -> None:
    """Write the model and its history into a folder."""
    trained.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_text(folder / "training.json", json.dumps(history, indent=2) + "\n")


def _checkpoint_of(folder: Path) -> Path:
    """Return the folder of the checkpoints of a run into ``folder``, an absolute path."""
    return folder.with_name(f"{folder.name}.checkpoint")


def _mention_old_checkpoint(folder: Path, resume: bool) -> None:
    """Say that there is something to go on from, where the command does not ask for it."""
    checkpoint = _checkpoint_of(folder)
    if not resume and checkpoints.begun(checkpoint):
        print(f"{checkpoint} is of a run that was stopped; only --resume goes on with it", file=sys.stderr)


@contextlib.contextmanager
def _interruptible(checkpoint: Path | None) -> Iterator[None]:
    """In this context Ctrl-C ends the command, and a line tells what is left."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoints.begun(checkpoint):
            left = f"the same command goes on from the last whole epoch, in {checkpoint}"
        else:
            left = "nothing was written"
        print(f"interrupted; {left}", file=sys.stderr)
        sys.exit(INTERRUPTED)
