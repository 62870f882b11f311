"""Read the files of sentence pairs, each in the layout in which its authors published it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from d2lbert.data.examples import Pair, ScoredPair, WordInContext
from d2lbert.data.readers.lines import (
    DAMAGE,
    LONGEST_LINE,
    count_columns,
    csv_rows,
    damaged,
    fault,
    filled,
    find_columns,
    open_binary,
    parse_label,
    parse_relation,
    parse_score,
    tab_rows,
)
from d2lbert.data.readers.words import words_in_context
from d2lbert.errors import UserError

# In the order of the numbers 0 and 1 that the files of MRPC hold.
PARAPHRASE = ("different", "paraphrase")
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ("contradiction", "entailment", "neutral")
SENSE = ("different", "same")

_CHUNK = 2**16  # bytes of XML that are read at a time

# What GLUE's files call the two texts and the label. Where a file has none of them, the error names the first.
_TEXTS = (
    ("sentence1", "sentence2"),
    ("question", "sentence"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("#1 String", "#2 String"),
)
_TARGETS = ("label", "gold_label", "is_duplicate", "Quality", "score")


def glue_pairs(
    path: str | Path, labels: Sequence[str] | None = None, allow_empty: bool = False
) -> Iterator[Pair | ScoredPair]:
    """Read a TSV of GLUE with two texts: a header names the columns; quotes are literal.

    A column ``score`` gives scored pairs; any other label column gives labelled pairs. A column ``Quality`` is that of
    MRPC, whose numbers have names where ``labels`` holds them. Where ``allow_empty`` is true, a text may be empty, as
    two questions of QQP are.
    """
    return _named_pairs(path, labels, _TEXTS, _TARGETS, allow_empty)


def mrpc(path: str | Path, labels: Sequence[str] | None = PARAPHRASE) -> Iterator[Pair | ScoredPair]:
    """Read the Microsoft Research Paraphrase Corpus: a header, then label, two numbers and two texts."""
    return _named_pairs(path, labels, [("#1 String", "#2 String")], ["Quality"])


def mnli(path: str | Path, labels: Sequence[str] | None = INFERENCE) -> Iterator[Pair | ScoredPair]:
    """Read MultiNLI: a header with ``gold_label`` and ``premise``, ``hypothesis`` (or GLUE's ``sentence1``, ``2``)."""
    return _named_pairs(path, labels, [("premise", "hypothesis"), ("sentence1", "sentence2")], ["gold_label"])


def qnli(path: str | Path, labels: Sequence[str] | None = ENTAILMENT) -> Iterator[Pair | ScoredPair]:
    """Read QNLI: a header with ``question``, ``sentence`` and ``label``."""
    return _named_pairs(path, labels, [("question", "sentence")], ["label"])


def sick(path: str | Path, labels: Sequence[str] | None = INFERENCE) -> Iterator[Pair]:
    """Read the entailment of SICK, in lower case (Marelli et al. 2014)."""
    for number, (first, second, label) in _sick_rows(path, "entailment_judgment"):
        yield Pair(first, second, parse_label(path, number, label.lower(), labels))


def sick_relatedness(path: str | Path) -> Iterator[ScoredPair]:
    """Read the relatedness of SICK, from 1 to 5."""
    for number, (first, second, score) in _sick_rows(path, "relatedness_score"):
        yield ScoredPair(first, second, parse_score(path, number, score))


def stsb(path: str | Path) -> Iterator[ScoredPair]:
    """Read the STS benchmark as CSV: two texts and a score from 0 to 5, no header.

    Raises:
        UserError: the file cannot be read, or a line has another layout, an empty text or no finite score.
    """
    for number, row in csv_rows(path):
        if len(row) != 3:
            raise fault(path, number, f"{count_columns(row)} where two texts and a score are wanted", "mend the line")
        yield ScoredPair(filled(path, number, row[0]), filled(path, number, row[1]), parse_score(path, number, row[2]))


def rte(path: str | Path, labels: Sequence[str] | None = ENTAILMENT) -> Iterator[Pair]:
    """Read the XML of the PASCAL challenges: ``value`` TRUE or FALSE in the first, ``entailment`` YES or NO later.

    Raises:
        UserError: the file cannot be read, is not valid XML, or a pair lacks a text or has an unknown answer.
    """
    for number, pair in enumerate(xml_elements(path, "pair"), start=1):
        answer = pair.get("entailment") or pair.get("value") or ""
        if answer not in ("YES", "TRUE", "NO", "FALSE"):
            raise UserError(f"{path}, pair {number}: the answer {answer!r} is not YES, NO, TRUE or FALSE; correct it")
        text, hypothesis = (" ".join((pair.findtext(name) or "").split()) for name in ("t", "h"))
        if not (text and hypothesis):
            raise UserError(f"{path}, pair {number}: <t> or <h> is empty; fill it in or remove the pair")
        label = ENTAILMENT[0] if answer in ("YES", "TRUE") else ENTAILMENT[1]
        yield Pair(text, hypothesis, parse_label(path, number, label, labels))


def word_senses(path: str | Path) -> Iterator[Pair]:
    """Read a data file of WiC, and the file of answers beside it, as pairs of sentences."""
    return map(sense_pair, words_in_context(path, gold_path(path)))


def sense_pair(example: WordInContext) -> Pair:
    """Return a pair with the word before its first sentence, so that a model can see which word is meant."""
    return Pair(f"{example.word} : {example.first}", example.second, SENSE[int(example.label)])


def gold_path(data: str | Path) -> Path:
    """Return the path of the answers to a data file of WiC: ``dev.gold.txt`` beside ``dev.data.txt``.

    Raises:
        UserError: the data file's name has no ``.data.``.
    """
    path = Path(data)
    if ".data." not in path.name:
        raise UserError(f"{path}: a data file of WiC is called NAME.data.txt, with NAME.gold.txt beside it; rename it")
    return path.with_name(path.name.replace(".data.", ".gold."))


def xml_elements(path: str | Path, tag: str) -> Iterator[ElementTree.Element]:
    """Yield the elements with a tag, one in memory at a time; none lies inside another. Only XML's own entities may be.

    Raises:
        UserError: the file is missing, damaged or not XML, its encoding is unknown, it declares an entity, or has more
            than 64 MiB in one piece or between the ends of two of these elements.
    """
    try:
        with open_binary(path) as stream:
            _refuse_entities(path, stream)
        with open_binary(path) as stream:
            yield from _elements(path, stream, tag)
    # An unknown encoding is a LookupError; one with more bytes per character than the parser reads is a ValueError.
    except (expat.ExpatError, ElementTree.ParseError, LookupError, ValueError) as error:
        raise UserError(f"{path} is not valid XML: {error}; mend or get the file again") from None
    except DAMAGE as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def _elements(path: str | Path, stream: io.BufferedIOBase, tag: str) -> Iterator[ElementTree.Element]:
    parser: Any = ElementTree.XMLPullParser(("start", "end"))
    around: list[ElementTree.Element] = []  # the elements that are open, the outermost first
    held = 0  # bytes since these were emptied
    while True:
        raw = stream.read(max(_CHUNK, held))  # expat begins a long piece anew with each part of it
        parser.feed(raw) if raw else parser.close()
        held += len(raw)
        for event, element in parser.read_events():
            if event == "start":
                around.append(element)
                continue
            around.pop()
            if element.tag == tag:
                yield element
                _empty(around)
                held = 0
        if held > LONGEST_LINE:
            raise _too_long(path, f"without a <{tag}>")
        if not raw:
            return


def _empty(around: list[ElementTree.Element]) -> None:
    """Drop what open elements hold, but for the next open one."""
    for element in around[:-1]:
        del element[:-1]
    for element in around[-1:]:
        del element[:]


def _too_long(path: str | Path, what: str) -> UserError:
    return UserError(f"{path} has more than {LONGEST_LINE >> 20} MiB {what}; get the file again")


def _refuse_entities(path: str | Path, stream: io.BufferedIOBase) -> None:
    """Refuse XML that declares an entity: a few nested entities can expand to gigabytes.

    ElementTree cannot forbid them, so expat, the parser that it uses, looks first and stops before any expansion.
    """

    def refuse(name: str, *_: object) -> None:
        raise UserError(f"{path} declares the entity {name[:40]!r}; write its text where it is used and remove it")

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    read = waiting = 0  # bytes, and those of a piece that has not ended
    while raw := stream.read(max(_CHUNK, waiting)):
        parser.Parse(raw, False)
        read += len(raw)
        waiting = read - max(parser.CurrentByteIndex, 0)
        if waiting > LONGEST_LINE:
            raise _too_long(path, "in one piece")
    parser.Parse(b"", True)


def _named_pairs(
    path: str | Path,
    labels: Sequence[str] | None,
    texts: Sequence[tuple[str, str]],
    targets: Sequence[str],
    allow_empty: bool = False,
) -> Iterator[Pair | ScoredPair]:
    """Read pairs from the first of the ``texts`` and the first of the ``targets`` that the header has."""
    rows = tab_rows(path)
    _, header = next(rows, (1, []))
    names = {name.strip().casefold() for name in header}
    pair = next((pair for pair in texts if names.issuperset(map(str.casefold, pair))), texts[0])
    target = next((name for name in targets if name.casefold() in names), targets[0])
    for number, (first, second, answer) in _pair_rows(path, header, rows, (*pair, target), allow_empty):
        if target == "score":
            yield ScoredPair(first, second, parse_score(path, number, answer))
        else:
            numbered = PARAPHRASE if target == "Quality" else ()
            yield Pair(first, second, parse_relation(path, number, answer, labels, numbered))


def _sick_rows(path: str | Path, target: str) -> Iterator[tuple[int, list[str]]]:
    rows = tab_rows(path)
    _, header = next(rows, (1, []))
    return _pair_rows(path, header, rows, ("sentence_A", "sentence_B", target))


def _pair_rows(
    path: str | Path,
    header: Sequence[str],
    rows: Iterator[tuple[int, list[str]]],
    names: Sequence[str],
    allow_empty: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row and its two texts, neither of them empty unless that is allowed, and its target."""
    columns = find_columns(path, header, names)
    for number, row in rows:
        if len(row) != len(header):
            raise fault(path, number, f"{count_columns(row)} where the header has {len(header)}", "mend the line")
        first, second, target = (row[column] for column in columns)
        texts = [text.strip() if allow_empty else filled(path, number, text) for text in (first, second)]
        yield number, [*texts, target]
