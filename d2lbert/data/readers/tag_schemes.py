"""Entities as tags of tokens: the schemes IOB1, IOB2 and BIOES, and the way from each to each.

In all of them ``O`` is outside. IOB2 begins every entity with ``B-`` and goes on with ``I-``. IOB1, the scheme of
CoNLL-2003, writes ``B-`` only where an entity follows another of its type without a gap (Ramshaw and Marcus 1995).
BIOES also marks the last token with ``E-`` and an entity of one token with ``S-``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from d2lbert.errors import UserError, unknown_name

SCHEMES = ("IOB1", "IOB2", "BIOES")


class Entity(NamedTuple):
    """The tokens from ``start`` up to but without ``end`` are one thing of a type."""

    start: int
    end: int
    type: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """Read the entities of a sentence, whatever the scheme.

    What no scheme allows, as a model may write it, is read kindly: an ``I-`` or ``E-`` that continues nothing begins an
    entity. So does the program that scored CoNLL-2003.

    Raises:
        UserError: a tag that is neither ``O`` nor a letter of B, I, E, S, a hyphen and a type.
    """
    found: list[Entity] = []
    begin, open_type = 0, ""
    for place, tag in enumerate(tags):
        letter, type_ = split_tag(tag)
        if open_type and (letter in "OBS" or type_ != open_type):
            found.append(Entity(begin, place, open_type))
            open_type = ""
        if letter != "O" and not open_type:
            begin, open_type = place, type_
        if letter in "ES":
            found.append(Entity(begin, place + 1, open_type))
            open_type = ""
    if open_type:
        found.append(Entity(begin, len(tags), open_type))
    return found


def write_tags(found: Sequence[Entity], length: int, scheme: str) -> list[str]:
    """Write entities, in their order and without overlap, as the tags of ``length`` tokens.

    Raises:
        UserError: an unknown scheme.
    """
    if scheme not in SCHEMES:
        raise unknown_name("scheme of tags", scheme, SCHEMES)
    tags = ["O"] * length
    before = Entity(-1, -1, "")
    for entity in found:
        tags[entity.start : entity.end] = [f"I-{entity.type}"] * (entity.end - entity.start)
        touches = before.end == entity.start and before.type == entity.type
        if scheme != "IOB1" or touches:
            tags[entity.start] = f"B-{entity.type}"
        if scheme == "BIOES":
            last = "S" if entity.end - entity.start == 1 else "E"
            tags[entity.end - 1] = f"{last}-{entity.type}"
        before = entity
    return tags


def convert(tags: Sequence[str], scheme: str) -> list[str]:
    """Write the tags of a sentence in another scheme; the entities stay the same."""
    return write_tags(entities(tags), len(tags), scheme)


def split_tag(tag: str) -> tuple[str, str]:
    """Return letter and type of a tag: ``("B", "PER")``; ``("O", "")`` outside."""
    letter, hyphen, type_ = tag.partition("-")
    if tag == "O":
        return "O", ""
    if letter not in ("B", "I", "E", "S") or not hyphen or not type_:
        raise UserError(f"the tag {tag!r} is not O, nor B-, I-, E- or S- and a type such as B-PER: correct it")
    return letter, type_
