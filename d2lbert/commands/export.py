"""The command ``d2lbert export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d2lbert.commands.rows import note
from d2lbert.commands.sources import named_sources
from d2lbert.deploy.formats import BROWSER_FORMATS, FORMATS, MXNET_FORMATS, PARAMETERS_FILE, SYMBOL_FILE
from d2lbert.errors import UserError, unknown_name

_CALIBRATED = ("onnx-int8", "mxnet-int8")
_MEANINGS = FORMATS | BROWSER_FORMATS | MXNET_FORMATS


def export(
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            help="a fine-tuned model: a folder, or a name such as minilm-sst2; for a browser several adapters of one "
            "encoder may be given, or a model with the head for masked words",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="a new folder")],
    format: Annotated[
        str, typer.Option("--format", help="; ".join(f"{name}: {meaning}" for name, meaning in _MEANINGS.items()))
    ] = "onnx",
    packed: Annotated[
        bool, typer.Option("--packed", help="take rows of several texts each, instead of one text to a row")
    ] = False,
    texts: Annotated[
        Path | None,
        typer.Option(
            "--texts", help="a file of some hundred training texts, one a line, that calibrate mxnet-int8 or onnx-int8"
        ),
    ] = None,
) -> None:
    """Write a fine-tuned model for other engines, such as ONNX Runtime.

    The graph takes any number of texts of any length, as input_ids, attention_mask and token_type_ids, and returns
    logits. evaluate and predict read the new folder like any other model (onnx and onnx-int8, and with --edition mxnet
    mxnet and mxnet-int8). They run no code that a folder brings along: torch is for torch.export.load, tvm for
    d2lbert.deploy.tvm.CompiledModel. A folder for browsers is read by the JavaScript in d2lbert/deploy/browser/js; its
    browser.json says what it holds and how large each file is.
    """
    if format not in _MEANINGS:
        raise unknown_name("format", format, _MEANINGS)
    if texts is None and format == "mxnet-int8":
        raise UserError("--format mxnet-int8 needs --texts FILE")
    if texts is not None and format not in _CALIBRATED:
        raise UserError(f"--texts is not for --format {format}: only {' and '.join(_CALIBRATED)} are calibrated")
    if format in BROWSER_FORMATS:
        return _for_browser(model, out, format, packed)
    if len(model) > 1:
        raise UserError(f"--format {format} is of one model: give one --model, or --format onnx-web for adapters")
    if format in MXNET_FORMATS:
        return _for_mxnet(model[0], out, format, packed, texts)
    from d2lbert.deploy.export import export as write

    file = write(model[0], out, format, packed, _lines_of(texts))
    note(f"{file} has {file.stat().st_size / 1e6:.1f} MB")


def _for_browser(models: list[str], out: Path, format: str, packed: bool) -> None:
    if packed:
        raise UserError(f"--packed is not for --format {format}: a page reads one text at a time; leave it out")
    from d2lbert.deploy.browser.export import export_for_browser

    folder = export_for_browser(named_sources(models), out, format).parent
    for path in sorted(folder.iterdir()):
        note(f"{path} has {path.stat().st_size / 1e6:.2f} MB")


def _for_mxnet(model: str, out: Path, format: str, packed: bool, texts: Path | None) -> None:
    if packed:
        raise UserError(f"--packed is not for --format {format}: its graph reads one text to a row; leave it out")
    from d2lbert.deploy.symbols import export_symbol

    folder = export_symbol(model, out, format, _lines_of(texts) or []).parent
    for name in (SYMBOL_FILE, PARAMETERS_FILE):
        note(f"{folder / name} has {(folder / name).stat().st_size / 1e6:.2f} MB")


def _lines_of(texts: Path | None) -> list[str] | None:
    from d2lbert.data.readers.lines import nonblank_lines

    return None if texts is None else [line for _, line in nonblank_lines(texts)]
