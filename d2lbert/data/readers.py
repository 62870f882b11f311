"""Read the file formats of the data sets, one generator for each. An error names the file, the line and the fault.

A reader holds one line at a time, so a corpus may be larger than memory.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from d2lbert.data.examples import Analogy, Document, Sentence, Translation, WordInContext, WordPair
from d2lbert.errors import UserError, unknown_name

# In the order of the numbers 0 and 1 that the files of SST-2 hold.
SENTIMENTS = ("negative", "positive")

FORMATS = ("sst2", "glue-tsv", "csv")

# csv refuses a field of more than 131,072 characters unless told otherwise. Whoever limits a text's length does it
# where he can say why.
_LONGEST_FIELD = 2**31 - 1


def read_file(path: str | Path, format: str, labels: Sequence[str] | None = None) -> list[Sentence]:
    """Read a user's own file of texts and labels.

    Args:
        path: the file, UTF-8; ``.gz`` and ``.xz`` are unpacked on the way.
        format: ``"sst2"``: text TAB label, no header; ``"glue-tsv"``: columns separated by TAB, among them
            ``sentence`` and ``label`` in a header, quotes are literal; ``"csv"``: comma-separated, with columns
            ``text`` and ``label`` in a header, quotes as in a spreadsheet.
        labels: the names that a label may have. A file may hold the names or their places, counted from 0. None means
            negative and positive for the first two formats and any name for ``"csv"``.

    Raises:
        UserError: the file is missing, is not UTF-8, has no such columns, or holds an empty text, a label outside
            ``labels``, or nothing at all.
    """
    if format == "sst2":
        examples = list(sst2(path, labels or SENTIMENTS))
    elif format == "glue-tsv":
        examples = list(glue_tsv(path, labels or SENTIMENTS))
    elif format == "csv":
        examples = list(csv_file(path, labels))
    else:
        raise unknown_name("format", format, FORMATS)
    if not examples:
        raise UserError(f"{path} holds no examples; give a file with at least one line of text and label")
    return examples


def sst2(path: str | Path, labels: Sequence[str] | None = SENTIMENTS) -> Iterator[Sentence]:
    """Read ``text TAB label`` lines without a header: the whole sentences of SST-2."""
    for number, line in _filled_lines(path):
        columns = line.split("\t")
        if len(columns) != 2:
            raise _fault(path, number, f"{_count(columns)} where text TAB label is wanted", "separate them by one TAB")
        yield _sentence(path, number, columns[0], columns[1], labels)


def glue_tsv(path: str | Path, labels: Sequence[str] | None = SENTIMENTS) -> Iterator[Sentence]:
    """Read the TSV of GLUE: a header with ``sentence`` and ``label``; quotes mean nothing special."""
    rows = ((number, line.split("\t")) for number, line in _filled_lines(path))
    return _labelled_rows(path, rows, "sentence", labels)


def csv_file(path: str | Path, labels: Sequence[str] | None = None) -> Iterator[Sentence]:
    """Read a CSV with columns ``text`` and ``label`` in its header."""
    return _labelled_rows(path, _csv_rows(path), "text", labels)


def paragraphs(path: str | Path) -> Iterator[Document]:
    """Read plain text: one paragraph a line, a blank line between documents (``.txt``, ``.txt.gz``, ``.txt.xz``)."""
    collected: list[str] = []
    for _, line in _lines(path):
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
    for number, line in _filled_lines(path):
        words = line.split()
        if words[0] == ":":
            section = " ".join(words[1:])
        elif len(words) != 4:
            raise _fault(path, number, f"{len(words)} words where a question has 4", "mend or remove the line")
        elif not section:
            raise _fault(path, number, "a question before the first section", "put a line ': name' above it")
        else:
            yield Analogy(section, *words)


def word_pairs(path: str | Path) -> Iterator[WordPair]:
    """Read ``word word score`` lines. The source is the file's name without ``EN-`` and ``.txt``."""
    source = Path(path).name.removeprefix("EN-").removesuffix(".txt")
    for number, line in _filled_lines(path):
        columns = line.split()
        if len(columns) != 3:
            raise _fault(path, number, f"{_count(columns)} where two words and a score are wanted", "mend the line")
        try:
            score = float(columns[2])
        except ValueError:
            raise _fault(path, number, f"the score {columns[2]!r} is not a number", "mend the line") from None
        yield WordPair(columns[0], columns[1], score, source)


