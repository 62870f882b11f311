"""Options made from small classes of settings: names, defaults, meanings, what arrives, what is refused."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer

from d2lbert import UserError
from d2lbert.cli import CommandLineError
from d2lbert.commands.options import options_from_settings
from d2lbert.config.settings import Settings, setting


@dataclass(frozen=True)
class One(Settings):
    """Settings of a test."""

    seed: int = setting(3, "of the one", at_least=0)
    size: int = setting(1, "how large", at_least=1)
    on: bool = setting(True, "or off")


@dataclass(frozen=True)
class Other(Settings):
    """More settings."""

    seed: int = setting(3, "of the other", at_least=0)
    inner: One = setting(One(), "a part")


@dataclass(frozen=True)
class Odd(Settings):
    """Settings with another default."""

    seed: int = setting(4, "of the odd one", at_least=0)


@dataclass(frozen=True)
class Every(Settings):
    """One field of each kind."""

    batch_size: int = setting(32, "texts for one step", above=0)
    learning_rate: float = setting(0.5, "how fast", above=0)
    shape: str = setting("round", "of the table", one_of=("round", "square"))
    packed: bool = setting(True, "several texts in a row")
    quiet: bool = setting(False, "say nothing")


def _app(command: Any) -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return app


def _options(command: Any) -> dict[str, Any]:
    return {one.name: one for one in typer.main.get_command(_app(command)).params}  # type: ignore[attr-defined]


@pytest.fixture
def calls() -> list[Every]:
    """The settings with which the command was called."""
    return []


@pytest.fixture
def command(calls: list[Every]) -> Any:
    """A command with one option for each field of ``Every``."""

    @options_from_settings({"learning_rate": "--lr"})
    def work(every: Every) -> None:
        """Do the work."""
        calls.append(every)

    return work


def test_names_defaults_types_and_meanings_are_those_of_the_fields(command: Any) -> None:
    found = {name: (one.opts, one.secondary_opts, one.default, one.help) for name, one in _options(command).items()}
    assert found == {
        "batch_size": (["--batch-size"], [], 32, "texts for one step"),
        "learning_rate": (["--lr"], [], 0.5, "how fast"),
        "shape": (["--shape"], [], "round", "of the table"),
        "packed": (["--packed"], ["--no-packed"], True, "several texts in a row"),
        "quiet": (["--quiet"], [], False, "say nothing"),
    }
    assert {name: one.annotation for name, one in inspect.signature(command).parameters.items()} == {
        "batch_size": int,
        "learning_rate": float,
        "shape": str,
        "packed": bool,
        "quiet": bool,
    }


def test_the_command_keeps_its_name_and_its_words(command: Any) -> None:
    assert (command.__name__, command.__doc__) == ("work", "Do the work.")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], Every()),
        (["--batch-size", "7", "--lr", "2"], Every(batch_size=7, learning_rate=2.0)),
        (["--shape", "square", "--quiet"], Every(shape="square", quiet=True)),
        (["--no-packed"], Every(packed=False)),
        (["--no-packed", "--packed"], Every()),
    ],
)
def test_what_is_given_arrives(command: Any, calls: list[Every], given: list[str], expected: Every) -> None:
    _app(command)(given, standalone_mode=False)
    assert calls == [expected]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--batch-size", "0"], r"^settings: batch_size is 0; it must be above 0 \(texts for one step\)$"),
        (["--lr", "nan"], "^settings: learning_rate is nan; it must be above 0"),
        (["--shape", "squar"], r"^settings: unknown shape 'squar': did you mean square\?$"),
    ],
)
def test_the_settings_refuse_what_is_out_of_bounds(
    command: Any, calls: list[Every], given: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        _app(command)(given, standalone_mode=False)
    assert calls == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--batch-size", "many"], "'--batch-size'"),
        (["--lr", "fast"], "'--lr'"),
        (["--learning-rate", "1"], "No such option: --learning-rate"),
        (["--no-quiet"], "No such option: --no-quiet"),
        (["--batch-size"], "'--batch-size' requires an argument"),
    ],
)
def test_the_command_line_refuses_what_is_no_option_or_of_another_type(
    command: Any, calls: list[Every], given: list[str], named: str
) -> None:
    with pytest.raises(CommandLineError) as caught:
        _app(command)(given, standalone_mode=False)
    assert named in caught.value.format_message()  # type: ignore[attr-defined]
    assert calls == []


def test_one_name_in_two_classes_is_one_option_and_a_parameter_comes_first() -> None:
    calls = []

    @options_from_settings({"on": "--light"})
    def command(one: One, other: Other, size: Annotated[int, typer.Option("--size")] = 9) -> None:
        """Do nothing."""
        calls.append((one, other, size))

    _app(command)(["--seed", "5", "--no-light"], standalone_mode=False)
    assert calls == [(One(seed=5, size=1, on=False), Other(seed=5), 9)]
    assert list(_options(command)) == ["size", "seed", "on"]  # none is made of a field that holds other settings
    assert _options(command)["seed"].help == "of the one; of the other"
    with pytest.raises(UserError, match="settings: seed is -5"):
        _app(command)(["--seed", "-5"], standalone_mode=False)


def test_two_defaults_of_one_name_are_refused() -> None:
    def command(one: One, odd: Odd) -> None:
        """Do nothing."""

    with pytest.raises(ValueError, match="seed has two defaults"):
        options_from_settings({})(command)


def test_two_defaults_are_fine_where_the_command_has_its_own() -> None:
    calls = []

    @options_from_settings({})
    def command(one: One, odd: Odd, seed: int = 8) -> None:
        """Do nothing."""
        calls.append((one, odd, seed))

    _app(command)([], standalone_mode=False)
    assert calls == [(One(), Odd(), 8)]
