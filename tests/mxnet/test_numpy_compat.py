"""The names that MXNet reads from NumPy come back, mean what they meant, and displace nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

_MODULE = Path("d2lbert/mxnet/numpy_compat.py")

# Loads the module by its file: through the package, mxnet itself would be imported.
_LOAD = """
import importlib.util, json
import numpy as np
spec = importlib.util.spec_from_file_location("numpy_compat", {path!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""


def _run(root: Path, script: str) -> str:
    """Run a script in a fresh process, since names once given to NumPy stay."""
    code = _LOAD.format(path=str(root / _MODULE)) + script
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_second_install_adds_nothing(root: Path) -> None:
    added = _run(root, "first = module.install(); print(len(first), len(module.install()))")
    first, second = map(int, added.split())
    assert second == 0
    assert first > 0 or np.lib.NumpyVersion(np.__version__) < "2.0.0"


def test_names_that_numpy_has_are_left(root: Path) -> None:
    script = """
mark = lambda *values: "mine"
np.msort, np.NaN, before = mark, "mine", np.bool_
added = module.install()
print(np.msort is mark, np.NaN == "mine", np.bool_ is before, "msort" in added, "NaN" in added)
"""
    assert _run(root, script) == "True True True False False"


def test_old_meanings(root: Path) -> None:
    script = """
module.install()
table = np.array([[3.0, 1.0, 2.0], [1.0, 5.0, 0.0]])
print(json.dumps({
    "in1d": np.in1d(table, [1, 2]).tolist(),
    "inverted": np.in1d([1, 2], [2], invert=True).tolist(),
    "msort": np.msort(table).tolist(),
    "trapz": float(np.trapz([1.0, 2.0, 4.0], x=[0.0, 1.0, 3.0])),
    "step": float(np.trapz([1.0, 2.0, 4.0], dx=2.0)),
    "product": float(np.product([2, 3, 4])),
    "round_": float(np.round_(2.345, 1)),
    "alltrue": [bool(np.alltrue([1, 0])), bool(np.alltrue([1, 1]))],
    "sometrue": [bool(np.sometrue([0, 0])), bool(np.sometrue([0, 1]))],
    "constants": [np.Inf > 1e300, np.PINF == np.inf, np.NINF == -np.inf, np.NAN != np.NAN, np.NaN != np.NaN],
    "zeros": [float(np.copysign(1, np.PZERO)), float(np.copysign(1, np.NZERO))],
    "bool": np.dtype(np.bool).kind,
}))
"""
    assert json.loads(_run(root, script)) == {
        "in1d": [False, True, True, True, False, False],
        "inverted": [True, False],
        "msort": [[1.0, 1.0, 0.0], [3.0, 5.0, 2.0]],
        "trapz": 7.5,
        "step": 9.0,
        "product": 24.0,
        "round_": 2.3,
        "alltrue": [False, True],
        "sometrue": [False, True],
        "constants": [True] * 5,
        "zeros": [1.0, -1.0],
        "bool": "b",
    }


@pytest.mark.parametrize("name", ["mirr", "npv", "pmt", "ppmt", "pv", "rate"])
def test_financial_functions_say_where_they_went(root: Path, name: str) -> None:
    script = f"""
module.install()
try:
    np.{name}(1)
except (NotImplementedError, RuntimeError) as error:
    print(error)
"""
    assert "numpy-financial" in _run(root, script).replace("_", "-")


def test_mxnet_computes_after_install(root: Path) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    script = """
import d2lbert.mxnet
import mxnet
print(mxnet.__version__, mxnet.nd.dot(mxnet.nd.ones((2, 3)), mxnet.nd.ones((3, 1))).asnumpy().tolist())
"""
    assert _run(root, script).splitlines()[-1] == "1.9.1 [[3.0], [3.0]]"


def test_missing_mxnet_is_one_line(root: Path) -> None:
    script = """
import sys
sys.modules["mxnet"] = None
from d2lbert.errors import UserError
try:
    import d2lbert.mxnet
except UserError as error:
    print(isinstance(error, ImportError), "pip install --no-deps mxnet==1.9.1" in str(error), str(error).count(chr(10)))
"""
    assert _run(root, script) == "True True 0"
