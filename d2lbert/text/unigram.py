"""ALBERT's tokenizer: words split into the most probable pieces of a vocabulary (Kudo 2018; Kudo and Richardson 2018).

Each piece has a log-probability, and a text is split so that the sum over its pieces is largest. A piece at the
beginning of a word begins with ``▁``, which stands for the space before it. The pieces, and the rules by which a text
is cleaned, come from a ``tokenizer.json``, which the `tokenizers` library reads and applies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError
from d2lbert.storage.files import write_text
from d2lbert.text.encoding import CLS, MASK, SEP, Encoding, Pieces, assemble_batch, offsets_before, without_surrogates
from d2lbert.text.tokenizer_json import TOKENIZER_FILE, length_field

_PAD, _UNKNOWN = "<pad>", "<unk>"


class Unigram:
    """ALBERT's tokenizer. It has the methods of :class:`~d2lbert.text.WordPiece`.

    Args:
        content: the text of a ``tokenizer.json``.
        origin: its path, for error messages.

    Raises:
        UserError: the content is not a tokenizer, not a unigram model, or lacks a special token.
    """

    def __init__(self, content: str, origin: str | Path = TOKENIZER_FILE) -> None:
        from tokenizers import Tokenizer

        try:
            kind = json.loads(content)["model"]["type"]
            self._library: Any = Tokenizer.from_str(content)
        except Exception as error:  # the library raises no narrower class
            raise UserError(f"{origin} holds no tokenizer ({error}): restore the file") from None
        if kind != "Unigram":
            raise UserError(f"{origin} is a tokenizer of kind {kind}, not Unigram: give the one of an ALBERT")
        # The file may set a fixed length; here the caller decides how long a text may be.
        self._library.no_truncation()
        self._library.no_padding()
        self.token_to_id: dict[str, int] = self._library.get_vocab()
        self.vocab = sorted(self.token_to_id, key=self.token_to_id.__getitem__)
        self.model_max_length: int | None = None  # as in WordPiece
        self._content = content
        for token in (_PAD, _UNKNOWN, CLS, SEP, MASK):
            if token not in self.token_to_id:
                raise UserError(f"{origin} lacks the special token {token}: give the tokenizer of an ALBERT")
        self.pad_id = self.token_to_id[_PAD]

    @classmethod
    def from_file(cls, tokenizer_json: str | Path) -> Unigram:
        """Read a ``tokenizer.json``.

        Raises:
            UserError: the file is missing or not a tokenizer of this kind.
        """
        try:
            content = Path(tokenizer_json).read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot read {tokenizer_json}: {error.strerror}; give the file of an ALBERT") from None
        except UnicodeDecodeError:
            raise UserError(f"{tokenizer_json} is not UTF-8 text: restore the file") from None
        return cls(content, tokenizer_json)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Unigram:
        """Read the ``tokenizer.json`` of a Hugging Face folder. Errors are those of :meth:`from_file`."""
        return cls.from_file(Path(folder) / TOKENIZER_FILE)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``tokenizer.json`` and ``tokenizer_config.json`` in Hugging Face's format, each whole or not at all."""
        write_text(Path(folder) / TOKENIZER_FILE, self._content)
        self.save_settings(folder)

    def save_settings(self, folder: str | Path) -> None:
        """Write ``tokenizer_config.json`` alone."""
        tokens = {"pad_token": _PAD, "unk_token": _UNKNOWN, "cls_token": CLS, "sep_token": SEP, "mask_token": MASK}
        config = {"tokenizer_class": "AlbertTokenizer", **tokens, **length_field(self.model_max_length)}
        write_text(Path(folder) / "tokenizer_config.json", json.dumps(config, indent=2) + "\n")

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text, without special tokens around it."""
        return self._pieces([text])[0].tokens

    def encode(self, a: str, b: str | None = None, max_length: int | None = None) -> Encoding:
        """Encode ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``.

        Args:
            a, b: the texts.
            max_length: the largest number of tokens, special tokens included; of a pair, the longer text is cut first.

        Raises:
            UserError: ``max_length`` leaves no room for a single piece.
        """
        return self.encode_batch([a], None if b is None else [b], max_length)[0]

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_length: int | None = None
    ) -> list[Encoding]:
        """Encode many texts, or many pairs.

        Args:
            texts: the texts, or the first texts of pairs.
            pairs: the second texts.
            max_length: as in :meth:`encode`.

        Raises:
            UserError: ``pairs`` and ``texts`` have different lengths, or ``max_length`` is too small.
        """
        seconds = None if pairs is None else self._pieces(pairs)
        return assemble_batch(self._pieces(texts), seconds, max_length, self.token_to_id)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; special tokens are left out.

        Raises:
            UserError: an id outside the vocabulary.
        """
        indices = list(ids)
        for index in indices:
            if not 0 <= index < len(self.vocab):
                raise UserError(f"id {index} is outside the vocabulary of {len(self.vocab):,} pieces")
        decoded: str = self._library.decode(indices, skip_special_tokens=True)
        return decoded

    def _pieces(self, texts: Sequence[str]) -> list[Pieces]:
        clean = [without_surrogates(text) for text in texts]
        encodings = self._library.encode_batch(clean, add_special_tokens=False)
        return [
            Pieces(encoding.ids, encoding.tokens, offsets_before(text, kept, encoding.offsets))
            for text, kept, encoding in zip(texts, clean, encodings, strict=True)
        ]
