"""Options of the command line, made from the dataclasses of settings, which state name, default and meaning."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from inspect import Parameter
from typing import Any

import typer

from d2lbert.config.settings import Settings

Command = Callable[..., None]


def options_from_settings(renamed: Mapping[str, str]) -> Callable[[Command], Command]:
    """Return a decorator that turns a command's parameters of a settings class into options, one for each field.

    A field ``batch_size`` becomes ``--batch-size``, and the command gets the settings, built and checked. A field gives
    no option if the command has a parameter of the same name, or if it holds other settings. Fields with the same name
    in two classes give one option, which sets both.

    Args:
        renamed: field -> the name of its option, where that differs, such as ``--lr``.
    """

    def decorate(command: Command) -> Command:
        parameters = inspect.signature(command, eval_str=True).parameters.values()
        classes = {p.name: p.annotation for p in parameters if _is_settings(p.annotation)}
        own = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in parameters if p.name not in classes]
        options = _options(classes.values(), {p.name for p in own}, renamed)

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            settings = {
                name: kind(**{field.name: arguments[field.name] for field in fields(kind) if field.name in options})
                for name, kind in classes.items()
            }
            command(**{p.name: arguments[p.name] for p in own}, **settings)

        run.__signature__ = inspect.Signature([*own, *options.values()])  # type: ignore[attr-defined]
        return run

    return decorate


def _is_settings(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def _options(
    classes: Iterable[type[Settings]], taken: Collection[str], renamed: Mapping[str, str]
) -> dict[str, Parameter]:
    """Return for each field the parameter from which typer makes its option.

    Raises:
        ValueError: two classes have different defaults for fields of the same name.
    """
    defaults: dict[str, Any] = {}
    meanings: dict[str, list[str]] = {}
    for settings in classes:
        for field in fields(settings):
            if field.name in taken or isinstance(field.default, Settings):
                continue
            if defaults.setdefault(field.name, field.default) != field.default:
                raise ValueError(f"{field.name} has two defaults: make it a parameter of the command")
            meanings.setdefault(field.name, []).append(settings.meanings[field.name].meaning)
    return {
        name: Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=typer.Option(default, _switch(name, default, renamed), help="; ".join(meanings[name])),
            annotation=type(default),
        )
        for name, default in defaults.items()
    }


def _switch(name: str, default: Any, renamed: Mapping[str, str]) -> str:
    """Return what a user types for a field; an option that is on by default gets a switch to turn it off."""
    switch = renamed.get(name, f"--{name.replace('_', '-')}")
    return f"{switch}/--no-{switch.removeprefix('--')}" if default is True else switch
