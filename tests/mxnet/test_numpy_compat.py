"""MXNet sees the names that it reads from NumPy, with their old meaning; NumPy and everybody else see no change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

_MODULE = Path("d2lbert/mxnet/numpy_compat.py")

# Loads the module by its file: through the package, mxnet itself would be imported. The folder may hold another mxnet.
_LOAD = """
import importlib.util, json, sys
import numpy as np
sys.path.insert(0, {folder!r})
spec = importlib.util.spec_from_file_location("numpy_compat", {path!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""
# What a package called mxnet does with NumPy: at its import and later, in several ways, through a package of its own.
_STAND_IN = {
    "mxnet/__init__.py": "import numpy\nimport numpy as np\nimport numpy.linalg\nfrom . import part\n",
    "mxnet/part.py": "from numpy import NaN, msort as sort\n"
    "import neighbour\n\n\ndef late():\n    import numpy.fft\n    from . import last\n    return numpy, last.np\n",
    "mxnet/last.py": "import numpy as np\n\nvalue = np.PINF\n",
    "neighbour.py": "import numpy as np\n\ndef sees(name):\n    return hasattr(np, name)\n",
}


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A folder with a package that is called mxnet, and with another that it imports."""
    for name, content in _STAND_IN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def _run(root: Path, script: str, folder: Path | None = None) -> str:
    """Run a script in a fresh process: a package is imported once."""
    code = _LOAD.format(path=str(root / _MODULE), folder=str(folder or root)) + script
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_second_install_adds_nothing(root: Path) -> None:
    added = _run(root, "first = module.install(); print(len(first), len(module.install()))")
    first, second = map(int, added.split())
    assert second == 0
    assert first > 0 or np.lib.NumpyVersion(np.__version__) < "2.0.0"
    assert first <= 20, "each name is one more thing that MXNet sees and others do not"


def test_numpy_is_not_changed(root: Path, stand_in: Path) -> None:
    """Others ask NumPy for a name to learn its version; what MXNet needs must not mislead them."""
    script = """
import builtins
before, importer = {name for name, value in vars(np).items() if type(value) is not type(np)}, builtins.__import__
asked = {name: hasattr(np, name) for name in [*module._replacements(), "int", "float", "object"]}
added = module.install()
import mxnet, neighbour
print(all(hasattr(mxnet.np, name) for name in added), mxnet.part.late()[0] is mxnet.np is mxnet.part.late()[1])
print(asked == {name: hasattr(np, name) for name in asked} == {name: neighbour.sees(name) for name in asked})
print(before == {name for name, value in vars(np).items() if type(value) is not type(np)}, sys.modules["numpy"] is np)
print(builtins.__import__ is importer)
"""
    assert _run(root, script, stand_in).split() == ["True"] * 6


def test_the_rest_of_numpy_is_the_same_object(root: Path, stand_in: Path) -> None:
    script = """
module.install()
from mxnet import np as view
print(view.ndarray is np.ndarray, view.random is np.random, view.linalg is np.linalg, view.float32 is np.float32)
np.added_later = 3
print(view.added_later == 3, "added_later" in dir(view), {"msort", "float32"} <= set(dir(view)))
try:
    view.no_such_name
except AttributeError as error:
    print("no_such_name" in str(error))
"""
    assert _run(root, script, stand_in).split() == ["True"] * 8


def test_an_mxnet_that_is_there_is_left(root: Path) -> None:
    script = """
before = list(sys.meta_path)
sys.modules["mxnet"] = type(np)("mxnet")
print(module.install(), sys.meta_path == before)
"""
    assert _run(root, script) == "[] True"


def test_names_that_numpy_has_are_left(root: Path) -> None:
    script = """
mark = lambda *values: "mine"
np.msort, np.NaN, before = mark, "mine", np.bool_
added = module.install()
print(np.msort is mark, np.NaN == "mine", np.bool_ is before, "msort" in added, "NaN" in added)
"""
    assert _run(root, script) == "True True True False False"


def test_old_meanings(root: Path, stand_in: Path) -> None:
    script = """
module.install()
from mxnet import np
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
    assert json.loads(_run(root, script, stand_in)) == {
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
def test_financial_functions_say_where_they_went(root: Path, stand_in: Path, name: str) -> None:
    script = f"""
module.install()
from mxnet import np
try:
    np.{name}(1)
except (NotImplementedError, RuntimeError) as error:
    print(error)
"""
    assert "numpy-financial" in _run(root, script, stand_in).replace("_", "-")


def test_mxnet_computes_after_install(root: Path) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    script = """
import d2lbert.mxnet
import mxnet
print(mxnet.__version__, mxnet.nd.dot(mxnet.nd.ones((2, 3)), mxnet.nd.ones((3, 1))).asnumpy().tolist())
"""
    assert _run(root, script).splitlines()[-1] == "1.9.1 [[3.0], [3.0]]"


def test_every_name_is_one_that_mxnet_reads(root: Path) -> None:
    """So many names and no more: each is asked for while mxnet is imported."""
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    script = """
asked = set()
class Watched(module.View):
    def __getattribute__(self, name):
        asked.add(name)
        return super().__getattribute__(name)
module.View = Watched
added = module.install()
import mxnet
print(sorted(set(added) - asked))
"""
    assert _run(root, script).splitlines()[-1] == "[]"


def test_modules_of_mxnet_that_come_later_see_the_names(root: Path) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    script = """
import inspect
module.install()
import mxnet
from mxnet.gluon.contrib.estimator import EarlyStoppingHandler
handler = EarlyStoppingHandler(mxnet.metric.Accuracy("accuracy"), mode="max")
handler.train_begin(None)
print(handler.best, mxnet.np.trapz(mxnet.np.array([1.0, 2.0, 4.0])))
print("class Dense" in inspect.getsource(mxnet.gluon.nn.Dense), hasattr(np, "Inf"))
"""
    expected = f"-inf 4.5 True {hasattr(np, 'Inf')}"
    assert " ".join(_run(root, script).splitlines()[-2:]) == expected


def test_an_import_that_failed_does_no_harm(root: Path) -> None:
    """Who first tried to import mxnet by itself has parts of it in memory."""
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    script = """
try:
    import mxnet
except AttributeError:
    pass
import d2lbert.mxnet
import mxnet
print(mxnet.nd.dot(mxnet.nd.ones((2, 3)), mxnet.nd.ones((3, 1))).asnumpy().tolist())
"""
    assert _run(root, script).splitlines()[-1] == "[[3.0], [3.0]]"


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
