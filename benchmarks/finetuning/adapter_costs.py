"""What a training step of MiniLM costs in memory and processor time: all weights, and adapters of rank 1 to 16.

Each side runs in a process of its own, so that its peak of memory is its own, in one thread: it loads the model, and
takes steps of AdamW on one batch of random pieces, a small one or a large one. The memory of a side is its peak less
that of a process that loads the model and takes no step. The time of a step is the processor time of twelve steps less
that of two, a tenth of it: what waits does not count. The sides take turns.

    python -m benchmarks.finetuning.adapter_costs    # ten minutes
    python -m benchmarks.finetuning.adapter_costs --turns 1 --result finetuning/trial
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch.nn import functional

from benchmarks.children import cached_code, used_by
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
FEW, MANY = 2, 12  # steps


def learner(rank: int) -> BertForSequenceClassification:
    """Return a classifier whose weights all learn, or, with a rank, its adapters and its classifier."""
    model = BertForSequenceClassification(get_model("minilm")[0], ("negative", "positive"))
    if rank:
        add_adapters(model, AdapterConfig(rank=rank))
    return model.train()


def take_steps(rank: int, steps: int, texts: int, length: int) -> None:
    """Load a model and take steps: what a process of its own does."""
    torch.set_num_threads(1)
    seed_everything(0)
    model = learner(rank)
    optimizer = torch.optim.AdamW(decay_groups(model, 0.01), lr=1e-4, fused=True)
    tokens, labels = torch.randint(1000, 20_000, (texts, length)), torch.arange(texts) % 2
    for _ in range(steps):
        descend(functional.cross_entropy(model(tokens), labels), model, optimizer, 1.0)


def cost(rank: int, batch: tuple[int, int], folder: str) -> dict[str, float]:
    """Return the memory in MiB and the processor seconds of a step on a batch."""
    words = ["-m", "benchmarks.finetuning.adapter_costs", "--take", str(rank)]
    sizes = list(map(str, batch))
    loaded, few, many = (used_by([*words, str(steps), *sizes], cached_code(folder)) for steps in (0, FEW, MANY))
    return {
        "mebibytes": many.mebibytes - loaded.mebibytes,
        "seconds": (many.seconds - few.seconds) / (MANY - FEW),
    }


def costs(batch: tuple[int, int], turns: int) -> dict[str, Any]:
    """Return what each side costs on a batch, and its share of what all weights cost within the same turn."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        used_by(["-c", "import benchmarks.finetuning.adapter_costs"], cached_code(folder))  # byte code is kept
        for turn in range(turns):
            for name, rank in SIDES.items():
                found[name].append(cost(rank, batch, folder))
                print(batch, turn, name, found[name][-1], flush=True)
    return {name: summary(own, found[WHOLE], SIDES[name]) for name, own in found.items()}


def summary(own: list[dict[str, float]], whole: list[dict[str, float]], rank: int) -> dict[str, Any]:
    """Return mean and deviation over the turns, of the costs and of their shares of the whole's."""
    learning = sum(weight.numel() for weight in learner(rank).parameters() if weight.requires_grad)
    shares = {
        f"share of {key}": spread([one[key] / other[key] for one, other in zip(own, whole, strict=True)])
        for key in ("mebibytes", "seconds")
    }
    return {"learning": learning} | {key: spread([one[key] for one in own]) for key in own[0]} | shares


def main() -> None:
    """Measure all sides and write ``results/finetuning/adapter_costs.json``; with ``--take``, be one of them."""
    parser = command_line(str(__doc__))
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--result", default="finetuning/adapter_costs", help="results/<this>.json")
    parser.add_argument("--take", type=int, nargs=4, help="rank, steps, texts, tokens (used by the script itself)")
    options = parser.parse_args()
    if options.take:
        take_steps(*options.take)
        return
    record = Record(options.result, ["torch", "d2lbert"], [0])
    metrics = {name: costs(batch, options.turns) for name, batch in BATCHES.items()}
    record.write(metrics, parameters=count_parameters(learner(0)), texts_and_tokens_of_each=BATCHES)


if __name__ == "__main__":
    main()
