"""Read questions with texts to choose from: the XML of COPA and the CSV of SWAG."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from d2lbert.data.examples import ChoiceQuestion
from d2lbert.data.readers.lines import count_columns, csv_rows, fault, filled, find_columns, parse_index
from d2lbert.data.readers.pairs import xml_elements
from d2lbert.errors import UserError

# The question that follows the premise of an item of COPA. Nothing else tells a model whether to find cause or effect.
QUESTIONS = {"cause": "What was the cause?", "effect": "What happened as a result?"}


def copa(path: str | Path) -> Iterator[ChoiceQuestion]:
    """Read the Choice of Plausible Alternatives (Roemmele et al. 2011): a premise, and two causes or effects of it.

    The premise is followed by the question. Items keep the order of the file; in its balanced form an item and its
    mirror, with the same alternatives and the opposite answer, are neighbours (Kavumba et al. 2019).

    Raises:
        UserError: the file cannot be read, is not valid XML, or an item lacks a text or has an unknown value.
    """
    for number, item in enumerate(xml_elements(path, "item"), start=1):
        relation, answer = item.get("asks-for") or "", item.get("most-plausible-alternative") or ""
        where = f"{path}, item {item.get('id') or number}"
        if relation not in QUESTIONS:
            raise UserError(f"{where}: asks-for is {relation!r}, not cause or effect; correct it")
        if answer not in ("1", "2"):
            raise UserError(f"{where}: most-plausible-alternative is {answer!r}, not 1 or 2; correct it")
        premise, first, second = (" ".join((item.findtext(name) or "").split()) for name in ("p", "a1", "a2"))
        if not (premise and first and second):
            raise UserError(f"{where}: <p>, <a1> or <a2> is empty; fill it in or remove the item")
        yield ChoiceQuestion(f"{premise} {QUESTIONS[relation]}", (first, second), int(answer) - 1)


def swap_question(question: ChoiceQuestion) -> ChoiceQuestion:
    """Return a question of COPA with the question for the cause replaced by that for the effect, or the reverse.

    The choices and ``answer`` stay the same, although ``answer`` may now be wrong: a model that reads the question
    should often change its choice.

    Raises:
        UserError: the premise ends with neither question.
    """
    cause, effect = QUESTIONS.values()
    for old, new in ((cause, effect), (effect, cause)):
        if question.premise.endswith(old):
            return dataclasses.replace(question, premise=question.premise.removesuffix(old) + new)
    raise UserError(f"{question.premise[-40:]!r} does not end with {cause!r} or {effect!r}: take a question of COPA")


def swag(path: str | Path) -> Iterator[ChoiceQuestion]:
    """Read SWAG (Zellers et al. 2018): a sentence, the beginning of the next, and endings of which one is right.

    The file is a CSV whose header has ``sent1``, ``sent2``, ``ending0``, ``ending1`` and so on (SWAG has four), and
    ``label``, the index of the right ending, from 0. A choice is the beginning with an ending (Devlin et al. 2019,
    section 4.4).

    Raises:
        UserError: the file cannot be read, lacks a column, or has a line with an empty text or a wrong label.
    """
    rows = csv_rows(path)
    _, header = next(rows, (1, []))
    columns = find_columns(path, header, ["sent1", "sent2", *_endings(path, header), "label"])
    for number, row in rows:
        if len(row) != len(header):
            raise fault(path, number, f"{count_columns(row)} where the header has {len(header)}", "mend the line")
        premise, beginning, *choices, label = (row[column].strip() for column in columns)
        answer = parse_index(label, len(choices))
        if answer is None:
            expected = f"the place of an ending, 0 to {len(choices) - 1}"
            raise fault(path, number, f"the label {label[:40]!r} is not {expected}", "correct the label")
        whole = tuple(f"{beginning} {filled(path, number, ending, 'ending')}".strip() for ending in choices)
        yield ChoiceQuestion(filled(path, number, premise), whole, answer)


def _endings(path: str | Path, header: Sequence[str]) -> list[str]:
    """Return the names of the ending columns in numeric order: at least two, with no number left out."""
    names = [name.strip() for name in header if re.fullmatch(r"ending[ _-]*\d+", name.strip())]
    expected = [f"ending{index}" for index in range(max(2, len(names)))]
    # A single ending means that a column is missing; find_columns reports that better.
    if len(names) > 1 and sorted(names) != sorted(expected):
        raise fault(path, 1, f"the endings are called {', '.join(names)}", f"call them {', '.join(expected)}")
    return expected
