"""commands/group: names and help without the modules, options when a command is called."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest
from typer.testing import CliRunner

from d2lbert.cli import app
from d2lbert.commands.group import COMMANDS, help_of, imported


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_is_the_docstring_of_the_function(name: str) -> None:
    module, function = COMMANDS[name]
    assert help_of(name) == inspect.getdoc(getattr(import_module(f"d2lbert.commands.{module}"), function))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_its_options_when_it_is_called(name: str) -> None:
    output = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    options = {option for parameter in imported(name).params for option in parameter.opts}
    assert f"{name} [OPTIONS]" in output
    assert not [option for option in options if option.startswith("--") and option not in output]


def test_a_command_without_a_docstring_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "nothing", ("models", "nothing"))
    with pytest.raises(LookupError, match=r"models\.py has no function nothing"):
        help_of("nothing")


def test_only_the_module_of_the_command_is_imported() -> None:
    program = (
        "import sys\nfrom d2lbert.cli import app\n"
        "from d2lbert.commands.group import imported\nimported('models')\n"
        "print(*sorted(name for name in sys.modules if name.startswith('d2lbert.commands.')))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["d2lbert.commands.data", "d2lbert.commands.group", "d2lbert.commands.models"]
