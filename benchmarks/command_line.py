"""The command line of a benchmark: its help is the script's docstring, and a shared option is the same in all."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.record import ROOT
from d2lbert.config.training import PRECISIONS


def command_line(doc: str) -> argparse.ArgumentParser:
    """Return a parser whose help begins with the docstring of the script."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_seeds(parser: argparse.ArgumentParser, default: Sequence[int] = (0, 1, 2)) -> None:
    """Add ``--seeds``: a run for each."""
    parser.add_argument("--seeds", type=int, nargs="+", default=list(default), help="a run for each")


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Add ``--precision``, that of training."""
    parser.add_argument("--precision", default="auto", choices=PRECISIONS, help="of training")


def add_runs(parser: argparse.ArgumentParser, name: str) -> None:
    """Add ``--runs``, the folder in which a benchmark called ``topic/run`` keeps what is finished."""
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / name, help="where finished runs are kept")
