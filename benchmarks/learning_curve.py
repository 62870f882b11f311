"""The learning curve of a pretraining run: loss on held-out documents against tokens read, and a fitted power law.

The law is L(n) = a + b n^(-c) for n tokens (Kaplan et al. 2020; with the floor a, Hoffmann et al. 2022). A small BERT
rests for long at the loss of frequencies before it learns to look around, and no power law describes this rest. So the
law is fitted after the steepest fall, twice: on all points there, and on their first half alone, to see how well it
foretells the second.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import curve_fit

from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert import UserError
from d2lbert.torch.training.pretraining import CHECKPOINTS, LOG

FEWEST = 6  # points for a law
MILLION = 1e6


def read_curve(path: Path) -> dict[str, list[float]]:
    """Return the columns of a log at the steps at which held-out documents were scored."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["dev_masked_loss"]]
    if len(rows) < 2:
        raise UserError(f"{path} holds {len(rows)} validations, too few for a curve: train for longer")
    names = ("step", "tokens", "learning_rate", *(name for name in rows[0] if name.startswith("dev_")))
    return {name: [float(row[name]) for row in rows] for name in names}


def power_law(millions: np.ndarray, floor: float, factor: float, exponent: float) -> np.ndarray:
    """Return a + b n^(-c), for n in millions of tokens."""
    return floor + factor * millions**-exponent


def fit(tokens: np.ndarray, losses: np.ndarray) -> dict[str, float]:
    """Return a, b and c, none of them negative, and the root of the mean squared distance from the points."""
    found, _ = curve_fit(power_law, tokens / MILLION, losses, p0=(4.0, 3.0, 0.3), bounds=(0, [np.inf, np.inf, 5]))
    distance = losses - power_law(tokens / MILLION, *found)
    names = ("floor", "factor", "exponent")
    return dict(zip(names, found.tolist(), strict=True)) | {"distance": float(np.sqrt((distance**2).mean()))}


def fits(curve: dict[str, list[float]]) -> dict[str, Any]:
    """Fit the law to the points after the steepest fall and to their first half, which then foretells the end."""
    falls = -np.diff(curve["dev_masked_loss"])
    first = int(falls.argmax()) + 2  # the fall of place i ends at point i + 1
    tokens, losses = (np.array(curve[name])[first:] for name in ("tokens", "dev_masked_loss"))
    if len(tokens) < FEWEST:
        raise UserError(f"{len(tokens)} points after the steepest fall are too few for a law: train for longer")
    half = len(tokens) // 2
    early = fit(tokens[:half], losses[:half])
    foretold = power_law(tokens[-1:] / MILLION, early["floor"], early["factor"], early["exponent"])
    return {
        "first step": curve["step"][first],
        "all": fit(tokens, losses),
        "first half": early,
        "last loss": float(losses[-1]),
        "last loss, foretold from the first half": float(foretold[0]),
    }


def measure(name: str, doc: str) -> None:
    """Read a script's command line and the log that it names, and write ``results/pretraining/<name>.json``.

    Args:
        name: of the script.
        doc: its docstring, for its help.
    """
    parser = command_line(doc)
    parser.add_argument("--run", type=Path, required=True, help="a folder that d2lbert pretrain wrote")
    options = parser.parse_args()
    record = Record(f"pretraining/{name}", ["torch", "scipy", "d2lbert"])
    curve = read_curve(options.run / LOG)
    states = sorted((options.run / CHECKPOINTS).glob("checkpoint-*/state.json"))
    if not states:
        raise UserError(f"{options.run} has no checkpoint: give the folder of a run of d2lbert pretrain")
    settings = json.loads(states[-1].read_text(encoding="utf-8"))["run"]
    metrics = {"curve": curve, "power law": fits(curve)}
    print(metrics["power law"])
    record.write(metrics, settings=settings)
