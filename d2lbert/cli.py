"""The ``d2lbert`` command.

A user's mistake ends in one line on standard error and exit status 2. PyTorch is imported only by the commands that
need it, so that ``--help`` and ``data list`` answer at once.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from d2lbert import data
from d2lbert.errors import UserError, unknown_name
from d2lbert.files import writable_folder, write_text
from d2lbert.pretrain_command import pretrain
from d2lbert.tasks.base import check_task

if TYPE_CHECKING:
    from d2lbert.data import Sentence

# Newer versions of Typer carry their own copy of click; this is the public way to its base exception in all of them.
_UsageError: Any = typer.BadParameter.__mro__[2]

_INTERRUPTED = 130  # 128 + SIGINT, as in a shell

app = typer.Typer(add_completion=False, help="Contextual text representations: data and models.")
data_app = typer.Typer(help="The data sets of the book.")
app.add_typer(data_app, name="data")
app.command()(pretrain)

Task = Annotated[str, typer.Argument(metavar="TASK", help="classification")]
Model = Annotated[str, typer.Option("--model", help="a model folder, or a name such as minilm")]
Format = Annotated[
    str | None, typer.Option("--format", help="of a FILE: sst2, glue-tsv or csv; by its ending otherwise")
]
MaxLength = Annotated[int, typer.Option("--max-length", help="longest text in tokens; the rest is cut off")]


@data_app.command("list")
def list_data() -> None:
    """Show every data set: task, size, licence, and where it would be read from."""
    for entry in data.describe():
        size = f"{entry['size'] / 1e6:.1f} MB"
        print(f"{entry['name']:20} {size:>9}  {entry['where']:10}  {entry['task']}  [{entry['licence']}]")


@data_app.command("fetch")
def fetch_data(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Download a data set, check it, and print its folder."""
    print(data.fetch(name))


@app.command()
def finetune(
    task: Task,
    model: Model,
    train: Annotated[str, typer.Option("--train", help="a data set's name or a FILE")],
    dev: Annotated[str, typer.Option("--dev", help="a data set's name or a FILE")],
    out: Annotated[Path, typer.Option("--out", help="folder for the trained model; must be new or empty")],
    format: Format = None,
    epochs: Annotated[int, typer.Option("--epochs")] = 5,
    batch_size: Annotated[int, typer.Option("--batch-size")] = 32,
    lr: Annotated[float, typer.Option("--lr", help="highest learning rate")] = 1e-4,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    max_length: MaxLength = 128,
) -> None:
    """Fine-tune a model on a task and keep the epoch that is best on --dev."""
    check_task(task)
    workplace = _check_out(out)
    train_examples = _read(train, "train", format, None)
    labels = sorted({example.label for example in train_examples if example.label is not None})
    dev_examples = _read(dev, "dev", format, labels)
    from d2lbert.tasks.classification import Classification
    from d2lbert.text import WordPiece
    from d2lbert.torch.finetuning import Training, fine_tune
    from d2lbert.torch.heads import BertForSequenceClassification
    from d2lbert.torch.runtime import best_device, seed_everything
    from d2lbert.zoo import get_model

    settings = Training(epochs=epochs, batch_size=batch_size, learning_rate=lr, seed=seed, max_length=max_length)
    chosen = Classification(labels)
    encoder, tokenizer = get_model(model)
    _check_length(max_length, encoder.config.max_position_embeddings)
    seed_everything(seed)
    classifier = BertForSequenceClassification(encoder, chosen.labels)
    history = fine_tune(classifier, chosen, tokenizer, train_examples, dev_examples, settings, best_device())
    with tempfile.TemporaryDirectory(prefix=".d2lbert-", dir=workplace) as folder:
        classifier.cpu().save_pretrained(folder)
        assert isinstance(tokenizer, WordPiece)
        tokenizer.save_pretrained(folder)
        write_text(Path(folder) / "training.json", json.dumps(history, indent=2) + "\n")
        _move(Path(folder), out)
    for record in history:
        print(f"epoch {record['epoch']}: loss {record['loss']:.4f}, dev accuracy {record['accuracy']:.4f}")
    print(json.dumps(max(history, key=lambda record: record["accuracy"])))


