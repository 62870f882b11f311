"""A memory of the segments before (Transformer-XL): what does a language model gain by it, and where in a segment?

Two small language models with relative attention read the same segments of Wikipedia in the same order, from the same
first weights, letter by letter: a to z and the space, as in the set text8. One sees its segment alone. The other also
sees the states of the segment before. On held-out articles both are asked for every next letter, the loss is kept for
each place of a segment, and the memory may be longer than it was in training. The model without a memory is also asked
the slow way: a window that moves on through the text, so that a letter is always predicted from a full window.
Losses are in bits for each letter. What is finished is kept.

    OMP_NUM_THREADS=1 python -m benchmarks.pretraining.memory    # needs D2LBERT_DATA; 40 minutes on one core
    python -m benchmarks.pretraining.memory --steps 5 --letters 8000 --seeds 0 --runs FOLDER --result pretraining/trial
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import re
import time
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.command_line import add_runs, add_seeds, command_line
from benchmarks.record import Record, kept, spread
from d2lbert import data
from d2lbert.config.base import BlockSizes
from d2lbert.data.examples import Document
from d2lbert.torch.attention import causal_mask
from d2lbert.torch.encoder import count_parameters, initialize
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.training.optim import decay_groups, descend, linear_warmup_and_decay, scale_rates
from d2lbert.torch.transformer_xl import RelativeEncoder, remember

WIDTH, LAYERS = 128, 3
SEGMENT, STREAMS, STEPS = 64, 32, 1500
ALPHABET = " abcdefghijklmnopqrstuvwxyz"
EVERY = 100  # one article of so many is held out
MEMORIES = {"no memory": 0, "a memory": SEGMENT}  # in training
ASKED_WITH = (0, 64, 128, 256)  # letters of memory, when the model is asked
RATE, FIRST_WEIGHTS = 2e-3, 0.08  # as other models of this width in this folder; not tuned here
HELD_OUT, ASKED_STREAMS = 320_000, 8  # letters, and rows to read them in
WINDOW_STEP = 4  # of the letters, one of so many is asked for by a window: each costs as much as a segment


class LanguageModel(nn.Module):
    """Embeddings, relative blocks, and the embeddings once more as the output layer."""

    def __init__(self) -> None:
        super().__init__()
        sizes = BlockSizes(WIDTH, 2, 4 * WIDTH, activation="gelu", dropout=0.0, attention_dropout=0.0)
        self.letters = nn.Embedding(len(ALPHABET), WIDTH)
        self.encoder = RelativeEncoder(sizes, LAYERS)
        self.apply(lambda module: initialize(module, FIRST_WEIGHTS))

    def forward(self, ids: Tensor, memories: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        """Return the scores (B, L, V) of the next letters, and the inputs of the blocks."""
        found = self.encoder(self.letters(ids), causal_mask(ids.shape[1], ids.device)[0], memories)
        return functional.linear(found.sequence, self.letters.weight), found.inputs


def letters_of(articles: Iterable[Document]) -> np.ndarray:
    """Return articles as one row of numbers: small letters, and one space for all that stands between them."""
    text = " ".join(" ".join(article.paragraphs) for article in articles)
    without_accents = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text))
    plain = re.sub("[^a-z]+", " ", without_accents.lower())
    return np.array([ALPHABET.index(letter) for letter in plain])


@functools.cache
def parts() -> tuple[np.ndarray, np.ndarray]:
    """Return the letters to learn from, and those of the articles that are held out."""
    articles = list(data.read("wikipedia_en", "train"))
    learned = letters_of(article for number, article in enumerate(articles) if number % EVERY)
    return learned, letters_of(articles[::EVERY])


def in_streams(letters: np.ndarray, streams: int) -> Tensor:
    """Return a text as so many rows, each a whole number of segments and the letter that follows."""
    length = (len(letters) - 1) // streams // SEGMENT * SEGMENT
    return torch.from_numpy(np.stack([letters[row * length : (row + 1) * length + 1] for row in range(streams)]))


def segments(letters: np.ndarray, streams: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield letters and what follows each, (B, L): the text in so many streams, each read segment by segment."""
    rows = in_streams(letters, streams)
    for begin in range(0, rows.shape[1] - 1, SEGMENT):
        yield rows[:, begin : begin + SEGMENT], rows[:, begin + 1 : begin + SEGMENT + 1]


def losses(model: LanguageModel, ids: Tensor, following: Tensor, memories: list[Tensor] | None) -> Any:
    """Return the loss of every letter in bits (B, L), and the inputs of the blocks."""
    scores, inputs = model(ids, memories)
    nats = functional.cross_entropy(scores.flatten(0, 1), following.flatten(), reduction="none")  # (B L,)
    return nats.view_as(following) / math.log(2), inputs


