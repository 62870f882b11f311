"""The ``d2lbert`` command.

A user's mistake, and whatever the operating system refuses, ends in one line on standard error and exit status 2: here
is the boundary at which errors become lines. An error of the program keeps its trace. The module of a command is
imported when it is called, and PyTorch only where it is needed, so that ``--help`` and ``data list`` respond at once.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from typing import Annotated, Any

import typer

from d2lbert import __version__
from d2lbert.commands.data import fetch_data, list_data
from d2lbert.commands.group import CommandGroup, add_commands
from d2lbert.errors import BROKEN_PIPE, INTERRUPTED, UserError, is_out_of_memory, refused_by_system

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

STANDARD_OUTPUT = "standard output"

app = typer.Typer(cls=CommandGroup, add_completion=False, help="Contextual text representations: data and models.")
data_app = typer.Typer(help="The data sets of the book.")
data_app.command("list")(list_data)
data_app.command("fetch")(fetch_data)
app.add_typer(data_app, name="data")


def _print_version(asked: bool) -> None:
    if asked:
        print(f"d2lbert {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="print the version and exit", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a command."""


add_commands(app)


class _StandardOutput(io.FileIO):
    """The file behind ``print``: what it cannot write is said to be of standard output."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


def _name_output() -> None:
    """Let errors of standard output name it, as those of any other file name theirs."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):  # it is None where the shell closed it
        return
    with contextlib.suppress(io.UnsupportedOperation):  # it may be no file, but memory that collects what is printed
        file = _StandardOutput(os.dup(stream.fileno()), "wb")
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(file), stream.encoding, stream.errors, line_buffering=stream.line_buffering
        )


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def main() -> None:
    """Run the command line and exit. Whatever a user can mend ends in one line; an error of the program, in its trace.

    The status is 0 or what the command gives; 2 after a mistake, or where the operating system refused something (a
    path, a full disk, memory); 130 after Ctrl-C; 141 where nobody reads the output any more, without a word.
    """
    try:
        warnings.showwarning = _show_warning
        _name_output()
        status = _run()
    except SystemExit as end:  # a command that was interrupted has said what is left
        # Where a pipe breaks inside a command, Typer exits with status 1.
        sys.exit(BROKEN_PIPE if isinstance(end.__context__, BrokenPipeError) else end.code)
    except (CommandLineError, UserError, OSError, RuntimeError, MemoryError) as error:
        status = _complain(error)
    except (typer.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    if status == INTERRUPTED:  # newer versions of Typer return it
        print("interrupted", file=sys.stderr)
    sys.exit(status or 0)


def _run() -> Any:
    """Run the command and return its status, once all that it printed has left this process."""
    status = app(standalone_mode=False)
    if sys.stdout is not None:  # it is None where the shell closed it
        sys.stdout.flush()
    return status


def _complain(error: Exception) -> int:
    """Print an error in one line and return the exit status; an error of the program is raised again."""
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return BROKEN_PIPE
    message = _message_of(error)
    if message is None:
        raise error
    with contextlib.suppress(OSError):  # standard error may be full as well
        print(f"d2lbert: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _message_of(error: Exception) -> str | None:
    """Return what to tell the user; None for an error of the program."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, CommandLineError):
        return f"{error.format_message()} (see d2lbert --help)"
    if isinstance(error, OSError):
        if error.filename == STANDARD_OUTPUT:
            _drop_output()
        return str(refused_by_system(error))
    text = str(error)
    if is_out_of_memory(error):
        return "not enough memory: give smaller files, sizes or batches, or a machine with more memory"
    # Of pathlib, up to Python 3.12.
    if text.startswith("Symlink loop"):
        return f"{text}: a symbolic link leads back to itself, name the place itself"
    if text.startswith("Could not determine home directory"):
        return "a path begins with ~ and the name of a user who has no home here: write it out"
    return None


def _drop_output() -> None:
    """Let what is still to be printed go nowhere: Python tries once more at its end, and would complain again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard output may be no file, or closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
