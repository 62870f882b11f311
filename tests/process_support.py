"""Commands that begin with a limit or a signal of their own.

A small program sets it and then becomes the command. ``preexec_fn`` would do so in a fork of the tests, which does not
have their threads (of PyTorch, of MXNet): what one of these held then is held for ever, and the tests wait.
"""

from __future__ import annotations

import sys

_LIMITED = (
    "import os, resource, signal, sys\n"
    "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))\n"
    "os.execv(sys.argv[2], sys.argv[2:])"
)
_HEARING = "import os, signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nos.execv(sys.argv[1], sys.argv[1:])"


def with_full_disk(command: list[str], largest_file: int) -> list[str]:
    """Return a command that runs ``command``, for which no file is larger than so many bytes, as on a full disk.

    Args:
        command: a program with its whole path, and its arguments.
    """
    return [sys.executable, "-c", _LIMITED, str(largest_file), *command]


def hearing_ctrl_c(command: list[str]) -> list[str]:
    """Return a command that runs ``command`` so that it hears SIGINT.

    A shell that starts the tests in the background makes their children deaf to it.
    """
    return [sys.executable, "-c", _HEARING, *command]
