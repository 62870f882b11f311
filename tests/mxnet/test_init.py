"""The MXNet edition where MXNet is not: one line that says what to install, for users and for ``importorskip``."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules["mxnet"] = None  # as if it were not installed
try:
    import d2lbert.mxnet
except ImportError as error:
    from d2lbert import UserError
    print(type(error).__name__, isinstance(error, UserError))
    print(error)
"""


def test_a_missing_mxnet_is_one_line() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    kind, message = run.stdout.splitlines()
    assert kind == "MxnetMissing True"
    assert message.startswith("the MXNet edition needs mxnet 1.9.1 (")
    assert "run pip install --no-deps mxnet==1.9.1" in message


def test_scikit_learn_is_not_imported_for_it_and_can_be_afterwards() -> None:
    """MXNet asks for it at its import, for one deprecated class: a second of every start."""
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    program = "import d2lbert.mxnet, sys\nprint('sklearn' in sys.modules)\nfrom sklearn.base import BaseEstimator"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
