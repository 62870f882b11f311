"""The commands by name. The module of a command is imported when somebody calls it, not for the list of all.

So ``d2lbert --help`` loads no data and no NumPy, and ``d2lbert predict`` nothing that only ``finetune`` needs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

# What a user types -> the module in this folder, and the function in it.
COMMANDS = {
    "pretrain": ("pretrain", "pretrain"),
    "finetune": ("finetune", "finetune"),
    "evaluate": ("predict", "evaluate"),
    "predict": ("predict", "predict"),
    "inspect": ("inspect", "inspect"),
    "export": ("export", "export"),
    "serve": ("serve", "serve"),
    "doctor": ("doctor", "doctor"),
    "models": ("models", "list_models"),
}


class CommandGroup(TyperGroup):
    """A group in which a command of :data:`COMMANDS` is a mere name with its help until it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, now with its options.

        ``get_command`` is not the place: the help of the group asks it for every command.
        """
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = imported(args[0])
        return super().resolve_command(ctx, args)


def add_commands(app: typer.Typer) -> None:
    """Give an application, whose group is a :class:`CommandGroup`, the names of all commands with their help."""
    for name in COMMANDS:
        app.command(name, help=help_of(name))(_not_imported)


def imported(name: str) -> Any:
    """Import the module of a command, and return the command as Typer makes it of the function."""
    alone = typer.Typer(add_completion=False)
    alone.command(name)(function_of(name))
    return typer.main.get_command(alone)


def function_of(name: str) -> Callable[..., Any]:
    """Import the module of a command, and return its function."""
    module, function = COMMANDS[name]
    found: Callable[..., Any] = getattr(import_module(f"d2lbert.commands.{module}"), function)
    return found


def help_of(name: str) -> str:
    """Return the docstring of a command's function, read from the source: importing it would take twenty times as long.

    Raises:
        LookupError: the module has no such function, or it has no docstring.
    """
    module, function = COMMANDS[name]
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function and (text := ast.get_docstring(node)):
            return text
    raise LookupError(f"{module}.py has no function {function} with a docstring")


def _not_imported() -> None:
    """Stand in for a command until it is called; see :class:`CommandGroup`."""
