"""Byte-pair encoding: a vocabulary learned by joining the most frequent pair of neighbours again and again.

The alphabet is the 256 bytes, so no text is unknown, and decoding returns exactly what was encoded. A word includes the
space before it, so no mark for the end of a word is needed.

Source: Sennrich, Haddow and Birch 2016 (the algorithm, over characters); Radford et al. 2019 (bytes).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from pathlib import Path

from d2lbert.errors import UserError
from d2lbert.storage.files import write_text
from d2lbert.text.merges import Pair, merge_pairs, replace_pair

VOCABULARY_FILE = "vocabulary.json"  # of a translator, in its folder
_BYTES = 256
_CACHED_WORDS = 100_000

# Every character is a letter or digit, white space, or neither, so the parts together are the whole text. The last of
# several spaces belongs to the next word. A part has at most 64 characters: its time grows with the square of them.
_PART = re.compile(r" ?\w{1,64}| ?[^\w\s]{1,64}|\s{1,64}(?!\S)|\s")


class BytePairEncoding:
    """A learned byte-pair encoding.

    Ids are, in this order: the special tokens, the 256 bytes, the joined pieces.

    Args:
        merges: pairs of piece numbers in the order learned. Bytes have the numbers 0 to 255; each merge that makes a
            new piece gives it the next number. (Special tokens have no such number.)
        special_tokens: names for ids that stand for no text, such as ``"[PAD]"``.

    Raises:
        UserError: a merge joins pieces that do not exist yet, or a special token is given twice.
    """

    def __init__(self, merges: Sequence[Pair], special_tokens: Sequence[str] = ()) -> None:
        self.merges = [(int(left), int(right)) for left, right in merges]
        self.special_tokens = tuple(special_tokens)
        if len(set(self.special_tokens)) < len(self.special_tokens):
            raise UserError("a special token is given twice: give each name once")
        pieces = _Pieces()
        self._ranks: dict[Pair, int] = {}
        self._joined: dict[Pair, int] = {}
        for rank, (left, right) in enumerate(self.merges):
            if not (0 <= left < len(pieces.pieces) and 0 <= right < len(pieces.pieces)):
                raise UserError(
                    f"merge {rank} joins pieces {left} and {right}, which do not exist yet: the merges are damaged"
                )
            self._ranks.setdefault((left, right), rank)
            self._joined[left, right] = pieces.join(left, right)
        self.pieces = pieces.pieces
        self._cache: dict[str, list[int]] = {}

    @classmethod
    def learn(
        cls, lines: Iterable[str], merges: int, special_tokens: Sequence[str] = (), min_count: int = 2
    ) -> BytePairEncoding:
        """Learn from lines of text.

        Args:
            lines: the text.
            merges: the largest number of pairs to join. The vocabulary has 256 pieces more.
            special_tokens: as for the class.
            min_count: a pair that occurs less often is not joined.
        """
        counts = count_parts(lines)
        words = [list(part.encode("utf-8", "surrogatepass")) for part in counts]
        pieces = _Pieces()
        learned = merge_pairs(words, list(counts.values()), pieces.join, min_count)
        return cls(list(islice(learned, merges)), special_tokens)

    def __len__(self) -> int:
        """The number of ids, special tokens included."""
        return len(self.special_tokens) + len(self.pieces)

    def first(self, merges: int) -> BytePairEncoding:
        """Return the encoding that has only the first ``merges`` merges, as if learning had stopped there."""
        return BytePairEncoding(self.merges[:merges], self.special_tokens)

    def special_id(self, token: str) -> int:
        """Return the id of a special token.

        Raises:
            UserError: there is no such special token.
        """
        if token not in self.special_tokens:
            raise UserError(f"no special token {token!r} here: give it in special_tokens when learning")
        return self.special_tokens.index(token)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text. The name of a special token in the text is ordinary text."""
        shift = len(self.special_tokens)
        return [number + shift for part in _PART.findall(text) for number in self._encode_part(part)]

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text; bytes that are only part of a character are shown as ``\\xe2``."""
        return [self.piece(index) for index in self.encode(text)]

    def piece(self, index: int) -> str:
        """Return the text of one id, or the name of a special token."""
        if index < len(self.special_tokens):
            return self.special_tokens[index]
        return self.pieces[index - len(self.special_tokens)].decode("utf-8", "backslashreplace")

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids. Special tokens are left out; bytes that make no character become U+FFFD.

        Raises:
            UserError: an id outside the vocabulary.
        """
        pieces = []
        for index in ids:
            if not 0 <= index < len(self):
                raise UserError(f"id {index} is outside the vocabulary of {len(self):,} pieces")
            if index >= len(self.special_tokens):
                pieces.append(self.pieces[index - len(self.special_tokens)])
        encoded = b"".join(pieces)
        try:
            return encoded.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return encoded.decode("utf-8", "replace")

    def save(self, path: str | Path) -> None:
        """Write the merges and the special tokens as JSON."""
        content = {"special_tokens": self.special_tokens, "merges": self.merges}
        write_text(path, json.dumps(content, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> BytePairEncoding:
        """Read what :meth:`save` wrote.

        Raises:
            UserError: the file is missing or not of this format.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            merges = [(int(left), int(right)) for left, right in content["merges"]]
            special_tokens = [str(token) for token in content["special_tokens"]]
        except OSError as error:
            raise UserError(
                f"cannot read {path}: {error.strerror}; give a file that BytePairEncoding.save wrote"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path} is no byte-pair encoding: give a file that BytePairEncoding.save wrote") from None
        return cls(merges, special_tokens)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> BytePairEncoding:
        """Read the encoding of the folder of a translator, ``vocabulary.json``; raises as :meth:`load`."""
        return cls.load(Path(folder) / VOCABULARY_FILE)

    def _encode_part(self, part: str) -> list[int]:
        if part not in self._cache:
            if len(self._cache) >= _CACHED_WORDS:
                self._cache.clear()
            self._cache[part] = self._apply(list(part.encode("utf-8", "surrogatepass")))
        return self._cache[part]

    def _apply(self, symbols: list[int]) -> list[int]:
        """Apply the merges to a word in the order in which they were learned, until none applies."""
        unranked = len(self.merges)
        while len(symbols) > 1:
            best = min(pairwise(symbols), key=lambda pair: self._ranks.get(pair, unranked))
            if best not in self._ranks:
                break
            symbols = replace_pair(symbols, best, self._joined[best])
        return symbols


class _Pieces:
    """The pieces made so far. Two merges that make the same bytes, as a+bc and ab+c do, make the same piece."""

    def __init__(self) -> None:
        self.pieces = [bytes([value]) for value in range(_BYTES)]
        self._numbers = {piece: number for number, piece in enumerate(self.pieces)}

    def join(self, left: int, right: int) -> int:
        piece = self.pieces[left] + self.pieces[right]
        if piece not in self._numbers:
            self._numbers[piece] = len(self.pieces)
            self.pieces.append(piece)
        return self._numbers[piece]


def count_parts(lines: Iterable[str]) -> Counter[str]:
    """Count the parts that are encoded separately: words with the space before them, runs of signs, runs of spaces."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(_PART.findall(line))
    return counts
