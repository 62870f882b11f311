"""The word embeddings of MiniLM as a product of two factors, without retraining: what is saved, and what it costs.

The model is fine-tuned on SST-2. Its matrix becomes the nearest product of rank r. All pieces count the same, or as
often as they stand in the training texts (and once more). The error of the matrix, the parameters, the bytes of the
file, and the accuracy on dev against the whole model's labels. Nothing is chosen, so dev is scored once at every rank.
What is finished is kept: the same command goes on where it was stopped.

    python -m benchmarks.compression.sharing    # needs D2LBERT_DATA for the real set; ten minutes on one core
    python -m benchmarks.compression.sharing --size 60 --runs FOLDER
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.command_line import add_runs, command_line
from benchmarks.pruned import Change, Whole
from benchmarks.record import Record, kept
from d2lbert.torch.compression import factorise_embeddings
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.weights.folder import WEIGHTS_FILE

RANKS = (320, 256, 192, 128, 96, 64, 32, 16)


def how_often(whole: Whole) -> torch.Tensor:
    """Return how often each piece stands in the training texts, plus one, (V,)."""
    ids = torch.cat([torch.tensor(encoding.ids) for encoding in whole.encodings("train")])
    return 1 + torch.bincount(ids, minlength=whole.model.config.vocab_size)


def factorised(rank: int, counts: torch.Tensor | None) -> Change:
    """Replace the word embeddings by two factors."""

    def change(model: BertForSequenceClassification) -> None:
        model.bert = factorise_embeddings(model.bert, rank, counts)

    return change


def size_of(model: BertForSequenceClassification) -> dict[str, int]:
    """Return the parameters of a model and the bytes of its written weights."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        written = (Path(folder) / WEIGHTS_FILE).stat().st_size
    return {"parameters": count_parameters(model), "bytes": written}


def at_rank(whole: Whole, rank: int, counts: torch.Tensor | None) -> dict[str, Any]:
    """Return the error of the matrix, the size and the dev score of the model at a rank."""
    matrix = whole.model.bert.embeddings.word.weight.detach()
    model = whole.after(factorised(rank, counts))
    words = model.bert.embeddings.word
    error = float((matrix - words.widen(words.narrow.weight).detach()).norm() / matrix.norm())
    return {"relative_error": error, **size_of(model), **whole.score(model, "dev")}


def ranks(options: argparse.Namespace, whole: Whole) -> dict[str, Any]:
    """Factorise at every rank, with each way to count."""
    found: dict[str, Any] = {}
    for name, counts in (("all the same", None), ("as often as read", how_often(whole))):
        found[name] = {}
        for rank in RANKS:
            path = options.runs / f"rank-{rank}-{name.replace(' ', '-')}.json"
            found[name][str(rank)] = kept(
                path, {"size": options.size}, lambda rank=rank, counts=counts: at_rank(whole, rank, counts)
            )
            print(name, rank, found[name][str(rank)], flush=True)
    return found


def main() -> None:
    """Factorise, and write ``results/compression/sharing.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--size", type=int, help="examples of each part of SST-2, to try the script out; default all")
    parser.add_argument("--result", default="compression/sharing", help="results/<this>.json")
    add_runs(parser, "compression/sharing")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert"], data_sets=["sst2"], size=options.size)
    torch.set_num_threads(1)
    whole = Whole(options.size)
    exact = {**size_of(whole.model), **whole.score(whole.model, "dev")}
    record.write(
        {"whole": exact, "ranks": ranks(options, whole)},
        **whole.notes(),
    )


if __name__ == "__main__":
    main()
