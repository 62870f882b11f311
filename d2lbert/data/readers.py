"""Read the file formats of the data sets, one generator for each. An error names the file, the line and the fault.

A reader holds one line at a time, so a corpus may be larger than memory.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from d2lbert.data.examples import Analogy, Document, MinimalPair, Sentence, Translation, WordInContext, WordPair
from d2lbert.data.lines import (
    archive_texts,
    count_columns,
    csv_rows,
    fault,
    filled,
    filled_lines,
    find_columns,
    known_label,
    known_score,
    lines,
    tab_rows,
)
from d2lbert.errors import UserError

# In the order of the numbers 0 and 1 that the files hold.
SENTIMENTS = ("negative", "positive")
ACCEPTABILITY = ("unacceptable", "acceptable")


def sst2(path: str | Path, labels: Sequence[str] | None = SENTIMENTS) -> Iterator[Sentence]:
    """Read ``text TAB label`` lines without a header: the whole sentences of SST-2."""
    for number, line in filled_lines(path):
        columns = line.split("\t")
        if len(columns) != 2:
            found = count_columns(columns)
            raise fault(path, number, f"{found} where text TAB label is wanted", "separate them by one TAB")
        text = filled(path, number, columns[0])
        yield Sentence(text, known_label(path, number, columns[1], labels))


def glue_tsv(path: str | Path, labels: Sequence[str] | None = None) -> Iterator[Sentence]:
    """Read the TSV of GLUE: a header with ``sentence`` and ``label``; quotes mean nothing special.

    A file of CoLA has no header and is recognised. The default labels are those of SST-2, or of CoLA.
    """
    if is_cola(path):
        return cola(path, labels or ACCEPTABILITY)
    return _labelled_rows(path, tab_rows(path), "sentence", labels or SENTIMENTS)


def cola(path: str | Path, labels: Sequence[str] | None = ACCEPTABILITY) -> Iterator[Sentence]:
    """Read CoLA: ``source TAB label TAB the source's mark TAB sentence``, no header (Warstadt et al. 2019)."""
    for number, row in tab_rows(path):
        if len(row) != 4:
            raise fault(path, number, f"{count_columns(row)} where 4 are wanted", "separate them by one TAB")
        yield Sentence(filled(path, number, row[3]), known_label(path, number, row[1], labels))


def is_cola(path: str | Path) -> bool:
    """Whether the first line is one of CoLA's: four fields without a header, the second 0 or 1."""
    _, first = next(tab_rows(path), (1, []))
    return len(first) == 4 and first[1] in ("0", "1")


def csv_file(path: str | Path, labels: Sequence[str] | None = None) -> Iterator[Sentence]:
    """Read a CSV with columns ``text`` and ``label`` in its header."""
    return _labelled_rows(path, csv_rows(path), "text", labels)


def paragraphs(path: str | Path) -> Iterator[Document]:
    """Read plain text: one paragraph a line, a blank line between documents (``.txt``, ``.txt.gz``, ``.txt.xz``)."""
    collected: list[str] = []
    for _, line in lines(path):
        text = line.strip()
        if text:
            collected.append(text)
        elif collected:
            yield Document(tuple(collected))
            collected = []
    if collected:
        yield Document(tuple(collected))


def analogies(path: str | Path) -> Iterator[Analogy]:
    """Read ``questions-words.txt``: lines of four words below lines ``: section`` (Mikolov et al. 2013)."""
    section = ""
    for number, line in filled_lines(path):
        words = line.split()
        if words[0] == ":":
            section = " ".join(words[1:])
        elif len(words) != 4:
            raise fault(path, number, f"{len(words)} words where a question has 4", "mend or remove the line")
        elif not section:
            raise fault(path, number, "a question before the first section", "put a line ': name' above it")
        else:
            yield Analogy(section, *words)


