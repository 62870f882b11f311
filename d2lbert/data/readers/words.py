"""Read questions about words: analogies, scored pairs of words, and words in two contexts (WiC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from d2lbert.data.examples import Analogy, WordInContext, WordPair
from d2lbert.data.readers.lines import (
    count_columns,
    fault,
    nonblank_lines,
    parse_index,
    parse_score,
)
from d2lbert.errors import UserError


def analogies(path: str | Path) -> Iterator[Analogy]:
    """Read ``questions-words.txt``: lines of four words below lines ``: section`` (Mikolov et al. 2013).

    Raises:
        UserError: the file cannot be read, or a line is not such a question.
    """
    section = ""
    for number, line in nonblank_lines(path):
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
    """Read ``word word score`` lines. The source is the file's name without ``EN-`` and ``.txt``.

    Raises:
        UserError: the file cannot be read, or a line has another layout or no finite score.
    """
    source = Path(path).name.removeprefix("EN-").removesuffix(".txt")
    for number, line in nonblank_lines(path):
        columns = line.split()
        if len(columns) != 3:
            raise fault(
                path, number, f"{count_columns(columns)} where two words and a score are wanted", "mend the line"
            )
        yield WordPair(columns[0], columns[1], parse_score(path, number, columns[2]), source)


def words_in_context(data: str | Path, gold: str | Path) -> Iterator[WordInContext]:
    """Read a pair of WiC files: ``word TAB pos TAB i-j TAB sentence TAB sentence``, and T or F for each line.

    Raises:
        UserError: a file cannot be read, one has fewer lines than the other, or a line has another layout.
    """
    for row, answer in itertools.zip_longest(nonblank_lines(data), nonblank_lines(gold)):
        if row is None or answer is None:
            shorter, longer = (data, gold) if row is None else (gold, data)
            raise UserError(f"{shorter} has fewer lines than {longer}; the two belong line to line, get both again")
        number, line = row
        yield _word_in_context(data, number, line, _truth(gold, *answer))


def _truth(path: str | Path, number: int, line: str) -> bool:
    if line.strip() not in ("T", "F"):
        raise fault(path, number, f"{line!r} where T or F is wanted", "mend the line")
    return line.strip() == "T"


def _word_in_context(path: str | Path, number: int, line: str, label: bool) -> WordInContext:
    columns = line.split("\t")
    if len(columns) != 5:
        raise fault(path, number, f"{count_columns(columns)} where 5 are wanted", "separate them by one TAB")
    word, pos, positions, first, second = columns
    left, _, right = positions.partition("-")
    if not (left.isdecimal() and right.isdecimal()):
        raise fault(path, number, f"the places {positions[:40]!r} are not two numbers like 2-5", "mend the line")
    first_index, second_index = parse_index(left, len(first.split(" "))), parse_index(right, len(second.split(" ")))
    if first_index is None or second_index is None:
        raise fault(path, number, f"the places {positions[:40]} lie outside the sentences", "count tokens from 0")
    return WordInContext(word, pos, first, second, first_index, second_index, label)
