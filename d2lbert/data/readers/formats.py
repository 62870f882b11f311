"""A user's own files: which formats a task can read, and the reader of each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from d2lbert.data.examples import TaggedSentence, without_label
from d2lbert.data.readers import choices, pairs, questions, records, sentences, tags
from d2lbert.data.readers.lines import csv_rows, file_ending, find_column, is_number, nonblank_lines, tab_rows
from d2lbert.data.readers.sentences import is_cola
from d2lbert.data.readers.tables import FORMATS, UNNAMED, Columns, Table, read_table
from d2lbert.errors import UserError, unknown_name
from d2lbert.text import split_words

# Task -> format of its files, beside tables -> the reader. The first is the default where nothing else decides, but for
# classification that is a TSV: a file is one of SST-2, whose 0 and 1 have names, only if the user says so.
READERS: dict[str, dict[str, Callable[..., Iterator[Any]]]] = {
    "classification": {
        "sst2": sentences.sst2,
        "glue-tsv": sentences.glue_tsv,
        "cola": sentences.cola,
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
    },
    "tagging": {"conll": tags.conll},
    "multiple_choice": {"swag": choices.swag, "copa": choices.copa},
    "question_answering": {"squad": questions.squad},
}

# Any of these tables (:mod:`d2lbert.data.readers.tables`) can be read for every task.
_BY_ENDING = {".csv": ("csv",), ".xml": ("rte-xml", "copa"), ".parquet": ("parquet",)}
_BY_ENDING |= dict.fromkeys((".jsonl", ".ndjson"), ("jsonl",)) | {".conll": ("conll",)}
# The columns by which a TSV is known as a table of its task. The others of pairs are those of GLUE's files, too.
_TSV_COLUMNS: dict[str, Sequence[tuple[str, ...]]] = {
    "pair": (("first", "second"), ("text", "pair")),
    "tagging": [(name,) for name in records.WORDS],
    "question_answering": list(itertools.product(records.QUESTIONS, records.CONTEXTS)),
    "multiple_choice": [(name,) for name in records.PREMISES],
}
# Their readers take no label names: scores, choices and words of a text have none, and WiC's answers are T and F.
_WITHOUT_LABELS = ("stsb", "sick-relatedness", "wic", "swag", "copa", "squad")
LINES = "lines"  # texts to predict, one on each line


def read_file(
    path: str | Path,
    format: str,
    labels: Sequence[str] | None = None,
    task: str = "classification",
    columns: Columns = UNNAMED,
    labelled: bool = True,
    faults: list[str] | None = None,
) -> list[Any]:
    """Read a user's own file of examples.

    Args:
        path: the file, UTF-8; ``.gz`` and ``.xz`` are unpacked on the way.
        format: how the file is laid out: a table (``"csv"``, ``"tsv"``, ``"jsonl"``, ``"json"``, ``"parquet"``; see
            :func:`d2lbert.data.readers.tables.read_table`), for every task, or one of ``READERS[task]``, whose
            docstring describes it. :func:`guess_format` tells it from the ending.
            For classification: ``"sst2"``: text TAB label, no header; ``"glue-tsv"``: columns separated by TAB, among
            them ``sentence`` and ``label`` in a header, quotes are literal (a file of CoLA has no header and is
            recognised); ``"cola"``: that file. For tagging: ``"conll"``: a word per line, its tag last, a blank line
            after each sentence. For multiple choice: ``"swag"``: comma-separated, with the columns ``sent1``,
            ``sent2``, ``ending0`` and so on, ``label``; ``"copa"``: XML with an ``item`` for each question. For
            question answering: ``"squad"``: the JSON of SQuAD 1.1 and 2.0.
        labels: the names of the labels; None means those of the format's own data set, or any name where it has none.
            What a number means is fixed in ``"sst2"``, ``"cola"``, ``"mrpc"`` and GLUE's SST-2; elsewhere it is a
            name like any other (see :func:`d2lbert.data.readers.lines.parse_label`).
        task: what the examples are for.
        columns: of a table: the names of its columns, where they are not those that the task looks for.
        labelled: whether labels are wanted. If not, a file may lack them, and those that are there are not read.
        faults: what is wrong with the file is added here instead of raised. Of a table, every row that is right is
            returned; in the other formats the first fault ends the reading.

    Raises:
        UserError: the task or the format is unknown; or the file is missing, damaged or not UTF-8, lacks a column, or
            holds an empty text, a label outside ``labels``, or nothing at all.
    """
    readers = _readers_of(task)
    known = [*readers, *FORMATS, *([LINES] if _takes_lines(task, labelled) else [])]
    if format not in known:
        raise unknown_name("format", format, known)
    if columns.given and format not in FORMATS:
        raise UserError(f"{path} is read as {format}, which has no columns to name: give --format csv or another table")
    examples: list[Any] = []
    try:
        refuse_no_file(path)
        if format in FORMATS:
            table = open_table(path, format, task, columns, labels)
            examples.extend(records.examples(table, task, columns, labels, labelled, faults))
        else:
            examples.extend(_read_other(path, format, labels, task, labelled))
        if not examples and not faults:
            raise UserError(f"{path} holds no examples; give a file with at least one")
    except UserError as error:
        if faults is None:
            raise
        faults.append(str(error))
    return examples


def refuse_no_file(path: str | Path) -> None:
    """Refuse what is there and is no file.

    Raises:
        UserError: it is a folder, a pipe or a device.
    """
    if Path(path).is_dir():
        raise UserError(f"{path} is a folder: give a file in it")
    if str(path) == "-" or (Path(path).exists() and not Path(path).is_file()):
        raise UserError(
            f"{path} is a pipe, standard input or a device, and a FILE is read more than once: write it to a file first"
        )


def is_file(path: str | Path) -> bool:
    """Whether there is a file of this name; errors are those of :func:`refuse_no_file`."""
    refuse_no_file(path)
    return Path(path).is_file()


def open_table(
    path: str | Path, format: str, task: str, columns: Columns = UNNAMED, labels: Sequence[str] | None = None
) -> Table:
    """Open a user's table.

    Its first line is a header. Only a TSV for classification may be without one, ``text TAB label`` from the first line
    on: where the user names no column, the first line has two fields, neither of which is called as a column is, and
    the second is seen to be a label. A label is empty, a number, one of ``labels``, or stands in another line, too.

    Args:
        path, format, task, columns, labels: as for :func:`read_file`.

    Raises:
        UserError: as :func:`d2lbert.data.readers.tables.read_table`.
    """
    bare = format == "tsv" and task == "classification" and not columns.given and _begins_with_example(path, labels)
    return read_table(path, format, columns.separator, headed=not bare)


def _begins_with_example(path: str | Path, labels: Sequence[str] | None) -> bool:
    rows = tab_rows(path)
    _, first = next(rows, (1, []))
    if len(first) != 2 or not {*records.TEXTS, *records.TARGETS}.isdisjoint(_names(first)):
        return False
    label = first[1].strip()
    if not label or is_number(label) or label in (labels or ()):
        return True
    return any(len(row) == 2 and row[1].strip() == label for _, row in rows)


def _read_other(
    path: str | Path, format: str, labels: Sequence[str] | None, task: str, labelled: bool
) -> Iterator[Any]:
    """Read a format that is no table."""
    if format == LINES:
        return _lines_of(path, task)
    reader = _readers_of(task)[format]
    if not labelled:
        return reader(path, labelled=False) if format in ("squad", "conll") else map(without_label, reader(path))
    return reader(path) if labels is None or format in _WITHOUT_LABELS else reader(path, labels)


def _lines_of(path: str | Path, task: str) -> Iterator[Any]:
    for sentence in sentences.unlabelled_lines(path):
        words = tuple(split_words(sentence.text, lowercase=False))
        yield TaggedSentence(words) if task == "tagging" else sentence


def guess_format(path: str | Path, task: str, columns: Columns = UNNAMED, labelled: bool = True) -> str:
    """Return the format that a file's ending, and where that is not enough its beginning, suggest.

    A file that is not there, or cannot be read, has the format that its ending alone suggests: its reader will say why.

    Args:
        path: the file.
        task: what its examples are for.
        columns: what the user said of its columns; if anything, it is a table.
        labelled: whether it should have labels.

    Raises:
        UserError: the task is unknown.
    """
    known = [*_readers_of(task), *FORMATS]
    ending = file_ending(path)
    try:
        refuse_no_file(path)  # a pipe would lose its beginning
        if ending == ".json":
            return _guess_json(path, task)
        if ending == ".csv" and task == "multiple_choice" and not columns.given and _is_swag(path):
            return "swag"
        by_ending = next((format for format in _BY_ENDING.get(ending, ()) if format in known), "")
        if by_ending:
            return by_ending
        if columns.given:
            return "csv" if columns.separator else "tsv"
        if ending == ".tsv" and _is_table(path, task):
            return "tsv"
        if _takes_lines(task, labelled) and ending != ".tsv":
            return LINES
        if task == "classification" and is_cola(path):
            return "cola"
    except UserError:
        if ending == ".json" and task != "question_answering":
            return "json"
    return "tsv" if task == "classification" else known[0]


def _takes_lines(task: str, labelled: bool) -> bool:
    return not labelled and task in ("classification", "tagging")


def _guess_json(path: str | Path, task: str) -> str:
    """A list is a table; an object that is whole on its line is a line of JSON lines, unless it is that of SQuAD."""
    _, line = next(nonblank_lines(path), (1, ""))
    if line.lstrip().startswith("["):
        return "json"
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        first = None
    if isinstance(first, dict) and "data" not in first:
        return "jsonl"
    return "squad" if task == "question_answering" else "json"


def _is_swag(path: str | Path) -> bool:
    _, header = next(csv_rows(path), (1, []))
    return find_column(path, header, "sent1") is not None


def _is_table(path: str | Path, task: str) -> bool:
    """Whether the first line of a TSV names the columns of a table of the task."""
    _, first = next(tab_rows(path), (1, []))
    names = set(_names(first))
    return any(names.issuperset(wanted) for wanted in _TSV_COLUMNS.get(task, ()))


def _names(first: Sequence[str]) -> list[str]:
    """Return the fields of a first line as names of columns are compared."""
    return [name.strip().casefold() for name in first]


def _readers_of(task: str) -> dict[str, Callable[..., Iterator[Any]]]:
    if task not in READERS:
        raise unknown_name("task", task, READERS)
    return READERS[task]
