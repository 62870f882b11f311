"""Options of the command line, made from the dataclasses of settings: name, default and meaning are written there."""

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
    """Return a decorator for commands. A parameter whose type is a class of settings stands for options: its fields.

    A field ``batch_size`` becomes ``--batch-size``, and the command gets the settings, built and checked. No option is
    made of a field that the command has as a parameter of its own, nor of one that holds other settings. Fields of one
    name in two classes are one option, which sets both.

    Args:
        renamed: field -> the option's name, where that is another, such as ``--lr``.
    """

    def decorate(command: Command) -> Command:
        parameters = inspect.signature(command, eval_str=True).parameters.values()
        classes = {one.name: one.annotation for one in parameters if _is_settings(one.annotation)}
        own = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters if one.name not in classes]
        options = _options(classes.values(), {one.name for one in own}, renamed)

        @functools.wraps(command)
        def run(**given: Any) -> None:
            settings = {
                name: one(**{field.name: given[field.name] for field in fields(one) if field.name in options})
                for name, one in classes.items()
            }
            command(**{one.name: given[one.name] for one in own}, **settings)

        run.__signature__ = inspect.Signature([*own, *options.values()])  # type: ignore[attr-defined]
        return run

    return decorate


def _is_settings(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def _options(
    classes: Iterable[type[Settings]], taken: Collection[str], renamed: Mapping[str, str]
) -> dict[str, Parameter]:
    """Return the parameters from which typer makes options, by the names of the fields."""
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
    """Return what is typed for a field; what is on by default can be switched off."""
    switch = renamed.get(name, f"--{name.replace('_', '-')}")
    return f"{switch}/--no-{switch.removeprefix('--')}" if default is True else switch
