"""Read texts without labels: paragraphs of documents, translations, and the minimal pairs of BLiMP."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from d2lbert.data.examples import Document, MinimalPair, Translation
from d2lbert.data.readers.lines import (
    archive_texts,
    fault,
    lines,
)
from d2lbert.errors import UserError


def paragraphs(path: str | Path) -> Iterator[Document]:
    """Read plain text: a paragraph per line, a blank line between documents (``.txt``, ``.txt.gz``, ``.txt.xz``).

    Raises:
        UserError: the file is missing, damaged or not UTF-8.
    """
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


def translations(source: str | Path, target: str | Path) -> Iterator[Translation]:
    """Read two files with one sentence per line; line n of one file translates line n of the other.

    Raises:
        UserError: the numbers of lines differ, or a line is empty: then all lines after it might be shifted.
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
    """Read the archive of BLiMP: files ``data/*.jsonl`` with ``sentence_good``, ``sentence_bad`` and ``UID``.

    Raises:
        UserError: the archive is missing or damaged, or a line is not such a pair.
    """
    for origin, content in archive_texts(path, r"data/.*\.jsonl"):
        yield from _paradigm(origin, content)


def _paradigm(origin: str, content: str) -> Iterator[MinimalPair]:
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            row = json.loads(line)
            yield MinimalPair(row["sentence_good"], row["sentence_bad"], row["UID"])
        except (json.JSONDecodeError, KeyError, TypeError):
            raise fault(origin, number, "not a pair of BLiMP", "get the file again") from None
