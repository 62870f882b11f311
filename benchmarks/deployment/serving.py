"""The server under clients that send one text at a time: batches of what has arrived, one by one, and other servers.

All sides serve the same classifier, ``minilm-sst2``, with the same code for the model; each runs ``d2lbert serve``, a
plain FastAPI server or LitServe in a process of its own, started anew for its turn, so that nothing of the others runs
beside it. Clients send sentences of SST-2's dev set and wait for the answer before the next one. They share the machine
with the server.

    python -m benchmarks.deployment.serving    # needs litserve and D2LBERT_DATA; twenty minutes
    python -m benchmarks.deployment.serving --turns 1 --seconds 2 --result deployment/trial
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import signal
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.clients import Answered, send
from benchmarks.command_line import command_line
from benchmarks.record import ROOT, Record
from benchmarks.timing import Lap, Side, compare, in_words, take_turns
from d2lbert import data

MODEL = "minilm-sst2"
PORT = 8642
OURS = ["-m", "d2lbert.cli", "serve", "--linger-seconds", "0", "--port", str(PORT), "--model"]
# Name -> how it is started. With one token to a batch, every text is a batch of its own.
SIDES = {
    "micro-batches": [*OURS, MODEL],
    "one by one": [*OURS, MODEL, "--batch-tokens", "1"],
    "plain FastAPI": ["-m", "benchmarks.plain_server", "--model", MODEL, "--port", str(PORT)],
    "LitServe": ["-m", "benchmarks.lit_server", "--model", MODEL, "--port", str(PORT)],
}
PAIRS = [("micro-batches", other) for other in ("one by one", "plain FastAPI", "LitServe")]
WARM_UP = 2.0  # seconds
PATIENCE = 120  # seconds until a server is ready


@contextlib.contextmanager
def serving(command: list[str], variables: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server at :data:`PORT`, with all the processes that it starts; give its first one once it is ready.

    Args:
        command: what follows ``python``.
        variables: of its environment, besides those of this process.

    Raises:
        SystemExit: it is not ready in time.
    """
    # A group of its own: LitServe leaves workers behind when it is told to stop.
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + PATIENCE
        while not is_ready():
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the server {' '.join(command)} is not ready: start it by hand to see why")
            time.sleep(0.1)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):  # it could not even start
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_ready() -> bool:
    """Whether the server says that it would answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/ping", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that is at least as large as this share of the values."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def measure(texts: list[str], clients: int, turns: int, seconds: float) -> dict[str, Any]:
    """Let the sides take turns under a number of clients; return speeds and waiting times."""
    contents = [{"text": text} for text in texts]
    seen: dict[str, list[Answered]] = {name: [] for name in SIDES}

    def side(name: str) -> Side:
        def turn(_: int) -> Lap:
            with serving(SIDES[name]):
                send(PORT, "/invocations", contents, clients, WARM_UP)
                found = send(PORT, "/invocations", contents, clients, seconds)
            if found.refused:
                raise SystemExit(f"{name} refused {found.refused} requests of {clients} clients")
            seen[name].append(found)
            return Lap(len(found.waited), found.seconds)

        return turn

    found = compare(take_turns({name: side(name) for name in SIDES}, range(turns)), "requests", PAIRS)
    waits = {name: waiting(own) for name, own in seen.items()}
    print(f"{clients} clients:", in_words(found), waits, flush=True)
    return {**found, "milliseconds": waits}


def waiting(turns: list[Answered]) -> dict[str, float]:
    """Return the median over turns of the median and of the 99th percentile of the waiting times, in milliseconds."""
    return {
        name: 1000 * statistics.median(percentile(turn.waited, share) for turn in turns)
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


def main() -> None:
    """Measure all sides and write ``results/deployment/serving.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each turn and number of clients")
    parser.add_argument("--result", default="deployment/serving", help="results/<this>.json")
    options = parser.parse_args()
    for package in ("fastapi", "uvicorn", "litserve"):
        if importlib.util.find_spec(package) is None:
            raise SystemExit(f"{package} is missing: pip install 'd2lbert[serve]' litserve")
    record = Record(options.result, ["torch", "fastapi", "uvicorn", "d2lbert"], data_sets=["sst2"])
    texts = [example.text for example in data.load("sst2", "dev")]
    record.write(
        {str(clients): measure(texts, clients, options.turns, options.seconds) for clients in options.clients},
        data="sst2 dev",
        litserve=importlib.metadata.version("litserve"),
        seconds_per_turn=options.seconds,
    )


if __name__ == "__main__":
    main()
