"""A vocabulary: the ids of words, and how many a model wants."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from d2lbert.errors import UserError
from d2lbert.text.encoding import PAD, UNKNOWN

# Some tables of embeddings are longer than their vocabulary, up to the next multiple of 64 or 128: that is faster.
_LONGEST_PADDING = 127


def check_vocabulary(pieces: int, embeddings: int, origin: str | Path) -> None:
    """Check that a tokenizer's vocabulary fits a model's embeddings. A few unused embeddings are padding: a warning.

    Args:
        pieces: the size of the vocabulary.
        embeddings: the number of the model's embeddings.
        origin: the folder or file, for messages.

    Raises:
        UserError: there are more pieces than embeddings, or so few that the file must be cut off or another one.
    """
    sizes = f"{origin}: the tokenizer has {pieces:,} pieces, the model has {embeddings:,} embeddings"
    if pieces > embeddings:
        raise UserError(f"{sizes}: vocabulary and weights are not of one model")
    if embeddings - pieces > _LONGEST_PADDING:
        raise UserError(f"{sizes}: the vocabulary is cut off or of another model, copy it again")
    if pieces < embeddings:
        warnings.warn(
            f"{sizes}: the last {embeddings - pieces} are padding, or the vocabulary is cut off", stacklevel=3
        )


class Vocabulary:
    """Words and their ids. Special tokens come first, then the words from the most to the least frequent.

    Words of equal count are in alphabetical order, so the ids do not depend on the order of the text.

    Args:
        counts: how often each word occurs.
        min_count: rarer words are left out.
        max_size: the largest number of entries, special tokens included; None for no limit.
        special_tokens: they get the first ids; ``unknown`` must be among them.
        unknown: the token that stands for every word that is left out.

    Raises:
        UserError: a special token is given twice, ``unknown`` is not among them, or they are more than ``max_size``.
    """

    def __init__(
        self,
        counts: Mapping[str, int],
        min_count: int = 1,
        max_size: int | None = None,
        special_tokens: Sequence[str] = (PAD, UNKNOWN),
        unknown: str = UNKNOWN,
    ) -> None:
        if len(set(special_tokens)) < len(special_tokens):
            raise UserError("a special token is given twice: give each name once")
        if unknown not in special_tokens:
            raise UserError(f"the special tokens lack the unknown token {unknown!r}: add it")
        if max_size is not None and max_size < len(special_tokens):
            raise UserError(f"max_size {max_size} has no room for {len(special_tokens)} special tokens: give more")
        kept = [word for word, count in counts.items() if count >= min_count and word not in special_tokens]
        kept.sort(key=lambda word: (-counts[word], word))
        self.words = [*special_tokens, *kept][:max_size]
        self.word_to_id = {word: index for index, word in enumerate(self.words)}
        self.unknown_id = self.word_to_id[unknown]
        self.special_tokens = tuple(special_tokens)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.word_to_id

    def id(self, word: str) -> int:
        """Return the id of a word, or that of the unknown token."""
        return self.word_to_id.get(word, self.unknown_id)

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word."""
        return [self.id(word) for word in words]

    def word(self, index: int) -> str:
        """Return the word of an id.

        Raises:
            UserError: the id is outside the vocabulary.
        """
        if not 0 <= index < len(self.words):
            raise UserError(f"id {index} is outside the vocabulary of {len(self.words):,} words")
        return self.words[index]

    def lookup(self, ids: Iterable[int]) -> list[str]:
        """Return the word of each id.

        Raises:
            UserError: an id is outside the vocabulary.
        """
        return [self.word(index) for index in ids]
