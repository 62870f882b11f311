"""Models and loops on the pretend accelerator, in a process of their own: see ``tests/pretend``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CHECKS = ["tests/pretend/check_models.py", "tests/pretend/check_loops.py"]


def test_models_and_loops_run_on_an_accelerator(root: Path) -> None:
    paths = [str(root / "tests" / "pretend"), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CHECKS],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    passed = re.search(r"^(\d+) passed in ", run.stdout, flags=re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 50
