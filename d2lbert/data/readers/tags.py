"""Read sentences with a tag for each word: CoNLL-2003 and WNUT-17 in columns, the Brown corpus with slashes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from d2lbert.data.examples import TaggedSentence
from d2lbert.data.readers.lines import archive_texts, fault, lines, texts_inside
from d2lbert.data.readers.tag_schemes import convert
from d2lbert.data.readers.universal_tags import universal
from d2lbert.errors import UserError


def conll(path: str | Path, labels: Sequence[str] | None = None, labelled: bool = True) -> Iterator[TaggedSentence]:
    """Read one word per line, its tag last, and a blank line after each sentence; the tags returned are in IOB2.

    Columns are separated by a TAB, or by spaces where a line has no TAB. ``-DOCSTART-`` lines are skipped. A line with
    nothing but a TAB or a byte order mark, as in WNUT-17, counts as blank.

    Args:
        path: the file.
        labels: the tags that may occur, in IOB2; None for any.
        labelled: whether lines have tags; if not, only the first column of each is read.

    Raises:
        UserError: the file cannot be read, its lines end with carriage returns alone, or a line lacks a word or a tag,
            or has an unknown tag.
    """
    words: list[str] = []
    tags: list[str] = []
    for number, line in lines(path):
        if not line.strip("\ufeff \t") or line.startswith("-DOCSTART-"):
            if words:
                yield _sentence(path, number, words, tags if labelled else None, labels)
            words, tags = [], []
            continue
        if "\r" in line:
            raise fault(path, number, "a carriage return within the line", "save the file with line feeds (LF)")
        # A no-break space and the like are characters of a word.
        columns = line.split("\t") if "\t" in line else [column for column in line.split(" ") if column]
        if len(columns) < 1 + labelled or not columns[0].strip():
            raise fault(path, number, f"{line[:40]!r} where a word and its tag are wanted", "mend the line")
        words.append(columns[0].strip(" "))
        tags.append(columns[-1].strip())
    if words:
        yield _sentence(path, number, words, tags if labelled else None, labels)


def brown(path: str | Path) -> Iterator[TaggedSentence]:
    """Read the archive of the Brown corpus: files ``brown/ca01`` and so on, a sentence of ``word/tag`` on each line.

    Only the first part of a tag, the part of speech, is kept: ``np`` of ``np-tl`` (in a title) or ``np$`` (a genitive).

    Raises:
        UserError: the archive is missing or damaged, or a word lacks its tag.
    """
    for origin, content in archive_texts(path, r"brown/c[a-r]\d\d"):
        for words, tags in _slashed(origin, content):
            yield TaggedSentence(words, tuple(re.split(r"[-+*$]", tag)[0] or tag for tag in tags))


def brown_universal(path: str | Path) -> Iterator[TaggedSentence]:
    """Read files of the Brown corpus with the twelve universal parts of speech (Petrov et al. 2012).

    Args:
        path: a file of ``word/tag`` sentences, or files in the archive: ``brown.zip/brown/ca*``.

    Raises:
        UserError: a file is missing or damaged, a word lacks its tag, or a tag is none of the corpus.
    """
    for origin, content in texts_inside(path):
        for words, tags in _slashed(origin, content):
            try:
                yield TaggedSentence(words, tuple(map(universal, tags)))
            except UserError as error:
                raise UserError(f"{origin}: {error}") from None


def _slashed(origin: str, content: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the words and the tags of each sentence."""
    for number, line in enumerate(content.splitlines(), start=1):
        pairs = [token.rpartition("/") for token in line.split()]
        if not pairs:
            continue
        if not all(word and tag for word, _, tag in pairs):
            raise fault(origin, number, "a word without its tag", "get the file again")
        yield tuple(word for word, _, _ in pairs), tuple(tag for _, _, tag in pairs)


def _sentence(
    path: str | Path, number: int, words: list[str], tags: list[str] | None, labels: Sequence[str] | None
) -> TaggedSentence:
    """Return the sentence that ends before line ``number``."""
    if tags is None:
        return TaggedSentence(tuple(words))
    try:
        converted = convert(tags, "IOB2")
    except UserError as error:
        raise UserError(f"{path}, sentence before line {number}: {error}") from None
    for tag in converted:
        if labels is not None and tag not in labels:
            raise fault(path, number, f"the tag {tag!r} is not one of {', '.join(labels)}", "correct the tag")
    return TaggedSentence(tuple(words), tuple(converted))
