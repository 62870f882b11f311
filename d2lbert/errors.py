"""The one exception that a user's mistake raises.

Everything that a user can get wrong (a missing file, a wrong column, an unknown name, a vocabulary that does not fit
the weights, no network) ends in a :class:`UserError`. Its text is one line that says what is wrong and what to do.
The command line prints that line and exits with status 2; a notebook shows it as the last line of the traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# The exit status of a command that Ctrl-C ended: 128 + SIGINT, as in a shell.
INTERRUPTED = 130


class UserError(Exception):
    """A mistake that the user can mend. The message is one line: what is wrong, then what to do."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name that is not in a table; it lists the nearest known names.

    Args:
        kind: what the name should name, for example ``"data set"``.
        name: what the user gave.
        known: every name that would have been right.
    """
    names = sorted(known)
    nearest = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"known names: {', '.join(names)}"
    return UserError(f"unknown {kind} {name!r}: {hint}")
