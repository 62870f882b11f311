"""The items of a list in a JSON file, one after the other: the file may be larger than the memory."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from d2lbert.data.readers.lines import DAMAGE, LONGEST_LINE, damaged, open_binary
from d2lbert.errors import UserError

_CHUNK = 2**16  # bytes
_SPACE = re.compile(r"[ \t\n\r]*")
# What may follow the beginning of a number that a piece of the file has cut: "1." is one more digit away from a number.
_REST_OF_A_NUMBER = re.compile(r"[-+.0-9eE]*\Z")
_DECODER = json.JSONDecoder()
# A fault so near to the end of what is held may be the cut itself: the longest of its marks is an escape of 12 letters.
_NEAR = 16


def json_items(path: str | Path, no_list: str, field: str = "") -> Iterator[Any]:
    """Yield the items of a list; ``.xz`` and ``.gz`` are unpacked on the way.

    Args:
        path: the file.
        no_list: the error, after the path, where there is no such list.
        field: of the object in the file, whose value is the list, its first one of that name; by default the file is
            the list.

    Raises:
        UserError: the file is missing, damaged, not UTF-8 or not JSON, has no such list, or holds a value of more than
            64 Mi characters in the list or before it.
    """
    try:
        with open_binary(path) as stream:
            reader = _Reader(path, stream)
            if field and not reader.enter(field):
                raise UserError(f"{path}{no_list}")
            if reader.next_character() != "[":
                with contextlib.suppress(_TooLongError):  # what is no JSON at all is told so
                    reader.value()
                raise UserError(f"{path}{no_list}")
            yield from reader.items()
            reader.leave(inside=bool(field))
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8; save the file as UTF-8") from None
    except DAMAGE as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None


class _TooLongError(UserError):
    """A value has more characters than may be held."""


class _Reader:
    """Reads values from a stream, and holds no more of it than the value at hand.

    Args:
        path: for error messages.
        stream: of bytes.
    """

    def __init__(self, path: str | Path, stream: io.BufferedIOBase) -> None:
        self.path, self.stream = path, stream
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.text, self.place = "", 0  # what is held, and how much of it is done
        self.before = 0  # characters that are no longer held
        self.ended = False

    def enter(self, field: str) -> bool:
        """Read an object up to the value of a field; return whether it has the field."""
        if self.next_character() != "{":
            with contextlib.suppress(_TooLongError):
                self.value()
            return False
        self.place += 1
        if self.skip("}"):
            return False
        while self.name() != field:
            self.value()
            if self.skip("}"):
                return False
            self.expect(",")
        return True

    def items(self) -> Iterator[Any]:
        """Yield the items of the list that comes next."""
        self.expect("[")
        if self.skip("]"):
            return
        yield self.value()
        while not self.skip("]"):
            self.expect(",")
            yield self.value()

    def leave(self, inside: bool) -> None:
        """Read what follows the list: nothing, or, ``inside`` an object, its other fields."""
        while inside and not self.skip("}"):
            self.expect(",")
            self.name()
            self.value()
        if self.next_character():
            raise self.fault("Extra data")

    def name(self) -> str:
        """Return the name of a field, and pass its colon."""
        if self.next_character() != '"':
            raise self.fault("Expecting a name in double quotes")
        name: str = self.value()
        self.expect(":")
        return name

    def value(self) -> Any:
        """Return the next value.

        Raises:
            UserError: it is not JSON, or too long.
        """
        self.next_character()
        while True:
            try:
                found, end = _DECODER.raw_decode(self.text, self.place)
                if self.ended or not _REST_OF_A_NUMBER.match(self.text, end):
                    self.place = end
                    return found
            except json.JSONDecodeError as error:  # or the value is not there to its end
                cut = error.pos > len(self.text) - _NEAR or error.msg.startswith("Unterminated string")
                if self.ended or not cut:
                    self.place = error.pos
                    raise self.fault(error.msg) from None
            except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists
                raise self.fault(str(error)) from None
            if len(self.text) - self.place >= LONGEST_LINE:
                raise _TooLongError(f"{self.path} holds a value of more than {LONGEST_LINE:,} characters; divide it")
            self._read_on()

    def skip(self, character: str) -> bool:
        """Pass a character if it comes next; return whether it did."""
        found = self.next_character() == character
        self.place += found
        return found

    def expect(self, character: str) -> None:
        """Pass a character that must come next."""
        if not self.skip(character):
            raise self.fault(f"Expecting {character!r}")

    def next_character(self) -> str:
        """Return the character after white space, without passing it; "" at the end."""
        while True:
            space = _SPACE.match(self.text, self.place)
            self.place = space.end() if space else self.place
            if self.place < len(self.text) or self.ended:
                return self.text[self.place : self.place + 1]
            self._read_on()

    def _read_on(self) -> None:
        """Read as much again as is held: a long value is tried a few times, not once for each chunk."""
        held = len(self.text) - self.place
        raw = self.stream.read(max(_CHUNK, min(held, LONGEST_LINE - held)))
        self.ended = not raw
        self.before += self.place
        self.text = self.text[self.place :] + self.decoder.decode(raw, final=self.ended)
        self.place = 0

    def fault(self, what: str) -> UserError:
        """Return the error for text that is no JSON."""
        where = self.before + self.place + 1
        return UserError(f"{self.path} is not valid JSON ({what}: character {where:,}); get the file again, or mend it")
