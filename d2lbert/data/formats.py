"""A user's own files: which formats a task can read, and the reader of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from d2lbert.data import readers, sentence_pairs, tagged
from d2lbert.errors import UserError, unknown_name

# Task -> the formats of its files. The first is taken for a file whose ending tells nothing.
FORMATS = {
    "classification": ("sst2", "glue-tsv", "cola", "csv"),
    "pair": ("glue-tsv", "mrpc", "stsb", "rte-xml", "mnli", "qnli", "sick", "sick-relatedness", "wic", "csv"),
    "tagging": ("conll",),
}

_BY_ENDING = {".csv": "csv", ".xml": "rte-xml"}


def read_file(
    path: str | Path, format: str, labels: Sequence[str] | None = None, task: str = "classification"
) -> list[Any]:
    """Read a user's own file of examples.

    Args:
        path: the file, UTF-8; ``.gz`` and ``.xz`` are unpacked on the way.
        format: how the file is laid out, one of ``FORMATS[task]``; each is described at its reader.
            For classification: ``"sst2"``: text TAB label, no header; ``"glue-tsv"``: columns separated by TAB, among
            them ``sentence`` and ``label`` in a header, quotes are literal (a file of CoLA has no header and is
            recognised); ``"cola"``: that file; ``"csv"``: comma-separated, with columns ``text`` and ``label`` in a
            header, quotes as in a spreadsheet. For tagging: ``"conll"``: a word a line, its tag last, a blank line
            after each sentence.
        labels: the names that a label may have. A file may hold the names or their places, counted from 0. None means
            the names of the format's own data set, and any name where it has none.
        task: what the examples are for.

    Raises:
        UserError: the file is missing, is not UTF-8, has no such columns, or holds an empty text, a label outside
            ``labels``, or nothing at all.
    """
    if format not in FORMATS[task]:
        raise unknown_name("format", format, FORMATS[task])
    if task == "classification":
        examples = list(_sentences(path, format, labels))
    elif task == "tagging":
        examples = list(tagged.conll(path, labels))
    else:
        examples = list(_pairs(path, format, labels))
    if not examples:
        raise UserError(f"{path} holds no examples; give a file with at least one line of text and label")
    return examples


def guess_format(path: str | Path, task: str) -> str:
    """Return the format that a file's ending tells, or the task's first."""
    endings = [ending for ending in Path(path).suffixes if ending not in (".gz", ".xz")]
    guess = _BY_ENDING.get(endings[-1], "") if endings else ""
    return guess if guess in FORMATS[task] else FORMATS[task][0]


def _sentences(path: str | Path, format: str, labels: Sequence[str] | None) -> Iterator[Any]:
    if format == "sst2":
        return readers.sst2(path, labels or readers.SENTIMENTS)
    if format == "csv":
        return readers.csv_file(path, labels)
    if format == "cola" or readers.is_cola(path):
        return readers.cola(path, labels or readers.ACCEPTABILITY)
    return readers.glue_tsv(path, labels or readers.SENTIMENTS)


def _pairs(path: str | Path, format: str, labels: Sequence[str] | None) -> Iterator[Any]:
    if format == "stsb":
        return sentence_pairs.stsb(path)
    if format == "sick-relatedness":
        return sentence_pairs.sick_relatedness(path)
    if format == "wic":
        return sentence_pairs.word_senses(path, sentence_pairs.gold_of(path))
    if format in ("glue-tsv", "csv"):
        return (sentence_pairs.glue_pairs if format == "glue-tsv" else sentence_pairs.csv_pairs)(path, labels)
    if format == "mrpc":
        return sentence_pairs.mrpc(path, labels or sentence_pairs.PARAPHRASE)
    if format in ("rte-xml", "qnli"):
        return (sentence_pairs.rte if format == "rte-xml" else sentence_pairs.qnli)(
            path, labels or sentence_pairs.ENTAILMENT
        )
    return (sentence_pairs.mnli if format == "mnli" else sentence_pairs.sick)(path, labels or sentence_pairs.INFERENCE)
