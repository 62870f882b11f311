"""MXNet's import leaves the threads of OpenMP, and with them PyTorch's, as they were."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from d2lbert.mxnet import openmp

PROGRAM = """
import os, sys
first, second = sys.argv[1:]
__import__(first)
__import__(second)
import torch
from mxnet import nd
nd.dot(nd.ones((64, 64)), nd.ones((64, 64))).wait_to_read()
print(torch.get_num_threads(), "OMP_NUM_THREADS" in os.environ)
"""


def threads_of_pytorch(*order: str, **variables: str) -> str:
    """Import both, let MXNet compute, and return PyTorch's threads and whether the variable is set."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | variables
    command = [sys.executable, "-c", PROGRAM, *order]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


@pytest.mark.parametrize("order", [("torch", "d2lbert.mxnet"), ("d2lbert.mxnet", "torch")], ids=" ".join)
@pytest.mark.parametrize("set_by_the_user", ["", "1"])
def test_pytorch_keeps_its_threads(order: tuple[str, str], set_by_the_user: str) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    variables = {"OMP_NUM_THREADS": set_by_the_user} if set_by_the_user else {}
    threads = set_by_the_user or str(openmp._processors())
    assert threads_of_pytorch(*order, **variables) == f"{threads} {bool(set_by_the_user)}"


def import_nothing() -> None:
    """Fail as the import of a package that is not there."""
    with openmp.all_processors():
        assert os.environ["OMP_NUM_THREADS"] == str(openmp._processors())
        raise ImportError("no MXNet")


def test_the_environment_is_afterwards_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where MXNet is not there, or the user has chosen."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with pytest.raises(ImportError):
        import_nothing()
    assert "OMP_NUM_THREADS" not in os.environ
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    with openmp.all_processors():
        assert os.environ["OMP_NUM_THREADS"] == "5"
    assert os.environ["OMP_NUM_THREADS"] == "5"
