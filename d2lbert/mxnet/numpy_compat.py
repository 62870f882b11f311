"""Let MXNet 1.9.1 import on today's NumPy.

MXNet 1.9.1, the last release, reads names of NumPy while it is imported that NumPy 2 has dropped (and one, ``bool``,
that 1.24 to 1.26 lack). :func:`install` gives NumPy those names back: constants and functions with their old meaning.
A name that NumPy still has is left as it is, so on a NumPy that needs nothing this changes nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

# MXNet offers these under its own name, too, but NumPy moved them to another package in 2019: they only need to exist.
_FINANCIAL = ("mirr", "npv", "pmt", "ppmt", "pv", "rate")


def install() -> list[str]:
    """Give NumPy the names that MXNet 1.9.1 reads at import and that it lacks; call this before importing mxnet.

    Returns:
        The names that were added: none at the second call.
    """
    added = []
    for name, value in _replacements().items():
        if not _has(name):
            setattr(np, name, value)
            added.append(name)
    return added


def _replacements() -> dict[str, Any]:
    constants: dict[str, Any] = {"bool": np.bool_, "NAN": np.nan, "NaN": np.nan}
    constants |= {"Inf": np.inf, "PINF": np.inf, "NINF": -np.inf, "PZERO": 0.0, "NZERO": -0.0}
    functions: dict[str, Any] = {
        "alltrue": np.all,
        "sometrue": np.any,
        "product": np.prod,
        "round_": np.round,
        "in1d": _in1d,
        "msort": _msort,
        "trapz": _trapz,
    }
    return constants | functions | {name: _removed(name) for name in _FINANCIAL}


def _has(name: str) -> bool:
    with warnings.catch_warnings():
        # Asking some releases for a name that is about to go gives a warning that nobody can act on.
        warnings.simplefilter("ignore")
        return hasattr(np, name)


def _in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> np.ndarray:
    """``numpy.in1d`` of NumPy 1: ``isin`` on the flattened first array."""
    return np.isin(np.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert)


def _msort(a: Any) -> np.ndarray:
    """``numpy.msort`` of NumPy 1: a copy sorted along the first axis."""
    return np.sort(a, axis=0)


def _trapz(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """``numpy.trapz`` of NumPy 1, which NumPy 2 calls ``trapezoid``."""
    return np.trapezoid(y, x=x, dx=dx, axis=axis)


def _removed(name: str) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"numpy.{name} was removed from NumPy; use the package numpy-financial")

    return fail
