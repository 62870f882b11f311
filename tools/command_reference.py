"""The command line's reference, made from the program itself: a table of arguments and options for each command.

The options of a command come from its own parameters and from the settings that it takes (``commands/options.py``), so
nothing is written here a second time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo

from d2lbert.cli import app
from d2lbert.commands.group import COMMANDS, function_of

_PROGRAM = "d2lbert"
_KINDS = {str: "text", int: "integer", float: "number", Path: "path", bool: ""}
Command = Callable[..., Any]


def commands() -> list[tuple[str, Command]]:
    """Return every command: its full name, such as ``d2lbert data list``, and its function."""
    return list(_commands(_PROGRAM, app))


def _commands(name: str, group: typer.Typer) -> Iterator[tuple[str, Command]]:
    for one in group.registered_commands:
        callback = function_of(one.name) if group is app and one.name in COMMANDS else one.callback
        if callback is not None:
            yield f"{name} {one.name or callback.__name__}", callback
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            yield from _commands(f"{name} {inner.name}", inner.typer_instance)


def command_sections() -> str:
    """Return the sections of all commands in Markdown."""
    return "\n\n".join(_section(name, command) for name, command in commands())


def _section(name: str, command: Command) -> str:
    parameters = [_read(one) for one in inspect.signature(command, eval_str=True).parameters.values()]
    parameters.sort(key=lambda one: not isinstance(one[0], ArgumentInfo))
    words = [_written(info, one) for info, one, *_ in parameters if isinstance(info, ArgumentInfo)]
    usage = [name, *words] + ["[OPTIONS]"] * (len(words) < len(parameters))
    parts = [f"## `{name}`", f"```text\n{' '.join(usage)}\n```", inspect.cleandoc(command.__doc__ or "")]
    if parameters:
        rows = [_row(*one) for one in parameters]
        parts.append("\n".join(["| Option | Default | Meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _read(parameter: inspect.Parameter) -> tuple[Any, inspect.Parameter, Any, Any]:
    """Return what typer knows of a parameter, the parameter, its type and its default."""
    annotation, default = parameter.annotation, parameter.default
    if get_origin(annotation) is Annotated:
        kind, info = get_args(annotation)[:2]
        return info, parameter, kind, default
    if isinstance(default, (OptionInfo, ArgumentInfo)):  # as options_from_settings writes them
        return default, parameter, annotation, default.default
    return OptionInfo(), parameter, annotation, default


def _row(info: Any, parameter: inspect.Parameter, kind: Any, default: Any) -> str:
    """Return the row of an argument or an option: how it is written, its default, what it means."""
    written = f"`{_written(info, parameter)}`"
    if isinstance(info, OptionInfo) and (follows := _kind(kind, info)):
        written += f" *{follows}*"
    cells = [written, _default(default), info.help or ""]
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _written(info: Any, parameter: inspect.Parameter) -> str:
    if isinstance(info, ArgumentInfo):
        return info.metavar or parameter.name.upper()
    given = [info.default, *(info.param_decls or ())]  # beside a type, what stands first counts as the default
    switches = [name for name in given if isinstance(name, str) and name.startswith("-")]
    return ", ".join(switches) or f"--{parameter.name.replace('_', '-')}"


def _kind(annotation: Any, info: OptionInfo) -> str:
    """Return what follows an option, such as ``integer, at least 1``; nothing for a switch."""
    inner = [one for one in get_args(annotation) if one is not type(None)]
    if inner:  # a list, or something that may be None
        return _kind(inner[0], info)
    bounds = [f"at least {info.min}"] * (info.min is not None) + [f"at most {info.max}"] * (info.max is not None)
    return ", ".join([info.metavar or _KINDS[annotation], *bounds])


def _default(value: Any) -> str:
    """Return the default as it would be written; a dash where there is none."""
    if value is inspect.Parameter.empty or value is ...:
        return "required"
    if value is None or value == "":
        return "–"
    return ("on" if value else "off") if isinstance(value, bool) else f"`{value}`"
