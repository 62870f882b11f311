"""BERT's tokenizer: words split into the longest pieces of a vocabulary.

The code is plain Python, to be read. It equals ``transformers.BertTokenizerFast`` token for token, offsets
included. For bulk work :meth:`WordPiece.encode_batch` gives the same through the `tokenizers` library.

Source: Schuster and Nakajima 2012 (the pieces), Devlin et al. 2019 (the input of BERT: ``[CLS] a [SEP] b [SEP]``).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from d2lbert.errors import UserError
from d2lbert.storage.files import write_text
from d2lbert.text.encoding import (
    CLS,
    MASK,
    PAD,
    SEP,
    SPECIAL_TOKENS,
    UNKNOWN,
    Encoding,
    Pieces,
    assemble,
    assemble_batch,
)
from d2lbert.text.normalization import Word, clean_words

_LONGEST_WORD = 100  # characters; a longer word is not searched but unknown
_CACHED_WORDS = 100_000
_WORDS_OF_A_TEXT = 1000


class _Piece(NamedTuple):
    """A piece of a word: ``start`` and ``end`` count the characters of the cleaned word."""

    token: str
    start: int
    end: int


class WordPiece:
    """BERT's tokenizer over a given vocabulary.

    Args:
        vocab: the pieces; the index is the id. ``##`` marks a piece that continues a word.
        lowercase: fold case, for "uncased" models.
        strip_accents: by default as ``lowercase``.

    Raises:
        UserError: empty vocabulary, a piece given twice, or a special token missing.
    """

    def __init__(self, vocab: Sequence[str], lowercase: bool = True, strip_accents: bool | None = None) -> None:
        self.vocab = list(vocab)
        self.lowercase = lowercase
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self.token_to_id = {piece: index for index, piece in enumerate(self.vocab)}
        _check_vocabulary(self.vocab, self.token_to_id)
        self.pad_id = self.token_to_id[PAD]
        self._cache: dict[str, list[_Piece]] = {}

    @classmethod
    def from_file(cls, vocab_txt: str | Path, lowercase: bool = True) -> WordPiece:
        """Read a vocabulary file: one piece a line, the line number (from 0) is the id.

        Raises:
            UserError: the file is missing, not UTF-8, or not a BERT vocabulary.
        """
        return cls(_read_vocabulary(Path(vocab_txt)), lowercase)

    @classmethod
    def from_pretrained(cls, folder: str | Path, lowercase: bool | None = None) -> WordPiece:
        """Read ``vocab.txt`` and ``tokenizer_config.json`` of a Hugging Face folder.

        Args:
            lowercase: overrules the folder. Several published cased models lack the file that says so; without it and
                without this argument the tokenizer lower-cases.

        Raises:
            UserError: no vocabulary, an unreadable configuration, or one that asks for what is not built here.
        """
        config = _read_config(Path(folder) / "tokenizer_config.json")
        if lowercase is None:
            lowercase = bool(config.get("do_lower_case", True))
        return cls(_read_vocabulary(Path(folder) / "vocab.txt"), lowercase, config.get("strip_accents"))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``vocab.txt`` and ``tokenizer_config.json`` in Hugging Face's format, each whole or not at all."""
        write_text(Path(folder) / "vocab.txt", "".join(f"{piece}\n" for piece in self.vocab))
        self.save_settings(folder)

    def save_settings(self, folder: str | Path) -> None:
        """Write ``tokenizer_config.json`` alone."""
        config = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.lowercase,
            "strip_accents": None if self.strip_accents == self.lowercase else self.strip_accents,
            "tokenize_chinese_chars": True,
            "pad_token": PAD,
            "unk_token": UNKNOWN,
            "cls_token": CLS,
            "sep_token": SEP,
            "mask_token": MASK,
        }
        write_text(Path(folder) / "tokenizer_config.json", json.dumps(config, indent=2) + "\n")

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text, without special tokens around it."""
        return self._pieces(text).tokens

    def encode(self, a: str, b: str | None = None, max_length: int | None = None) -> Encoding:
        """Encode ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``.

        A special token that stands in the text itself, such as ``[MASK]``, is taken for that token, as BERT does.

        Args:
            max_length: cut to so many tokens, special tokens included; of a pair, the longer text is cut first.

        Raises:
            UserError: ``max_length`` leaves no room for a single piece.
        """
        second = None if b is None else self._pieces(b)
        return assemble(self._pieces(a), second, max_length, self.token_to_id)

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_length: int | None = None
    ) -> list[Encoding]:
        """Encode many texts, or many pairs, with the `tokenizers` library. Equals :meth:`encode` on each.

        Raises:
            UserError: ``pairs`` has another length than ``texts``, or ``max_length`` is too small.
        """
        seconds = None if pairs is None else self._bulk_pieces(pairs)
        return assemble_batch(self._bulk_pieces(texts), seconds, max_length, self.token_to_id)

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts with the `tokenizers` library: no special tokens around them, nothing else."""
        clean = [_SURROGATE.sub("\0", text) for text in texts]
        return [encoding.ids for encoding in self._bulk.encode_batch_fast(clean, add_special_tokens=False)]

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the ids of many words that hold no spaces, one after the other, and for each id the word's place.

        The `tokenizers` library takes some ten microseconds to begin a text, so many words go into one.
        """
        ids: list[int] = []
        places: list[int] = []
        for first in range(0, len(words), _WORDS_OF_A_TEXT):
            part = words[first : first + _WORDS_OF_A_TEXT]
            encoding = self._bulk.encode(_SURROGATE.sub("\0", " ".join(part)), add_special_tokens=False)
            ends = list(accumulate(len(word) + 1 for word in part))
            ids += encoding.ids
            places += [first + bisect_right(ends, start) for start, _ in encoding.offsets]
        return ids, places

    def decode(self, ids: Iterable[int]) -> str:
        """Join pieces to words, a space between them. ``[PAD]``, ``[CLS]`` and ``[SEP]`` are left out.

        What cleaning took away (case, accents, the original spaces) does not come back.

        Raises:
            UserError: an id outside the vocabulary.
        """
        tokens = []
        for index in ids:
            if not 0 <= index < len(self.vocab):
                raise UserError(f"id {index} is outside the vocabulary of {len(self.vocab):,} pieces")
            if self.vocab[index] not in (PAD, CLS, SEP):
                tokens.append(self.vocab[index])
        return " ".join(tokens).replace(" ##", "")

    def _pieces(self, text: str) -> Pieces:
        ids, tokens, offsets = [], [], []
        position = 0
        # The pattern has one group, so the special tokens stand at the odd places of the list.
        for index, part in enumerate(_SPECIAL_TOKEN.split(text)):
            if index % 2 == 1:
                ids.append(self.token_to_id[part])
                tokens.append(part)
                offsets.append((position, position + len(part)))
            else:
                for word in clean_words(part, self.lowercase, self.strip_accents):
                    for piece in self._word_pieces(word):
                        ids.append(self.token_to_id[piece.token])
                        tokens.append(piece.token)
                        start, end = word.positions[piece.start], word.positions[piece.end - 1] + 1
                        offsets.append((position + start, position + end))
            position += len(part)
        return Pieces(ids, tokens, offsets)

    def _word_pieces(self, word: Word) -> list[_Piece]:
        # Few words make most of a text, so their pieces are kept. When the store is full it starts anew.
        if word.text not in self._cache:
            if len(self._cache) >= _CACHED_WORDS:
                self._cache.clear()
            self._cache[word.text] = longest_match(word.text, self.token_to_id)
        return self._cache[word.text]

    def _bulk_pieces(self, texts: Sequence[str]) -> list[Pieces]:
        # A lone surrogate is no character and cannot cross to the library; NUL is dropped just as it would be.
        clean = [_SURROGATE.sub("\0", text) for text in texts]
        encodings = self._bulk.encode_batch(clean, add_special_tokens=False)
        return [Pieces(encoding.ids, encoding.tokens, encoding.offsets) for encoding in encodings]

    @cached_property
    def _bulk(self) -> Any:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

        model = models.WordPiece(self.token_to_id, unk_token=UNKNOWN, max_input_chars_per_word=_LONGEST_WORD)
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=True, strip_accents=self.strip_accents, lowercase=self.lowercase
        )
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
        return tokenizer


_SPECIAL_TOKEN = re.compile("(" + "|".join(map(re.escape, SPECIAL_TOKENS)) + ")")
_SURROGATE = re.compile("[\ud800-\udfff]")


def longest_match(word: str, vocabulary: dict[str, int]) -> list[_Piece]:
    """Split a word: take the longest piece that it begins with, then go on with the rest.

    Pieces after the first are looked up with ``##`` before them. If at any point nothing fits, the whole word is one
    ``[UNK]``: half a word would mislead more than none.

    Returns:
        pieces with the start and end of the characters of ``word`` that they cover.
    """
    whole = _Piece(UNKNOWN, 0, len(word))
    if len(word) > _LONGEST_WORD:
        return [whole]
    pieces = []
    start = 0
    while start < len(word):
        end = len(word)
        while end > start:
            token = word[start:end] if start == 0 else "##" + word[start:end]
            if token in vocabulary:
                break
            end -= 1
        if end == start:
            return [whole]
        pieces.append(_Piece(token, start, end))
        start = end
    return pieces


def _check_vocabulary(vocab: list[str], token_to_id: dict[str, int]) -> None:
    if not vocab:
        raise UserError("the vocabulary is empty: give a vocab.txt with one piece a line")
    if len(token_to_id) < len(vocab):
        twice = next(piece for index, piece in enumerate(vocab) if token_to_id[piece] != index)
        raise UserError(f"the vocabulary has the piece {twice!r} twice: each piece must stand on one line only")
    for token in SPECIAL_TOKENS:
        if token not in token_to_id:
            raise UserError(f"the vocabulary lacks the special token {token}: give the vocab.txt of a BERT model")


def _read_vocabulary(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UserError(f"cannot read the vocabulary {path}: {error.strerror}; give the vocab.txt of a model") from None
    except UnicodeDecodeError:
        raise UserError(f"the vocabulary {path} is not UTF-8 text; give a file with one piece a line") from None
    # Only a line feed ends a line: a piece may be one of the rarer characters that str.splitlines() would cut at.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}; mend or delete the file") from None
    if not isinstance(config, dict):
        raise UserError(f"{path} holds no JSON object; mend or delete the file")
    if config.get("tokenize_chinese_chars", True) is False:
        raise UserError(f"{path} asks for tokenize_chinese_chars=false, which is not offered; use another model")
    return config
