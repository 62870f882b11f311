"""The server under 200,000 bad requests: what it answers, and how its memory goes.

``d2lbert serve`` runs in a process of its own. One client sends requests that are wrong in many ways, one after the
other. The first twentieth is not counted: caches fill. Afterwards a right request must be answered.

    python -m benchmarks.deployment.soak    # ten minutes
    python -m benchmarks.deployment.soak --requests 400 --result deployment/trial
"""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.bad_requests import ask_badly
from benchmarks.command_line import command_line
from benchmarks.deployment.serving import MODEL, OURS, PORT, serving
from benchmarks.record import Record

ADDRESS = f"http://127.0.0.1:{PORT}"
PARTS = 40  # after each the memory is read


def memory(process: int) -> float:
    """Return the resident memory of a process in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 2**10


def answer_to(text: str) -> dict[str, Any]:
    """Return what the server answers to a right request."""
    body = json.dumps({"text": text}).encode()
    request = urllib.request.Request(f"{ADDRESS}/invocations", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def soak(process: int, count: int) -> dict[str, Any]:
    """Send bad requests to a server that runs; return its memory before and after each part, and its answers.

    Args:
        process: the number of the server's.
        count: of the requests, rounded down to equal parts.
    """
    ask_badly(ADDRESS, count // 20)
    sizes, answers = [memory(process)], Counter[str]()
    for part in range(PARTS):
        answers += ask_badly(ADDRESS, count // PARTS, seed=part + 1)
        sizes.append(memory(process))
    return {"requests": answers.total(), "mebibytes": sizes, "answers": dict(sorted(answers.items()))}


def main() -> None:
    """Run, and write ``results/deployment/soak.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--result", default="deployment/soak", help="results/<this>.json")
    options = parser.parse_args()
    record = Record(options.result, ["d2lbert", "fastapi", "uvicorn", "httpx"])
    with serving([*OURS, MODEL]) as process:
        found = soak(process.pid, options.requests)
        after = answer_to("a good film")
    print({**found, "mebibytes": (found["mebibytes"][0], max(found["mebibytes"]))}, after)
    record.write({**found, "answer_afterwards": after}, model=MODEL)


if __name__ == "__main__":
    main()
