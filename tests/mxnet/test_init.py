"""The MXNet edition where MXNet is not: one line that says what to install, for users and for ``importorskip``."""

from __future__ import annotations

import subprocess
import sys

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