@app.command()
def evaluate(
    task: Task,
    model: Model,
    data_set: Annotated[str, typer.Option("--data", help="a data set's name or a FILE")],
    split: Annotated[str, typer.Option("--split", help="of a named data set")] = "dev",
    format: Format = None,
    max_length: MaxLength = 128,
) -> None:
    """Score a fine-tuned model; the last line printed is one JSON object of metrics."""
    check_task(task)
    from d2lbert.tasks.classification import Classification
    from d2lbert.torch.finetuning import compute_logits
    from d2lbert.torch.runtime import best_device

    classifier, tokenizer = _load_classifier(model, max_length)
    chosen = Classification(classifier.labels)
    examples = _read(data_set, split, format, list(chosen.labels))
    device = best_device()
    logits = compute_logits(classifier.to(device), chosen.encode(examples, tokenizer, max_length), tokenizer, device)
    print(json.dumps({**chosen.metrics(chosen.targets(examples), logits), "examples": len(examples)}))


@app.command()
def predict(
    task: Task,
    model: Model,
    text: Annotated[list[str], typer.Option("--text", help="a text; may be given several times")],
    max_length: MaxLength = 128,
) -> None:
    """Classify texts; prints one JSON object a text."""
    check_task(task)
    if not all(one.strip() for one in text):
        raise UserError("--text is empty: give a text with at least one word")
    from d2lbert.data import Sentence
    from d2lbert.tasks.classification import Classification
    from d2lbert.torch.finetuning import predict as answer
    from d2lbert.torch.runtime import best_device

    classifier, tokenizer = _load_classifier(model, max_length)
    examples = [Sentence(one) for one in text]
    device = best_device()
    answers = answer(classifier.to(device), Classification(classifier.labels), tokenizer, examples, max_length, device)
    for one, found in zip(text, answers, strict=True):
        print(json.dumps({"text": one if len(one) <= 200 else one[:200] + "...", **found}))


def _read(source: str, split: str, format: str | None, labels: list[str] | None) -> list[Sentence]:
    """Read labelled sentences from a named data set or a file."""
    if source in data.names():
        examples = data.load(source, split)
        _check_sentences(source, examples)
    elif Path(source).is_file():
        by_ending = "csv" if Path(source).name.split(".", 1)[-1].startswith("csv") else "sst2"
        return data.read_file(source, format or by_ending, labels)
    elif "/" in source or "." in source:
        raise UserError(f"no file {source}: check the path, or give the name of a data set")
    else:
        raise unknown_name("data set", source, data.names())
    return examples


def _check_sentences(name: str, examples: list[Any]) -> None:
    from d2lbert.data import Sentence

    if not examples or not isinstance(examples[0], Sentence):
        raise UserError(f"data set {name!r} holds no labelled sentences: choose another, such as sst2")


def _load_classifier(model: str, max_length: int) -> tuple[Any, Any]:
    """Load a fine-tuned model and its tokenizer, and check that they fit."""
    from d2lbert.text import WordPiece
    from d2lbert.torch.heads import BertForSequenceClassification
    from d2lbert.zoo import check_vocabulary, locate

    folder = locate(model)
    classifier = BertForSequenceClassification.from_pretrained(folder)
    tokenizer = WordPiece.from_pretrained(folder)
    check_vocabulary(tokenizer, classifier.bert.config.vocab_size, folder)
    _check_length(max_length, classifier.bert.config.max_position_embeddings)
    return classifier, tokenizer


def _check_length(max_length: int, positions: int) -> None:
    if not 3 <= max_length <= positions:
        raise UserError(f"--max-length is {max_length}: this model takes 3 to {positions} tokens")


def _check_out(out: Path) -> Path:
    """Refuse a used or unwritable --out before the training, not after it; return the folder to prepare it in."""
    if out.is_dir():
        if any(out.iterdir()):
            raise UserError(f"--out {out} is not empty: choose a new folder, so that nothing is overwritten")
        return writable_folder(out)
    return writable_folder(out.parent)


def _move(source: Path, target: Path) -> None:
    """Put a finished folder in its place. An existing folder is filled, not replaced: it may be a mounted volume."""
    try:
        if target.is_dir():
            for path in sorted(source.iterdir(), reverse=True):  # config.json last: with it the folder is a model
                path.rename(target / path.name)
        else:
            source.rename(target)
            source.mkdir()  # the temporary folder's owner will remove it
            target.chmod(0o755)
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}; choose another --out") from None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def main() -> None:
    """Run the command line; a mistake is one line and exit status 2, Ctrl-C one line and 130."""
    warnings.showwarning = _show_warning
    try:
        status = app(standalone_mode=False)
    except _UsageError as error:
        sys.exit(_complain(f"{error.format_message()} (see d2lbert --help)"))
    except UserError as error:
        sys.exit(_complain(str(error)))
    except (typer.Abort, KeyboardInterrupt):
        status = _INTERRUPTED
    if status == _INTERRUPTED:  # newer versions of Typer return it
        print("interrupted; nothing was written", file=sys.stderr)
    sys.exit(status or 0)


def _complain(message: str) -> int:
    print(f"d2lbert: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
