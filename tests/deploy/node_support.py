"""Run a script of JavaScript in Node, where that is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "browser"
MODULES = Path(__file__).resolve().parents[2] / "d2lbert" / "deploy" / "browser" / "js"
_OLDEST = 18  # the first Node with fetch, Blob and DecompressionStream


def run_in_node(script: str, given: Any, folder: Path) -> Any:
    """Return what a script of ``tests/deploy/browser`` prints, as JSON, for what it is given, as JSON.

    Args:
        script: its name. It gets the address of the modules and the path of a file with ``given``.
        folder: for that file.
    """
    node = shutil.which("node")
    found = subprocess.run([node, "--version"], capture_output=True, text=True).stdout if node else "v0"
    if node is None or int(found.strip("v\n").split(".")[0]) < _OLDEST:
        reason = f"needs Node {_OLDEST} or newer to run the JavaScript of the browser"
        if os.environ.get("D2LBERT_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    path = folder / "given.json"
    path.write_text(json.dumps(given), encoding="ascii")
    command = [node, str(SCRIPTS / script), MODULES.as_uri(), str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
