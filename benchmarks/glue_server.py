"""Files for GLUE's server (gluebenchmark.com/submit): its names, its labels, a zip without folders.

A file has the header ``index TAB prediction`` and a line for each row of the published test file, counted from 0.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from d2lbert.data.examples import Pair, ScoredPair, Sentence
from d2lbert.data.readers.lines import find_columns, tab_rows
from d2lbert.data.readers.pairs import PARAPHRASE
from d2lbert.data.readers.sentences import ACCEPTABILITY, SENTIMENTS
from d2lbert.storage.files import atomic, write_text

# All files that the server wants. AX, its diagnostic set, is answered by the model of MNLI.
FILES = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE", "WNLI", "AX")
# Labels that the readers name and the server numbers.
_NUMBERED = {"CoLA": ACCEPTABILITY, "SST-2": SENTIMENTS, "MRPC": PARAPHRASE}
_HIGHEST = 5.0  # score of STS-B
WNLI_ANSWER = "0"  # the commoner label of its test set: the paper's answer to every pair (Devlin et al. 2019, B.1)


def texts(path: Path, columns: Sequence[str], scored: bool = False) -> list[Sentence | Pair | ScoredPair]:
    """Return the examples of a test file, in its order; a text may be empty.

    Args:
        path: the file; a header names its columns.
        columns: of the text, or of the two texts.
        scored: whether pairs get a score and no label.

    Raises:
        UserError: the file cannot be read or lacks a column.
    """
    rows = tab_rows(path)
    places = find_columns(path, next(rows, (1, []))[1], columns)
    kind = Sentence if len(columns) == 1 else ScoredPair if scored else Pair
    return [kind(*(row[place].strip() for place in places)) for _, row in rows]


def answer(name: str, prediction: dict[str, object]) -> str:
    """Return a prediction in the server's words: a label, the number of a label, or a score from 0 to 5."""
    if "score" in prediction:
        return f"{min(_HIGHEST, max(0.0, float(str(prediction['score'])))):.3f}"
    label = str(prediction["label"])
    return str(_NUMBERED[name].index(label)) if name in _NUMBERED else label


def write(folder: Path, name: str, answers: Sequence[str]) -> None:
    """Write one file, whole or not at all."""
    lines = [f"{index}\t{said}" for index, said in enumerate(answers)]
    write_text(folder / f"{name}.tsv", "\n".join(["index\tprediction", *lines]) + "\n")


def pack(folder: Path) -> list[str]:
    """Write ``submission.zip`` if all files are there; return the names of those that are not."""
    missing = [name for name in FILES if not (folder / f"{name}.tsv").is_file()]
    if not missing:
        with atomic(folder / "submission.zip") as path, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in FILES:
                archive.write(folder / f"{name}.tsv", f"{name}.tsv")
    return missing
