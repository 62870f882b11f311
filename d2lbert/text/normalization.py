"""The first half of BERT's tokenizer: clean up a text and split it into words and punctuation.

Each character is treated on its own (Devlin et al. 2019, the "basic" tokenizer of their release):

* control characters, format characters and U+FFFD are dropped; every kind of white space becomes a space;
* a Chinese character becomes a word of its own, since Chinese is written without spaces;
* accents are stripped: canonical decomposition (NFD) writes "é" as "e" and a combining mark, and the marks are dropped;
* letters are lower-cased;
* a punctuation mark becomes a word of its own.

A word remembers the position of each of its characters in the original text. With these a question answering model can
point back into the text.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

# The `tokenizers` library, with which published BERT models are used, classifies characters by the tables of Unicode 8.
# It takes marks, punctuation and format characters that were added later for plain letters. These are listed here as
# hexadecimal ranges, up to Unicode 17, so that the result is the same in every Python, whatever Unicode it knows.
_LATER_THAN_UNICODE_8 = """
5c8-5c9 61d 7fd 890-891 897-89f 8ca-8e2 9fd-9fe a76 afa-aff b53-b55 c04 c3c c77 c84 d00 d3b-d3c d81 eba ece 180f
1885-1886 1abf-1af0 1b4e-1b4f 1b7d-1b7f 1df6-1dfb 2e43-2e4f 2e52-2e5d 2e60-2e63 a82c a8c5 a8ff a9bd 10d24-10d27
10d69-10d6e 10eab-10ead 10ecb-10ed0 10ef0-10eff 10f46-10f50 10f55-10f59 10f82-10f89 11070 11073-11074 110c2 110cd
111cf 1123e 11241 1133b 113bb-113c0 113ce 113d0 113d2 113d4-113d5 113d7-113d8 113e1-113e2 11438-1143f 11442-11444
11446 1144b-1144f 1145a-1145b 1145d-1145e 11660-1166c 116b9 1182f-11837 11839-1183b 11938 1193b-1193c 1193e
11943-11946 119d4-119d7 119da-119db 119e0 119e2 11a01-11a0a 11a33-11a38 11a3b-11a47 11a51-11a56 11a59-11a5b
11a8a-11a96 11a98-11a9c 11a9e-11aa2 11b00-11b09 11b60 11b62-11b64 11b66 11be1 11c30-11c36 11c38-11c3d 11c3f
11c41-11c45 11c70-11c71 11c92-11ca7 11caa-11cb0 11cb2-11cb3 11cb5-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45
11d47 11d90-11d91 11d95 11d97 11df0 11ef3-11ef4 11ef7-11ef8 11f00-11f01 11f36-11f3a 11f40 11f42-11f4f 11f5a 11fff
12ff1-12ff2 13430-13440 13447-13455 1611e-16129 1612d-1612f 16d6d-16d6f 16e97-16e9a 16f4f 16fe2 16fe4 1cf00-1cf2d
1cf30-1cf46 1d127-1d128 1d25b-1d25c 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a 1e08f 1e130-1e136
1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e5ff 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5 1e944-1e94a 1e95e-1e95f
"""

# Three characters changed class after Unicode 8: a vowel sign was a mark, two signs were punctuation.
_WAS_MARK = "\u1734"
_WAS_PUNCTUATION = "\u166d\U000111c9"

# The CJK ideographs: Unified, Extension A to E, and the compatibility blocks. Kana and Hangul are not among them.
# Extension E begins at 2B820; the `tokenizers` library has 2B920, and we must equal the library.
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class Word(NamedTuple):
    """A word after cleaning. ``positions[i]`` is the position of ``text[i]`` in the original text."""

    text: str
    positions: list[int]


def clean_words(text: str, lowercase: bool = True, strip_accents: bool = True) -> list[Word]:
    """Clean up a text and split it into words and punctuation marks.

    The canonical reordering of NFD is left out: it matters only for marks that are not accents, such as two signs of
    musical notation on the same note.

    Args:
        text: any text.
        lowercase: fold case.
        strip_accents: drop accents.
    """
    words = []
    letters: list[str] = []
    positions: list[int] = []
    for position, character in enumerate(text):
        for cleaned in clean_character(character, lowercase, strip_accents):
            if cleaned != " ":
                letters.append(cleaned)
                positions.append(position)
            elif letters:
                words.append(Word("".join(letters), positions))
                letters, positions = [], []
    if letters:
        words.append(Word("".join(letters), positions))
    return words


@lru_cache(maxsize=100_000)
def clean_character(character: str, lowercase: bool, strip_accents: bool) -> str:
    """Return what a character becomes: nothing, a space, or characters, with spaces around a word of its own."""
    if is_control(character):
        return ""
    if character.isspace():
        return " "
    stands_alone = is_chinese(character)
    cleaned = character
    if strip_accents and character not in _later_characters():
        decomposed = unicodedata.normalize("NFD", character)
        cleaned = "".join(part for part in decomposed if not is_mark(part))
    if lowercase:
        # Character by character: str.lower() of a whole word gives a final Greek sigma another form.
        cleaned = "".join(part.lower() for part in cleaned)
    cleaned = "".join(f" {part} " if is_punctuation(part) else part for part in cleaned)
    return f" {cleaned} " if stands_alone else cleaned


def is_control(character: str) -> bool:
    """Whether a character is dropped: control, format, private use, surrogate, or U+FFFD, which marks a damaged one."""
    if character in "\t\n\r" or character in _later_characters():
        return False
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs")


def is_chinese(character: str) -> bool:
    """Whether a character is a CJK ideograph."""
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in _CHINESE)


def is_mark(character: str) -> bool:
    """Whether a character is a non-spacing mark, such as an accent after decomposition."""
    if character in _later_characters() or character in _WAS_PUNCTUATION:
        return False
    return unicodedata.category(character) == "Mn" or character == _WAS_MARK


def is_punctuation(character: str) -> bool:
    """Whether a character is punctuation to BERT: every ASCII symbol, such as ``$``, and what is so in Unicode."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    if character in _later_characters():
        return False
    return unicodedata.category(character).startswith("P") or character in _WAS_PUNCTUATION


@lru_cache(maxsize=1)
def _later_characters() -> frozenset[str]:
    characters: set[str] = set()
    for item in _LATER_THAN_UNICODE_8.split():
        first, _, last = item.partition("-")
        characters.update(map(chr, range(int(first, 16), int(last or first, 16) + 1)))
    return frozenset(characters)
