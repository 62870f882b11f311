"""The entry point of a container: SageMaker starts it with one word, ``train`` or ``serve``."""

from __future__ import annotations

import signal
import sys

from d2lbert.deploy.sagemaker import serve, train

_PROGRAMS = {"train": train.main, "serve": serve.main}


def _stop(number: int, frame: object) -> None:
    sys.exit(train.STOPPED)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)  # the first process of a container is deaf to what it has no handler for
    if len(sys.argv) != 2 or sys.argv[1] not in _PROGRAMS:
        print(f"d2lbert: {' '.join(sys.argv[1:]) or 'nothing'} was asked for: give train or serve", file=sys.stderr)
        sys.exit(2)
    _PROGRAMS[sys.argv[1]]()
