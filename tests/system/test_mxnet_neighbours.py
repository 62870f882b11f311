"""MXNet beside other packages in one process: whoever comes first, all of them compute, and see the same NumPy."""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

# What a package does when it is imported, and a small thing that it computes.
COMPUTES = {
    "d2lbert.mxnet": "from mxnet import nd\n"
    "assert nd.dot(nd.ones((64, 64)), nd.ones((64, 1))).sum().asscalar() == 4096",
    "torch": "assert (torch.ones(64, 64) @ torch.ones(64, 1)).sum().item() == 4096",
    "numpy": "assert (numpy.ones((64, 64)) @ numpy.ones((64, 1))).sum() == 4096",
    "pandas": "assert pandas.DataFrame({'a': [1, 1, 2], 'b': [3, 4, 5]}).groupby('a')['b'].sum().tolist() == [7, 5]",
    "scipy": "import scipy.integrate\nassert scipy.integrate.trapezoid([1, 2, 4]) == 4.5",
    "sklearn": "from sklearn.linear_model import LinearRegression\n"
    "assert abs(LinearRegression().fit([[1], [2]], [2, 4]).coef_[0] - 2) < 1e-9",
    "transformers": "sizes = dict(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=2)\n"
    "model = transformers.BertModel(transformers.BertConfig(**sizes))\n"
    "import torch\nassert model(torch.ones(1, 3, dtype=torch.long))[0].shape == (1, 3, 4)",
}
# Old names of NumPy that packages ask for to learn its version, and more that MXNet reads.
OLD_NAMES = ("bool", "int", "trapz", "in1d", "product", "NaN", "Inf", "msort", "round_", "pv")


def _run(lines: list[str], root: Path) -> str:
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(root)},
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def _needs(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("compute_at_once", [True, False], ids=["one by one", "imports first"])
@pytest.mark.parametrize("order", list(itertools.permutations(["d2lbert.mxnet", "torch"])), ids=" ".join)
def test_both_frameworks_in_one_process(order: tuple[str, str], compute_at_once: bool, root: Path) -> None:
    """Both bring a library for threads (OpenMP), and MXNet one for matrices (OpenBLAS)."""
    lines = []
    for name in order:
        lines += [f"import {name}", COMPUTES[name] if compute_at_once else ""]
    lines += [COMPUTES[name] for name in [*order, *order]]
    lines += [
        "import numpy",
        "x = numpy.random.default_rng(0).standard_normal((70, 70)).astype(numpy.float32)",
        "print(abs(torch.from_numpy(x @ x).numpy() - nd.dot(nd.array(x), nd.array(x)).asnumpy()).max() < 1e-4)",
    ]
    assert _run(lines, root) == "True"


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", ["numpy", "pandas", "scipy", "sklearn", "transformers"])
def test_others_come_before_and_after(name: str, before: bool, root: Path) -> None:
    _needs(name)
    order = [name, "d2lbert.mxnet"] if before else ["d2lbert.mxnet", name]
    lines = [f"import {one}\n{COMPUTES[one]}" for one in order] + [COMPUTES[one] for one in order]
    assert _run([*lines, "print('all computed')"], root) == "all computed"


def test_what_others_see_of_numpy_is_not_changed(root: Path) -> None:
    ask = f"import numpy\nprint([name for name in {OLD_NAMES} if hasattr(numpy, name)])"
    alone = _run(["import warnings; warnings.simplefilter('ignore')", ask], root)
    beside = _run(["import warnings; warnings.simplefilter('ignore')", f"import d2lbert.mxnet\n{ask}"], root)
    assert beside == alone
