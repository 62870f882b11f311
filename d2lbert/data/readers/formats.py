"""A user's own files: which formats a task can read, and the reader of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from d2lbert.data.readers import choices, pairs, questions, sentences, tags
from d2lbert.errors import UserError, unknown_name

# Task -> format of its files -> the reader. The first is the default where a file's ending does not decide.
READERS: dict[str, dict[str, Callable[..., Iterator[Any]]]] = {
    "classification": {
        "sst2": sentences.sst2,
        "glue-tsv": sentences.glue_tsv,
        "cola": sentences.cola,
        "csv": sentences.csv_file,
    },
    "pair": {
        "glue-tsv": pairs.glue_pairs,
        "mrpc": pairs.mrpc,
        "stsb": pairs.stsb,
        "rte-xml": pairs.rte,
        "mnli": pairs.mnli,
        "qnli": pairs.qnli,
        "sick": pairs.sick,
        "sick-relatedness": pairs.sick_relatedness,
        "wic": pairs.word_senses,
        "csv": pairs.csv_pairs,
    },
    "tagging": {"conll": tags.conll},
    "multiple_choice": {"swag": choices.swag, "copa": choices.copa},
    "question_answering": {"squad": questions.squad},
}

_BY_ENDING = {".csv": ("csv", "swag"), ".xml": ("rte-xml", "copa")}
# Their readers take no label names: scores, choices and words of a text have none, and WiC's answers are T and F.
_WITHOUT_LABELS = ("stsb", "sick-relatedness", "wic", "swag", "copa", "squad")


def read_file(
    path: str | Path, format: str, labels: Sequence[str] | None = None, task: str = "classification"
) -> list[Any]:
    """Read a user's own file of examples.

    Args:
        path: the file, UTF-8; ``.gz`` and ``.xz`` are unpacked on the way.
        format: how the file is laid out, one of ``READERS[task]``; the reader's docstring describes it.
            For classification: ``"sst2"``: text TAB label, no header; ``"glue-tsv"``: columns separated by TAB, among
            them ``sentence`` and ``label`` in a header, quotes are literal (a file of CoLA has no header and is
            recognised); ``"cola"``: that file; ``"csv"``: comma-separated, with columns ``text`` and ``label`` in a
            header, quotes as in a spreadsheet. For tagging: ``"conll"``: a word per line, its tag last, a blank line
            after each sentence. For multiple choice: ``"swag"``: comma-separated, with the columns ``sent1``,
            ``sent2``, ``ending0`` and so on, ``label``; ``"copa"``: XML with an ``item`` for each question. For
            question answering: ``"squad"``: the JSON of SQuAD 1.1 and 2.0.
        labels: the names of the labels. A file may hold the names or, unless one of them is itself a number, their
            indices, from 0. None means the names of the format's own data set, or any name where it has none.
        task: what the examples are for.

    Raises:
        UserError: the task or the format is unknown; or the file is missing, damaged or not UTF-8, lacks a column, or
            holds an empty text, a label outside ``labels``, or nothing at all.
    """
    known = _readers_of(task)
    if format not in known:
        raise unknown_name("format", format, known)
    reader = known[format]
    examples = list(reader(path) if labels is None or format in _WITHOUT_LABELS else reader(path, labels))
    if not examples:
        raise UserError(f"{path} holds no examples; give a file with at least one")
    return examples


def guess_format(path: str | Path, task: str) -> str:
    """Return the format that a file's ending suggests, or the task's default.

    Raises:
        UserError: the task is unknown.
    """
    endings = [ending for ending in Path(path).suffixes if ending not in (".gz", ".xz")]
    candidates = _BY_ENDING.get(endings[-1], ()) if endings else ()
    known = _readers_of(task)
    return next((format for format in candidates if format in known), next(iter(known)))


def _readers_of(task: str) -> dict[str, Callable[..., Iterator[Any]]]:
    if task not in READERS:
        raise unknown_name("task", task, READERS)
    return READERS[task]
