"""What a training step of MiniLM takes of memory and of processor time: all weights, and adapters of rank 1 to 16.

Memory is counted, so it is the same at each run: the two means that AdamW keeps between steps, and the most that one
step holds at the same time, by the allocations that PyTorch's profiler sees (gradients, and what the backward pass
needs of the forward pass). The weights themselves are not in it. The batch is of random pieces, a small one or a large
one. Time is processor time in one thread, so what waits does not count; the sides take turns, step by step.

    python -m benchmarks.finetuning.adapter_costs    # three minutes
    python -m benchmarks.finetuning.adapter_costs --turns 1 --result finetuning/trial
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from benchmarks.command_line import command_line
from benchmarks.record import Record, spread
from d2lbert import get_model
from d2lbert.config.adapters import AdapterConfig
from d2lbert.torch.adapters import add_adapters
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.training.optim import decay_groups, descend

WHOLE, RANKS = "all weights", (1, 2, 4, 8, 16)
SIDES = {WHOLE: 0} | {f"rank {rank}": rank for rank in RANKS}
BATCHES = {"small": (4, 32), "large": (32, 64)}  # texts, tokens of each


class Learner:
    """A classifier whose weights all learn, or, with a rank, its adapters and its classifier alone.

    Args:
        rank: of the adapters; 0 for none.
        batch: texts, and tokens of each.
    """

    def __init__(self, rank: int, batch: tuple[int, int]) -> None:
        seed_everything(0)
        self.model = BertForSequenceClassification(get_model("minilm")[0], ("negative", "positive"))
        if rank:
            add_adapters(self.model, AdapterConfig(rank=rank))
        self.model.train()
        self.optimizer = torch.optim.AdamW(decay_groups(self.model, 0.01), lr=1e-4, fused=True)
        self.tokens, self.labels = torch.randint(1000, 20_000, batch), torch.arange(batch[0]) % 2

    def step(self) -> float:
        """Take a step of training, leave no gradient behind, and return the loss."""
        loss = functional.cross_entropy(self.model(self.tokens), self.labels)
        found = float(descend(loss, self.model, self.optimizer, 1.0))
        self.optimizer.zero_grad()
        return found

    def learning(self) -> int:
        """Return how many numbers learn."""
        return sum(weight.numel() for weight in self.model.parameters() if weight.requires_grad)

    def kept(self) -> int:
        """Return the bytes that the optimizer keeps between steps."""
        return sum(array.nbytes for state in self.optimizer.state.values() for array in state.values())


def most_at_once(work: Callable[[], Any]) -> int:
    """Return the most bytes that are held at the same time, of those that ``work`` allocates."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        work()
    events = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()  # below 0 where memory is given back
        most = max(most, held)
    return most


def processor_seconds(work: Callable[[], Any]) -> float:
    """Return the processor time that ``work`` takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def costs(batch: tuple[int, int], turns: int) -> dict[str, Any]:
    """Return what a step of each side costs on a batch, in MiB and seconds."""
    learners = {name: Learner(rank, batch) for name, rank in SIDES.items()}
    found: dict[str, Any] = {}
    for name, learner in learners.items():
        learner.step()  # from now on the optimizer has its means
        sizes = {"adam": learner.kept() / 2**20, "step": most_at_once(learner.step) / 2**20}
        found[name] = {"learning": learner.learning(), **sizes, "memory": sum(sizes.values())}
    laps = [{name: processor_seconds(learner.step) for name, learner in learners.items()} for _ in range(turns)]
    for name, one in found.items():
        one |= times(name, laps)
        print(batch, name, one, flush=True)
    return found


def times(name: str, laps: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return the seconds of a side over the turns, and their share of those of all weights in the same turn."""
    return {
        "seconds": spread([lap[name] for lap in laps]),
        "share_of_seconds": spread([lap[name] / lap[WHOLE] for lap in laps]),
    }


def main() -> None:
    """Measure all sides and write ``results/finetuning/adapter_costs.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--result", default="finetuning/adapter_costs", help="results/<this>.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(options.result, ["torch", "d2lbert"], [0])
    parameters = count_parameters(Learner(0, BATCHES["small"]).model)
    metrics = {name: costs(batch, options.turns) for name, batch in BATCHES.items()}
    record.write(metrics, parameters=parameters, texts_and_tokens_of_each=BATCHES)


if __name__ == "__main__":
    main()
