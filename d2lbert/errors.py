"""The one exception that a user's mistake raises.

Everything that a user can get wrong (a missing file, a wrong column, an unknown name, a vocabulary that does not fit
the weights, no network) ends in a :class:`UserError`. Its text is one line that says what is wrong and what to do.
The command line prints that line and exits with status 2; a notebook shows it as the last line of the traceback.
"""

from __future__ import annotations

import difflib
import errno
import importlib.util
from collections.abc import Iterable

# The exit status of a command that Ctrl-C ended: 128 + SIGINT, as in a shell; and of one whose reader went away.
INTERRUPTED = 130
BROKEN_PIPE = 141

_REMEDIES = {
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions",
    errno.ENOENT: "check the path",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "a symbolic link leads back to itself, name the place itself",
    errno.ENOSPC: "free space or choose another place",
    errno.EDQUOT: "free space or choose another place",
    errno.EFBIG: "raise the limit of file sizes or choose another place",
    errno.EROFS: "choose a place that can be written",
    errno.EMFILE: "raise the limit of open files",
}


class UserError(Exception):
    """A mistake that the user can mend. The message is one line: what is wrong, then what to do."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name that is not in a table; it lists the nearest known names.

    Args:
        kind: what the name should name, for example ``"data set"``.
        name: what the user gave.
        known: every name that would have been right.
    """
    names, given = sorted(known), shortened(name)
    nearest = difflib.get_close_matches(given, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"known names: {', '.join(names)}"
    return UserError(f"unknown {kind} {given!r}: {hint}")


def shortened(text: str, most: int = 80) -> str:
    """Return what a message quotes of a text that may be of any length: its beginning, and dots where more follows."""
    return text if len(text) <= most else f"{text[:most]}..."


def require(purpose: str, extra: str, *packages: str, install: str = "") -> None:
    """Check that packages are installed, without importing them.

    Args:
        purpose: what needs them, for example ``"the server"``.
        extra: of this project's installation, which brings them.
        packages: their names, as they are imported.
        install: what brings them where no extra does: its name for pip.

    Raises:
        UserError: one is not.
    """
    remedy = install or f"'d2lbert[{extra}]'"
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{purpose} needs {package}: run pip install {remedy}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's own error, or that of PyTorch, which is a RuntimeError."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "can't allocate memory" in str(error)


def refused_by_system(error: OSError) -> UserError:
    """Return the error for what the operating system refused: where, why, and what to do."""
    names = [shortened(str(name), 200) for name in (error.filename, error.filename2) if name is not None]
    where = " and ".join(names)
    remedy = _REMEDIES.get(error.errno or 0, "check the path and its permissions")
    return UserError(f"{where}{': ' if where else ''}{error.strerror or error}; {remedy}")
