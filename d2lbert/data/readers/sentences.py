"""Read sentences: SST-2, CoLA, GLUE's tables, TREC's questions, lines without labels.

An error names file, line and fault. A reader keeps one line in memory, so a file may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from d2lbert.data.examples import Sentence
from d2lbert.data.readers.lines import (
    count_columns,
    fault,
    filled,
    find_columns,
    nonblank_lines,
    parse_label,
    tab_rows,
    texts_inside,
)

# In the order of the numbers 0 and 1 that the files hold.
SENTIMENTS = ("negative", "positive")
ACCEPTABILITY = ("unacceptable", "acceptable")


def sst2(path: str | Path, labels: Sequence[str] | None = SENTIMENTS) -> Iterator[Sentence]:
    """Read ``text TAB label`` lines without a header: the whole sentences of SST-2.

    Raises:
        UserError: the file cannot be read, or a line has another layout, an empty text or an unknown label.
    """
    for number, line in nonblank_lines(path):
        columns = line.split("\t")
        if len(columns) != 2:
            actual = count_columns(columns)
            raise fault(path, number, f"{actual} where text TAB label is wanted", "separate them by one TAB")
        text = filled(path, number, columns[0])
        yield Sentence(text, parse_label(path, number, columns[1], labels, SENTIMENTS))


def glue_tsv(path: str | Path, labels: Sequence[str] | None = None) -> Iterator[Sentence]:
    """Read the TSV of GLUE: a header with ``sentence`` and ``label``; quotes are literal.

    A file of CoLA has no header and is recognised. The default labels are those of SST-2, or of CoLA for such a file.
    """
    if is_cola(path):
        return cola(path, labels or ACCEPTABILITY)
    return _sentiments(path, labels or SENTIMENTS)


def cola(path: str | Path, labels: Sequence[str] | None = ACCEPTABILITY) -> Iterator[Sentence]:
    """Read CoLA: ``source TAB label TAB the source's mark TAB sentence``, no header (Warstadt et al. 2019).

    Raises:
        UserError: the file cannot be read, or a line has another layout, an empty text or an unknown label.
    """
    for number, row in tab_rows(path):
        if len(row) != 4:
            raise fault(path, number, f"{count_columns(row)} where 4 are wanted", "separate them by one TAB")
        yield Sentence(filled(path, number, row[3]), parse_label(path, number, row[1], labels, ACCEPTABILITY))


def topics(path: str | Path) -> Iterator[Sentence]:
    """Read ``text TAB label`` lines without a header, whose labels are any names: AG News.

    Raises:
        UserError: the file cannot be read, or a line has another layout, an empty text or no label.
    """
    return sst2(path, labels=None)


def trec(path: str | Path) -> Iterator[Sentence]:
    """Read TREC's questions, ``KIND:detail question`` lines in Latin-1, with one of six kinds (Li and Roth 2002).

    Args:
        path: a file, or a file in an archive: ``qc.zip/qc/train.txt``.

    Raises:
        UserError: the file cannot be read, or a line has another layout or an empty question.
    """
    for label, text in _questions(path):
        yield Sentence(text, label.partition(":")[0])


def trec_fine(path: str | Path) -> Iterator[Sentence]:
    """Read TREC's questions with one of fifty kinds, such as ``LOC:city``. All else is as in :func:`trec`."""
    for label, text in _questions(path):
        yield Sentence(text, label)


def _questions(path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the label, kind and detail, and the text of each question."""
    for origin, content in texts_inside(path, "latin-1"):
        for number, line in enumerate(content.split("\n"), start=1):
            if not line.strip():
                continue
            label, _, text = line.strip().partition(" ")
            if not all(label.partition(":")):
                raise fault(origin, number, f"{label[:40]!r} where KIND:detail is wanted", "get the file again")
            yield label, filled(origin, number, text, "question")


def is_cola(path: str | Path) -> bool:
    """Whether the first line is one of CoLA's: four fields, the second 0 or 1, the third a mark or nothing."""
    _, first = next(tab_rows(path), (1, []))
    return len(first) == 4 and first[1] in ("0", "1") and not any(map(str.isalnum, first[2]))


def unlabelled_lines(path: str | Path) -> Iterator[Sentence]:
    """Read a text on each line, without labels; blank lines are skipped.

    Raises:
        UserError: the file cannot be read, or a line holds no visible character.
    """
    for number, line in nonblank_lines(path):
        yield Sentence(filled(path, number, line))


def _sentiments(path: str | Path, labels: Sequence[str]) -> Iterator[Sentence]:
    """Yield the sentence and the label of each row of GLUE's SST-2. The first row names the columns."""
    rows = tab_rows(path)
    _, header = next(rows, (1, []))
    text_column, label_column = find_columns(path, header, ("sentence", "label"))
    for number, row in rows:
        if len(row) != len(header):
            raise fault(path, number, f"{count_columns(row)} where the header has {len(header)}", "mend the line")
        label = parse_label(path, number, row[label_column], labels, SENTIMENTS)
        yield Sentence(filled(path, number, row[text_column]), label)