def words_in_context(data: str | Path, gold: str | Path) -> Iterator[WordInContext]:
    """Read a pair of WiC files: ``word TAB pos TAB i-j TAB sentence TAB sentence``, and T or F for each line."""
    for row, answer in itertools.zip_longest(_filled_lines(data), _filled_lines(gold)):
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
    for number, pair in enumerate(itertools.zip_longest(_lines(source), _lines(target)), start=1):
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
                raise _fault(path, number, "the line is empty", "fill it in, or remove it from both files")
            texts.append(text)
        yield Translation(*texts)


def _truth(path: str | Path, number: int, line: str) -> bool:
    if line.strip() not in ("T", "F"):
        raise _fault(path, number, f"{line!r} where T or F is wanted", "mend the line")
    return line.strip() == "T"


def _word_in_context(path: str | Path, number: int, line: str, label: bool) -> WordInContext:
    columns = line.split("\t")
    if len(columns) != 5:
        raise _fault(path, number, f"{_count(columns)} where 5 are wanted", "separate them by one TAB")
    word, pos, places, first, second = columns
    left, _, right = places.partition("-")
    if not (left.isdecimal() and right.isdecimal()):
        raise _fault(path, number, f"the places {places!r} are not two numbers like 2-5", "mend the line")
    if int(left) >= len(first.split(" ")) or int(right) >= len(second.split(" ")):
        raise _fault(path, number, f"the places {places} lie outside the sentences", "count tokens from 0")
    return WordInContext(word, pos, first, second, int(left), int(right), label)


def _labelled_rows(
    path: str | Path, rows: Iterator[tuple[int, list[str]]], text_name: str, labels: Sequence[str] | None
) -> Iterator[Sentence]:
    """Find the text and the label of each row by the names in the header, which is the first row."""
    _, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    for wanted in (text_name, "label"):
        if wanted not in names:
            found = ", ".join(repr(name) for name in names) or "none"
            raise _fault(path, 1, f"no column {wanted!r} (found: {found})", f"name the columns {text_name} and label")
    text_place, label_place = names.index(text_name), names.index("label")
    for number, row in rows:
        if len(row) != len(names):
            raise _fault(path, number, f"{_count(row)} where the header has {len(names)}", "mend the line")
        yield _sentence(path, number, row[text_place], row[label_place], labels)


def _csv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(_LONGEST_FIELD)
    # The csv module wants the line ends that it splits at: a quoted field may hold some.
    rows = csv.reader((line + "\n" for _, line in _lines(path)), strict=True)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise _fault(path, rows.line_num, f"not valid CSV: {error}", "check the quotes") from None
        if row:
            yield rows.line_num, row


def _sentence(path: str | Path, number: int, text: str, label: str, labels: Sequence[str] | None) -> Sentence:
    text, label = text.strip(), label.strip()
    if not text:
        raise _fault(path, number, "the text is empty", "fill it in or remove the line")
    if labels is None:
        if not label:
            raise _fault(path, number, "the label is empty", "fill it in or remove the line")
        return Sentence(text, label)
    if label in labels:
        return Sentence(text, label)
    if label.isdecimal() and int(label) < len(labels):
        return Sentence(text, labels[int(label)])
    known = ", ".join(f"{place} = {name}" for place, name in enumerate(labels))
    raise _fault(path, number, f"the label {label[:40]!r} is not one of {known}", "correct the label")


def _filled_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    for number, line in _lines(path):
        if line and not line.isspace():
            yield number, line


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of each line, without its end and without a byte order mark."""
    number = 0
    try:
        with _open(Path(path)) as stream:
            # A binary file ends a line at a line feed alone; text may hold U+2028 and other ends that str knows.
            for number, raw in enumerate(stream, start=1):
                text = raw.decode("utf-8").rstrip("\r\n")
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError:
        raise _fault(path, number, "not UTF-8", "save the file as UTF-8") from None
    except (lzma.LZMAError, gzip.BadGzipFile, EOFError) as error:
        raise UserError(f"{path} is damaged ({error}); get the file again") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".xz":
        return lzma.open(path, "rb")  # type: ignore[return-value]
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def _count(columns: Sequence[str]) -> str:
    return f"{len(columns)} column{'' if len(columns) == 1 else 's'}"


def _fault(path: str | Path, number: int, what: str, remedy: str) -> UserError:
    return UserError(f"{path}, line {number}: {what}; {remedy}")