def word_pairs(path: str | Path) -> Iterator[WordPair]:
    """Read ``word word score`` lines. The source is the file's name without ``EN-`` and ``.txt``."""
    source = Path(path).name.removeprefix("EN-").removesuffix(".txt")
    for number, line in filled_lines(path):
        columns = line.split()
        if len(columns) != 3:
            raise fault(
                path, number, f"{count_columns(columns)} where two words and a score are wanted", "mend the line"
            )
        yield WordPair(columns[0], columns[1], known_score(path, number, columns[2]), source)


def words_in_context(data: str | Path, gold: str | Path) -> Iterator[WordInContext]:
    """Read a pair of WiC files: ``word TAB pos TAB i-j TAB sentence TAB sentence``, and T or F for each line."""
    for row, answer in itertools.zip_longest(filled_lines(data), filled_lines(gold)):
        if row is None or answer is None:
            shorter, longer = (data, gold) if row is None else (gold, data)
            raise UserError(f"{shorter} has fewer lines than {longer}; the two belong line to line, get both again")
        number, line = row
        yield _word_in_context(data, number, line, _truth(gold, *answer))


def translations(source: str | Path, target: str | Path) -> Iterator[Translation]:
    """Read two files of one sentence a line; line n of one is the translation of line n of the other.

    Raises:
        UserError: the files have unequal numbers of lines, or a line is empty: then all after it might be shifted.
    """
    for number, pair in enumerate(itertools.zip_longest(lines(source), lines(target)), start=1):
        texts = []
        for path, line in zip((source, target), pair, strict=True):
            if line is None:
                longer = target if path == source else source
                raise UserError(
                    f"{path} ends after line {number - 1}, but {longer} goes on; the two belong line to line, "
                    "get both again"
                )
            text = line[1].strip()
            if not text:
                raise fault(path, number, "the line is empty", "fill it in, or remove it from both files")
            texts.append(text)
        yield Translation(*texts)


def minimal_pairs(path: str | Path) -> Iterator[MinimalPair]:
    """Read the archive of BLiMP: files ``data/*.jsonl`` with ``sentence_good``, ``sentence_bad`` and ``UID``."""
    for origin, content in archive_texts(path, r"data/.*\.jsonl"):
        yield from _paradigm(origin, content)


def _paradigm(origin: str, content: str) -> Iterator[MinimalPair]:
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            row = json.loads(line)
            yield MinimalPair(row["sentence_good"], row["sentence_bad"], row["UID"])
        except (json.JSONDecodeError, KeyError, TypeError):
            raise fault(origin, number, "not a pair of BLiMP", "get the file again") from None


def _truth(path: str | Path, number: int, line: str) -> bool:
    if line.strip() not in ("T", "F"):
        raise fault(path, number, f"{line!r} where T or F is wanted", "mend the line")
    return line.strip() == "T"


def _word_in_context(path: str | Path, number: int, line: str, label: bool) -> WordInContext:
    columns = line.split("\t")
    if len(columns) != 5:
        raise fault(path, number, f"{count_columns(columns)} where 5 are wanted", "separate them by one TAB")
    word, pos, places, first, second = columns
    left, _, right = places.partition("-")
    if not (left.isdecimal() and right.isdecimal()):
        raise fault(path, number, f"the places {places!r} are not two numbers like 2-5", "mend the line")
    if int(left) >= len(first.split(" ")) or int(right) >= len(second.split(" ")):
        raise fault(path, number, f"the places {places} lie outside the sentences", "count tokens from 0")
    return WordInContext(word, pos, first, second, int(left), int(right), label)


def _labelled_rows(
    path: str | Path, rows: Iterator[tuple[int, list[str]]], text_name: str, labels: Sequence[str] | None
) -> Iterator[Sentence]:
    """Find the text and the label of each row by the names in the header, which is the first row."""
    _, header = next(rows, (1, []))
    text_place, label_place = find_columns(path, header, (text_name, "label"))
    for number, row in rows:
        if len(row) != len(header):
            raise fault(path, number, f"{count_columns(row)} where the header has {len(header)}", "mend the line")
        yield Sentence(filled(path, number, row[text_place]), known_label(path, number, row[label_place], labels))
