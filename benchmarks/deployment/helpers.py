"""What a thread that called PyTorch once, and stays, costs the thread that computes.

One sentence of SST-2 at a time goes through ``minilm-sst2``, in a thread as the server's. PyTorch shares the work of
every thread that calls it among helpers and keeps them as long as that thread lives. Two sides take turns in one
process, in threads that end with their turn: with nobody else, and beside a thread that has computed one sentence and
sleeps.

    python -m benchmarks.deployment.helpers    # needs D2LBERT_DATA for the real sentences; a minute on two cores
    python -m benchmarks.deployment.helpers --turns 2 --texts 10 --result deployment/trial
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import torch

from benchmarks.command_line import command_line
from benchmarks.engine_turns import instructions
from benchmarks.record import Record
from benchmarks.timing import Lap, Side, compare, in_words, take_turns, timed
from d2lbert import data
from d2lbert.deploy.server.models import Models, Prepared, predict
from d2lbert.deploy.server.threads import in_passing

ALONE, BESIDE = "the only thread", "beside one that stays"
MODEL = "minilm-sst2"
WARM_UP = 5  # sentences of every turn that are not timed


@contextlib.contextmanager
def staying(work: Callable[[], object]) -> Iterator[None]:
    """Let a thread do some work, and live as long as this context."""
    done, end = threading.Event(), threading.Event()

    def run() -> None:
        work()
        done.set()
        end.wait()

    thread = threading.Thread(target=run)
    thread.start()
    done.wait()
    try:
        yield
    finally:
        end.set()
        thread.join()


def sides_of(texts: list[Prepared]) -> dict[str, Side]:
    """Return the sides; a turn is a number of sentences."""

    def one_by_one(count: int) -> int:
        for number in range(count):
            predict([texts[number % len(texts)]])
        return count

    def warm(count: int) -> Lap:
        one_by_one(WARM_UP)
        return timed(one_by_one)(count)

    def alone(count: int) -> Lap:
        return in_passing(warm, count)

    def beside(count: int) -> Lap:
        with staying(lambda: one_by_one(1)):
            return in_passing(warm, count)

    return {ALONE: alone, BESIDE: beside}


def main() -> None:
    """Measure both sides and write ``results/deployment/helpers.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--texts", type=int, default=100, help="sentences of a turn")
    parser.add_argument("--result", default="deployment/helpers", help="results/<this>.json")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert"], data_sets=["sst2"])
    models = Models({MODEL: MODEL})
    texts = [models.prepare({"text": example.text}) for example in data.load("sst2", "dev")[: options.texts]]
    laps = take_turns(sides_of(texts), [options.texts] * (options.turns + 1), warm_up=1)
    found = compare(laps, "sentences", [(ALONE, BESIDE)])
    print(in_words(found))
    record.write(found, data="sst2 dev", threads=torch.get_num_threads(), instructions=instructions())


if __name__ == "__main__":
    main()
