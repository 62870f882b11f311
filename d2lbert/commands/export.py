"""The command ``d2lbert export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d2lbert.commands.rows import note
from d2lbert.deploy.formats import FORMATS


def export(
    model: Annotated[str, typer.Option("--model", help="a fine-tuned model: a folder, or a name such as minilm-sst2")],
    out: Annotated[Path, typer.Option("--out", help="a new folder")],
    format: Annotated[
        str, typer.Option("--format", help="; ".join(f"{name}: {meaning}" for name, meaning in FORMATS.items()))
    ] = "onnx",
    packed: Annotated[
        bool, typer.Option("--packed", help="take rows of several texts each, instead of one text to a row")
    ] = False,
) -> None:
    """Write a fine-tuned model for other engines, such as ONNX Runtime.

    The graph takes any number of texts of any length, as input_ids, attention_mask and token_type_ids, and returns
    logits. evaluate and predict read the new folder like any other model (onnx and onnx-int8).
    """
    from d2lbert.deploy.export import export as write

    file = write(model, out, format, packed)
    note(f"{file} has {file.stat().st_size / 1e6:.1f} MB")
