"""The ``d2lbert`` command.

A user's mistake ends in one line on standard error and exit status 2. PyTorch is imported only by the commands that
need it, so that ``--help`` and ``data list`` respond at once.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import typer

from d2lbert.commands.data import fetch_data, list_data
from d2lbert.commands.doctor import doctor
from d2lbert.commands.finetune import finetune
from d2lbert.commands.inspect import inspect
from d2lbert.commands.models import list_models
from d2lbert.commands.predict import evaluate, predict
from d2lbert.commands.pretrain import pretrain
from d2lbert.errors import INTERRUPTED, UserError

# The base class of the errors that a wrong command line raises. Typer has this name since 0.28. Before, it was click's
# exception: from the package click up to 0.25, from Typer's own copy, without a public name, in 0.26 and 0.27.
CommandLineError: Any
try:
    from typer import TyperException as CommandLineError
except ImportError:
    try:
        from typer._click import ClickException as CommandLineError
    except ImportError:
        from click import ClickException as CommandLineError

app = typer.Typer(add_completion=False, help="Contextual text representations: data and models.")
data_app = typer.Typer(help="The data sets of the book.")
data_app.command("list")(list_data)
data_app.command("fetch")(fetch_data)
app.add_typer(data_app, name="data")
app.command()(pretrain)
app.command()(finetune)
app.command()(evaluate)
app.command()(predict)
app.command()(inspect)
app.command()(doctor)
app.command("models")(list_models)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def main() -> None:
    """Run the command line. A mistake ends in one line and exit status 2, Ctrl-C in one line and 130."""
    warnings.showwarning = _show_warning
    try:
        status = app(standalone_mode=False)
    except CommandLineError as error:
        sys.exit(_complain(f"{error.format_message()} (see d2lbert --help)"))
    except UserError as error:
        sys.exit(_complain(str(error)))
    except (typer.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    if status == INTERRUPTED:  # newer versions of Typer return it
        print("interrupted", file=sys.stderr)
    sys.exit(status or 0)


def _complain(message: str) -> int:
    print(f"d2lbert: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
