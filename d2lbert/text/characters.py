"""Text as a sequence of characters: the smallest vocabulary, the longest sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from d2lbert.text.encoding import PAD, UNKNOWN
from d2lbert.text.vocab import Vocabulary


class CharacterVocabulary:
    """Characters and their ids.

    A character that was not seen in learning is unknown and is lost in decoding. Byte-pair encoding over bytes has no
    such gap.

    Args:
        lines: the text to take the characters from.
        min_count: rarer characters are unknown.
        special_tokens: come first; must hold ``[UNK]``.
    """

    def __init__(
        self, lines: Iterable[str], min_count: int = 1, special_tokens: Sequence[str] = (PAD, UNKNOWN)
    ) -> None:
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(line)
        self.vocabulary = Vocabulary(counts, min_count, special_tokens=special_tokens)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the id of each character."""
        return self.vocabulary.ids(text)

    def decode(self, ids: Iterable[int]) -> str:
        """Join the characters of the ids. An unknown one becomes U+FFFD; other special tokens are left out.

        Raises:
            UserError: an id outside the vocabulary.
        """
        specials = self.vocabulary.special_tokens
        characters = []
        for index in ids:
            character = self.vocabulary.word(index)
            if index == self.vocabulary.unknown_id:
                characters.append("\ufffd")
            elif character not in specials:
                characters.append(character)
        return "".join(characters)
