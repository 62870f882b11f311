"""Let MXNet 1.9.1 import on today's NumPy, and leave NumPy as it is for everybody else.

MXNet 1.9.1, the last release, reads names of NumPy that NumPy 2 has dropped, and one, ``bool``, that 1.24 to 1.26
lack. Were they given back to NumPy itself, other packages would be misled: ``hasattr(numpy, "trapz")`` is how one asks
which NumPy there is. So :func:`install` makes MXNet's own ``import numpy`` return a :class:`View`: NumPy, and those
names with their old meaning. Nobody else sees it, and NumPy is not changed.

The view comes in by a rule of Python: an import calls the function ``__import__`` of the builtins of its own module,
and a module has those that it finds in its globals when it starts.
"""

from __future__ import annotations

import builtins
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import numpy as np

# MXNet offers these under its own name, too, but NumPy moved them to another package in 2019: they only need to exist.
_FINANCIAL = ("mirr", "npv", "pmt", "ppmt", "pv", "rate")


def install() -> list[str]:
    """Make MXNet see the names that it reads from NumPy; call this before importing mxnet.

    Returns:
        The names that this NumPy lacks and MXNet will see: none at the second call, none if mxnet is already there.
    """
    if "mxnet" in sys.modules or any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return []
    names = {name: value for name, value in _replacements().items() if not _has(name)}
    if names:
        sys.meta_path.insert(0, _Finder(View(names)))
    return list(names)


class View(ModuleType):
    """NumPy with further names: what NumPy has is read from NumPy at every access.

    Args:
        names: what NumPy lacks, by name.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__("numpy", "NumPy, as MXNet 1.9.1 expects it")
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *dir(np)})


class _Finder(MetaPathFinder):
    """Finds mxnet and its modules as Python does, and lets them import the view in place of NumPy."""

    def __init__(self, view: View) -> None:
        def import_for_mxnet(
            name: str,
            globals: Mapping[str, object] | None = None,
            locals: Mapping[str, object] | None = None,
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> ModuleType:
            if name == "sklearn.base":
                # A second of every start, for the deprecated class FeedForward alone. MXNet goes on without it.
                raise ImportError("MXNet is imported without scikit-learn")
            module = builtins.__import__(name, globals, locals, fromlist or (), level)
            return view if module is np else module

        self._builtins = {**vars(builtins), "__import__": import_for_mxnet}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of mxnet lies; None for any other module, which the next finder finds."""
        if fullname.partition(".")[0] != "mxnet":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._builtins)
        return spec


class _Loader(Loader):
    """A loader that gives a module its builtins before it runs."""

    def __init__(self, loader: Loader, its_builtins: dict[str, Any]) -> None:
        self._loader, self._builtins = loader, its_builtins

    def __getattr__(self, name: str) -> Any:
        # What others ask a loader for, such as the source of a module or its data files.
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module as the real loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with the builtins that import the view."""
        vars(module)["__builtins__"] = self._builtins
        self._loader.exec_module(module)


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
