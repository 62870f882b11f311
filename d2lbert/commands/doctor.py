"""The command ``d2lbert doctor``: is all here, and does this machine find the stored numbers of the book again?"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import d2lbert
from d2lbert import data
from d2lbert.errors import UserError
from d2lbert.storage.files import read_json
from d2lbert.storage.places import cache_folder, home
from d2lbert.zoo.folders import describe_models

# What a package is for, and how it gets here.
_NEEDED = ("torch", "tokenizers", "safetensors", "numpy", "huggingface_hub", "pooch")
_OPTIONAL = {
    "sklearn": ("scores of classification", "d2lbert[eval]"),
    "scipy": ("scores of similarity", "d2lbert[eval]"),
    "pyarrow": ("Parquet files", "d2lbert[parquet]"),
    "onnxruntime": ("graphs of ONNX", "d2lbert[deploy]"),
}
_GIB = 2**30
_ENOUGH = 4 * _GIB  # of memory, and of room for downloads


class Finding(NamedTuple):
    """One line of the report: whether it is as it should be, and what was found, or what to do."""

    fine: bool
    text: str


def doctor() -> None:
    """Check versions, device, memory, data, weights, and find five stored numbers of the book again. Takes seconds.

    One line each: "ok", or "!!" and what to do. Exit status 1 if something is wrong.
    """
    wrong = 0
    for finding in findings():
        print(f"{'ok' if finding.fine else '!!'}  {finding.text}", flush=True)
        wrong += not finding.fine
    print("all is well" if not wrong else f"{wrong} of the lines above say what to do")
    sys.exit(1 if wrong else 0)


def findings() -> Iterator[Finding]:
    """Yield one finding after another; a check that a user's mistake stops is a finding, too."""
    for check in (_versions, _optional, _device, _memory, _data, _cache, _weights, _numbers):
        try:
            yield from check()
        except UserError as error:
            yield Finding(False, " ".join(str(error).split()))


def _versions() -> Iterator[Finding]:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        yield Finding(False, f"{', '.join(missing)} missing: run pip install d2lbert again")
        return
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _NEEDED)
    yield Finding(True, f"d2lbert {d2lbert.__version__}, Python {platform.python_version()}, {found}")


def _optional() -> Iterator[Finding]:
    for module, (purpose, extra) in _OPTIONAL.items():
        if importlib.util.find_spec(module) is None:
            yield Finding(True, f"without {module}, so no {purpose}; pip install '{extra}' brings it")


def _device() -> Iterator[Finding]:
    import torch

    from d2lbert.torch.runtime import best_device

    device = best_device()
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    threads, cores = torch.get_num_threads(), os.cpu_count()
    yield Finding(True, f"device {device.type} ({name}), {threads} threads on {cores} cores")


def _memory() -> Iterator[Finding]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    if not total:
        yield Finding(True, "memory unknown on this system")
        return
    advice = "" if total >= _ENOUGH else ": small models only; give small batches"
    yield Finding(total >= _ENOUGH, f"memory {total / _GIB:.1f} GiB{advice}")


def _data() -> Iterator[Finding]:
    rows = data.describe()
    by_place = {place: sum(row["where"] == place for row in rows) for place in ("network", "sample", "nowhere")}
    here = len(rows) - sum(by_place.values())
    mirror = os.environ.get("D2LBERT_DATA") or "not set"
    rest = ", ".join(f"{count} {place}" for place, count in by_place.items() if count)
    yield Finding(True, f"data: {here} of {len(rows)} sets here (D2LBERT_DATA {mirror}), the others: {rest or 'none'}")


def _cache() -> Iterator[Finding]:
    folder = cache_folder()
    there = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    free = shutil.disk_usage(there).free
    if not os.access(there, os.W_OK):
        yield Finding(False, f"the cache {folder} cannot be written: set D2LBERT_CACHE to a folder that can")
    elif free < _ENOUGH:
        yield Finding(False, f"the cache {folder} has {free / _GIB:.1f} GiB left: free space, or set D2LBERT_CACHE")
    else:
        yield Finding(True, f"cache {folder}, {free / _GIB:.0f} GiB free")


def _weights() -> Iterator[Finding]:
    rows = describe_models()
    here = [row["label"] for row in rows if row["where"] in ("book", "package", "cache")]
    yield Finding(bool(here), f"weights here: {', '.join(here) or 'none, so install d2lbert again'}")
    for row in rows:
        if row["where"] == "not installed":
            yield Finding(True, f"without {row['label']}; d2lbert models tells more")


def _numbers() -> Iterator[Finding]:
    from d2lbert.torch.training.reproduction import NUMBERS

    stored = read_json(_stored_numbers())["metrics"]
    for name, (compute, _) in NUMBERS.items():
        yield compare(name, compute(), stored[name])


def compare(name: str, value: float, stored: dict[str, Any]) -> Finding:
    """Return whether a number was found again.

    Args:
        name: of the number.
        value: found here.
        stored: its ``value`` and ``tolerance``, the share of it by which a sound machine may differ.
    """
    expected, share = stored["value"], stored["tolerance"]
    fine = abs(value - expected) <= share * abs(expected)
    if fine:
        return Finding(True, f"{name}: {value:.10g}, as stored")
    return Finding(
        False, f"{name}: {value:.10g}, but {expected:.10g} is stored: install the versions of requirements/lock.txt"
    )


def _stored_numbers() -> Path:
    """Return the file of stored numbers: in the installed package, or in the checkout."""
    relative = Path("results", "doctor", "numbers.json")
    folder = next((folder for folder in (home(), home().parent) if (folder / relative).is_file()), None)
    if folder is None:
        raise UserError(f"no {relative}: install d2lbert again")
    return folder / relative
