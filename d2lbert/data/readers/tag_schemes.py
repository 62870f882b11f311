"""Entities as tags of tokens: the schemes IOB1, IOB2 and BIOES, and conversion between them.

In all of them ``O`` is outside. IOB2 begins every entity with ``B-`` and continues it with ``I-``. IOB1, the scheme of
CoNLL-2003, has ``B-`` only where an entity directly follows another of its type (Ramshaw and Marcus 1995).
BIOES also marks the last token with ``E-`` and an entity of one token with ``S-``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from d2lbert.errors import UserError, unknown_name

SCHEMES = ("IOB1", "IOB2", "BIOES")


class Entity(NamedTuple):
    """An entity of some type: the tokens from ``start`` up to, but not including, ``end``."""

    start: int
    end: int
    type: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities of a tagged sentence, whatever the scheme.

    A model may predict sequences that no scheme allows. They are read leniently: an ``I-`` or ``E-`` that continues
    nothing begins an entity, as in the program that scored CoNLL-2003.

    Raises:
        UserError: a tag that is neither ``O`` nor a letter of B, I, E, S, a hyphen and a type.
    """
    spans: list[Entity] = []
    begin, open_type = 0, ""
    for position, tag in enumerate(tags):
        letter, type_ = split_tag(tag)
        if open_type and (letter in "OBS" or type_ != open_type):
            spans.append(Entity(begin, position, open_type))
            open_type = ""
        if letter != "O" and not open_type:
            begin, open_type = position, type_
        if letter in "ES":
            spans.append(Entity(begin, position + 1, open_type))
            open_type = ""
    if open_type:
        spans.append(Entity(begin, len(tags), open_type))
    return spans


def write_tags(spans: Sequence[Entity], length: int, scheme: str) -> list[str]:
    """Return entities as the tags of a sentence.

    Args:
        spans: the entities, in order and without overlap.
        length: the number of tokens in the sentence.
        scheme: one of ``SCHEMES``.

    Raises:
        UserError: an unknown scheme.
    """
    if scheme not in SCHEMES:
        raise unknown_name("scheme of tags", scheme, SCHEMES)
    tags = ["O"] * length
    previous = Entity(-1, -1, "")
    for entity in spans:
        tags[entity.start : entity.end] = [f"I-{entity.type}"] * (entity.end - entity.start)
        touches = previous.end == entity.start and previous.type == entity.type
        if scheme != "IOB1" or touches:
            tags[entity.start] = f"B-{entity.type}"
        if scheme == "BIOES":
            last = "S" if entity.end - entity.start == 1 else "E"
            tags[entity.end - 1] = f"{last}-{entity.type}"
        previous = entity
    return tags


def convert(tags: Sequence[str], scheme: str) -> list[str]:
    """Convert the tags of a sentence to another scheme; the entities stay the same.

    Raises:
        UserError: an unknown scheme, or a tag that cannot be read.
    """
    return write_tags(entities(tags), len(tags), scheme)


def split_tag(tag: str) -> tuple[str, str]:
    """Return the letter and the type of a tag: ``("B", "PER")`` for ``B-PER``, ``("O", "")`` for ``O``.

    Raises:
        UserError: the tag is neither ``O`` nor a letter of B, I, E, S, a hyphen and a type.
    """
    letter, hyphen, type_ = tag.partition("-")
    if tag == "O":
        return "O", ""
    if letter not in ("B", "I", "E", "S") or not hyphen or not type_:
        raise UserError(f"the tag {tag!r} is not O, nor B-, I-, E- or S- and a type such as B-PER: correct it")
    return letter, type_
