"""BERT's tokenizer: words split into the longest pieces of a vocabulary.

The code is plain Python, written to be read. It equals ``transformers.BertTokenizerFast`` token for token, offsets
included. For many texts :meth:`WordPiece.encode_batch` gives the same result with the `tokenizers` library.

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
from d2lbert.storage.files import read_json, write_text
from d2lbert.text.beginnings import first_pieces
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
from d2lbert.text.tokenizer_json import (
    LONGEST_WORD,
    SETTINGS_FILE,
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    check_added_tokens,
    length_field,
    longest_text,
    read_word_pieces,
)

_CACHED_WORDS = 100_000
_WORDS_PER_TEXT = 1000


class _Piece(NamedTuple):
    """A piece of a word: ``start`` and ``end`` are indices of characters of the cleaned word."""

    token: str
    start: int
    end: int


class WordPiece:
    """BERT's tokenizer over a given vocabulary.

    Args:
        vocab: the pieces; the index is the id. ``##`` marks a piece that continues a word.
        lowercase: fold case, for "uncased" models.
        strip_accents: drop accents; by default the same as ``lowercase``.

    Attributes:
        model_max_length: the longest input of the model that the vocabulary belongs to, in tokens; None if that is not
            known. Nothing is cut here: it is told to ``transformers``, which cuts there.

    Raises:
        UserError: the vocabulary is empty, has a piece twice, or lacks a special token.
    """

    def __init__(self, vocab: Sequence[str], lowercase: bool = True, strip_accents: bool | None = None) -> None:
        self.vocab = list(vocab)
        self.lowercase = lowercase
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self.model_max_length: int | None = None
        self.token_to_id = {piece: index for index, piece in enumerate(self.vocab)}
        _check_vocabulary(self.vocab, self.token_to_id)
        self.pad_id = self.token_to_id[PAD]
        self._cache: dict[str, list[_Piece]] = {}

    @classmethod
    def from_file(cls, vocab_txt: str | Path, lowercase: bool = True) -> WordPiece:
        """Read a vocabulary file: one piece per line; the line number (from 0) is the id.

        Args:
            vocab_txt: the path of the file.
            lowercase: fold case and strip accents.

        Raises:
            UserError: the file is missing, not UTF-8, or not a BERT vocabulary.
        """
        return cls(_read_vocabulary(Path(vocab_txt)), lowercase)

    @classmethod
    def from_pretrained(cls, folder: str | Path, lowercase: bool | None = None) -> WordPiece:
        """Read the tokenizer of a Hugging Face folder, as ``transformers`` 4 or 5 writes it.

        The vocabulary is ``vocab.txt``, or if there is none, that of ``tokenizer.json``. What
        ``tokenizer_config.json`` says of case and accents goes before what ``tokenizer.json`` says, as in
        ``transformers``.

        Args:
            folder: its path.
            lowercase: overrides the folder. Several published cased models lack the file that says so; without that
                file and without this argument the tokenizer lower-cases.

        Raises:
            UserError: there is no vocabulary, the configuration cannot be read, or it needs an option that is not
                supported, such as tokens that were added to the vocabulary.
        """
        path = Path(folder)
        config = _read_config(path / SETTINGS_FILE)
        if not (path / VOCABULARY_FILE).is_file() and (path / TOKENIZER_FILE).is_file():
            vocab, told, accents = read_word_pieces(path / TOKENIZER_FILE)
            config = {"do_lower_case": told, "strip_accents": accents, **config}
        else:
            vocab = _read_vocabulary(path / VOCABULARY_FILE)
            check_added_tokens(path, vocab)
        if lowercase is None:
            lowercase = bool(config.get("do_lower_case", True))
        tokenizer = cls(vocab, lowercase, config.get("strip_accents"))
        tokenizer.model_max_length = longest_text(config)
        return tokenizer

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``vocab.txt``, ``tokenizer.json`` and ``tokenizer_config.json``, each whole or not at all.

        ``transformers`` 4 and 5 and the `tokenizers` library read them.
        """
        write_text(Path(folder) / VOCABULARY_FILE, "".join(f"{piece}\n" for piece in self.vocab))
        write_text(Path(folder) / TOKENIZER_FILE, self._bulk.to_str(pretty=True) + "\n")
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
            **length_field(self.model_max_length),
        }
        write_text(Path(folder) / SETTINGS_FILE, json.dumps(config, indent=2) + "\n")

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text, without special tokens around it."""
        return self._pieces(text).tokens

    def encode(self, a: str, b: str | None = None, max_length: int | None = None) -> Encoding:
        """Encode ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``.

        A special token in the text itself, such as ``[MASK]``, is encoded as that token, as in BERT.

        Args:
            a, b: the texts.
            max_length: the largest number of tokens, special tokens included; of a pair, the longer text is cut first.

        Raises:
            UserError: ``max_length`` leaves no room for a single piece.
        """
        second = None if b is None else self._pieces(b)
        return assemble(self._pieces(a), second, max_length, self.token_to_id)

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_length: int | None = None
    ) -> list[Encoding]:
        """Encode many texts, or many pairs, with the `tokenizers` library. The result equals :meth:`encode` of each.

        Args:
            texts: the texts, or the first texts of pairs.
            pairs: the second texts.
            max_length: as in :meth:`encode`.

        Raises:
            UserError: ``pairs`` and ``texts`` have different lengths, or ``max_length`` is too small.
        """
        if max_length is None:
            firsts, seconds = self._bulk_pieces(texts), None if pairs is None else self._bulk_pieces(pairs)
        else:
            firsts, seconds = first_pieces(texts, pairs, max_length, self._bulk_pieces)
        return assemble_batch(firsts, seconds, max_length, self.token_to_id)

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return only the ids of many texts, without special tokens around them, with the `tokenizers` library."""
        clean = [_SURROGATE.sub("\0", text) for text in texts]
        return [encoding.ids for encoding in self._bulk.encode_batch_fast(clean, add_special_tokens=False)]

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the ids of many words without spaces, one after the other, and for each id the index of its word.

        The `tokenizers` library needs some ten microseconds to start a text, so many words are put into one text.
        """
        ids: list[int] = []
        word_indices: list[int] = []
        for first in range(0, len(words), _WORDS_PER_TEXT):
            chunk = words[first : first + _WORDS_PER_TEXT]
            encoding = self._bulk.encode(_SURROGATE.sub("\0", " ".join(chunk)), add_special_tokens=False)
            ends = list(accumulate(len(word) + 1 for word in chunk))
            ids += encoding.ids
            word_indices += [first + bisect_right(ends, start) for start, _ in encoding.offsets]
        return ids, word_indices

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words of the ids, with spaces between them. ``[PAD]``, ``[CLS]`` and ``[SEP]`` are left out.

        What cleaning removed (case, accents, the original spaces) is not restored.

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
        # The pattern has one group, so the special tokens are at the odd positions of the list.
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
        # Few words make up most of a text, so their pieces are cached. A full cache is emptied.
        if word.text not in self._cache:
            if len(self._cache) >= _CACHED_WORDS:
                self._cache.clear()
            self._cache[word.text] = longest_match(word.text, self.token_to_id)
        return self._cache[word.text]

    def _bulk_pieces(self, texts: Sequence[str]) -> list[Pieces]:
        # A lone surrogate is no character and cannot be passed to the library; NUL is dropped in the same way.
        clean = [_SURROGATE.sub("\0", text) for text in texts]
        encodings = self._bulk.encode_batch(clean, add_special_tokens=False)
        return [Pieces(encoding.ids, encoding.tokens, encoding.offsets) for encoding in encodings]

    @cached_property
    def _bulk(self) -> Any:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

        model = models.WordPiece(self.token_to_id, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=True, strip_accents=self.strip_accents, lowercase=self.lowercase
        )
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
        # What follows is not used here; it is for those who read the saved file.
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{CLS}:0 $A:0 {SEP}:0",
            pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
            special_tokens=[(token, self.token_to_id[token]) for token in (CLS, SEP)],
        )
        tokenizer.decoder = decoders.WordPiece(prefix="##")
        return tokenizer


_SPECIAL_TOKEN = re.compile("(" + "|".join(map(re.escape, SPECIAL_TOKENS)) + ")")
_SURROGATE = re.compile("[\ud800-\udfff]")


def longest_match(word: str, vocabulary: dict[str, int]) -> list[_Piece]:
    """Split a word: take the longest piece with which it begins, then continue with the rest.

    Pieces after the first are looked up with ``##`` before them. If at any point no piece matches, the whole word is
    one ``[UNK]``: half a word would mislead more than none.

    Args:
        word: the cleaned word.
        vocabulary: the pieces and their ids.

    Returns:
        The pieces, each with the start and the end of its characters in ``word``.
    """
    unknown = _Piece(UNKNOWN, 0, len(word))
    if len(word) > LONGEST_WORD:
        return [unknown]
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
            return [unknown]
        pieces.append(_Piece(token, start, end))
        start = end
    return pieces


def _check_vocabulary(vocab: list[str], token_to_id: dict[str, int]) -> None:
    if not vocab:
        raise UserError("the vocabulary is empty: give a vocab.txt with one piece a line")
    if len(token_to_id) < len(vocab):
        duplicate = next(piece for index, piece in enumerate(vocab) if token_to_id[piece] != index)
        raise UserError(f"the vocabulary has the piece {duplicate!r} twice: each piece must stand on one line only")
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
    # Only a line feed ends a line: a piece may be one of the rarer characters at which str.splitlines() splits.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _read_config(path: Path) -> dict[str, Any]:
    """Return the content of a ``tokenizer_config.json``, an empty one where there is no such file."""
    if not path.is_file():
        return {}
    config = read_json(path)
    for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        if not isinstance(config.get(name), bool | None):
            raise UserError(f"{path}: {name} is {config[name]!r}; give true or false, without quotation marks")
    if config.get("tokenize_chinese_chars") is False:
        raise UserError(f"{path} asks for tokenize_chinese_chars=false, which is not offered; use another model")
    return config