def train(memory: int, seed: int, letters: np.ndarray, steps: int) -> tuple[LanguageModel, float]:
    """Train a model that remembers so many letters; return it, and its seconds."""
    seed_everything(seed)
    model = LanguageModel().train()
    optimizer = torch.optim.AdamW(decay_groups(model, 0.01), lr=RATE)
    began, memories = time.perf_counter(), None
    for step, (ids, following) in enumerate(itertools.islice(segments(letters, STREAMS), steps)):
        bits, inputs = losses(model, ids, following, memories)
        scale_rates(optimizer, linear_warmup_and_decay(step, steps // 20, steps))
        loss = descend(math.log(2) * bits.mean(), model, optimizer, 1.0)
        memories = remember(inputs, memory, memories) if memory else None
        if not step % 250:
            print(f"memory {memory}, seed {seed}, step {step}: {float(loss) / math.log(2):.3f} bits", flush=True)
    return model.eval(), time.perf_counter() - began


@torch.inference_mode()
def ask(model: LanguageModel, letters: np.ndarray, memory: int) -> list[float]:
    """Return the mean loss at each place of a segment (L,), with a memory of so many letters."""
    found, memories = [], None
    for number, (ids, following) in enumerate(segments(letters, ASKED_STREAMS)):
        bits, inputs = losses(model, ids, following, memories)
        memories = remember(inputs, memory, memories) if memory else None
        if number >= max(ASKED_WITH) // SEGMENT:  # the same letters for all: the longest memory is full
            found.append(bits.mean(0))
    return [round(float(loss), 5) for loss in torch.stack(found).mean(0)]


@torch.inference_mode()
def ask_by_window(model: LanguageModel, letters: np.ndarray) -> float:
    """Return the mean loss where a letter is predicted from a whole segment of those before it."""
    first = max(ASKED_WITH) - SEGMENT + 1  # so that the letters are among those that ask() counts
    rows = in_streams(letters, ASKED_STREAMS)[:, first:].unfold(1, SEGMENT + 1, WINDOW_STEP).flatten(0, 1)  # (N, L + 1)
    found = [losses(model, part[:, :-1], part[:, 1:], None)[0][:, -1] for part in rows.split(256)]
    return float(torch.cat(found).mean())


def measure(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train a model and ask it with memories of several lengths."""
    learned, held_out = parts()
    model, seconds = train(MEMORIES[name], seed, learned, options.steps)
    asked = held_out[: options.letters]
    found: dict[str, Any] = {"seconds": seconds, "parameters": count_parameters(model), "learned from": len(learned)}
    found["places"] = {str(memory): ask(model, asked, memory) for memory in ASKED_WITH}
    if not MEMORIES[name]:
        found["window"] = ask_by_window(model, asked)
    return found


def main() -> None:
    """Train and ask what is not there yet, and write ``results/pretraining/memory.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--steps", type=int, default=STEPS, help="of training")
    parser.add_argument("--letters", type=int, default=HELD_OUT, help="held-out letters that are asked for")
    parser.add_argument("--result", default="pretraining/memory", help="results/<this>.json")
    add_seeds(parser)
    add_runs(parser, "pretraining/memory")
    options = parser.parse_args()
    fewest = ASKED_STREAMS * (max(ASKED_WITH) + SEGMENT) + 1
    if options.letters < fewest:
        parser.error(f"--letters: at least {fewest:,}, a segment for each row after the longest memory")
    record = Record(options.result, ["torch", "d2lbert"], options.seeds, data_sets=["wikipedia_en"], samples_do=False)
    torch.set_num_threads(1)
    metrics: dict[str, Any] = {}
    for name in MEMORIES:
        runs = []
        for seed in options.seeds:
            told = {"steps": options.steps, "letters": options.letters, "memory": MEMORIES[name], "seed": seed}
            path = options.runs / f"{name.replace(' ', '-')}-{seed}.json"
            runs.append(kept(path, told, lambda name=name, seed=seed: measure(name, seed, options)))
        metrics[name] = summary(runs)
        print(name, {asked: one["loss"]["mean"] for asked, one in metrics[name]["asked with"].items()}, flush=True)
    record.write(
        metrics,
        data="wikipedia_en",
        segment=SEGMENT,
        streams=STREAMS,
        steps=options.steps,
        asked=options.letters,
        layers=LAYERS,
        width=WIDTH,
    )


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the losses over the seeds, for each length of memory that the model was asked with."""
    found: dict[str, Any] = {"parameters": runs[0]["parameters"], "asked with": {}}
    for memory in runs[0]["places"]:
        places = np.array([run["places"][memory] for run in runs])  # (seeds, L)
        found["asked with"][memory] = {"loss": spread(places.mean(1).tolist()), "places": places.mean(0).tolist()}
    if "window" in runs[0]:
        found["window"] = spread([run["window"] for run in runs])
    return found


if __name__ == "__main__":
    main()
