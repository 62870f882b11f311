"""GPT-2's tokenizer: byte-pair encoding with the released merges (Radford et al. 2019, section 2.2).

:class:`~d2lbert.text.BytePairEncoding` learns and applies such merges in plain Python. Here the pieces, their ids and
the rule that cuts a text into words come from a ``tokenizer.json``, which the `tokenizers` library reads and applies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError
from d2lbert.storage.files import write_text
from d2lbert.text.encoding import Encoding, offsets_before, without_surrogates
from d2lbert.text.tokenizer_json import TOKENIZER_FILE, length_field

END_OF_TEXT = "<|endoftext|>"


class ByteLevel:
    """GPT-2's tokenizer. No text is unknown to it, and nothing is put around a text.

    Args:
        content: the text of a ``tokenizer.json``.
        origin: its path, for error messages.

    Raises:
        UserError: the content is not a tokenizer, is one of another kind, or lacks the token that ends a text.
    """

    def __init__(self, content: str, origin: str | Path = TOKENIZER_FILE) -> None:
        from tokenizers import Tokenizer

        try:
            kind = json.loads(content)["model"]["type"]
            self._library: Any = Tokenizer.from_str(content)
        except Exception as error:  # the library raises no narrower class
            raise UserError(f"{origin} holds no tokenizer ({error}): restore the file") from None
        if kind != "BPE":
            raise UserError(f"{origin} is a tokenizer of kind {kind}, not BPE: give the one of a GPT-2")
        self._library.no_truncation()
        self._library.no_padding()
        self.token_to_id: dict[str, int] = self._library.get_vocab()
        self.vocab = sorted(self.token_to_id, key=self.token_to_id.__getitem__)
        self.model_max_length: int | None = None  # as in WordPiece
        self._content = content
        if END_OF_TEXT not in self.token_to_id:
            raise UserError(f"{origin} lacks the token {END_OF_TEXT}: give the tokenizer of a GPT-2")

    @classmethod
    def from_file(cls, tokenizer_json: str | Path) -> ByteLevel:
        """Read a ``tokenizer.json``.

        Raises:
            UserError: the file is missing or not a tokenizer of this kind.
        """
        try:
            content = Path(tokenizer_json).read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot read {tokenizer_json}: {error.strerror}; give the file of a GPT-2") from None
        except UnicodeDecodeError:
            raise UserError(f"{tokenizer_json} is not UTF-8 text: restore the file") from None
        return cls(content, tokenizer_json)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> ByteLevel:
        """Read the ``tokenizer.json`` of a Hugging Face folder. Errors are those of :meth:`from_file`."""
        return cls.from_file(Path(folder) / TOKENIZER_FILE)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``tokenizer.json`` and ``tokenizer_config.json`` in Hugging Face's format, each whole or not at all."""
        write_text(Path(folder) / TOKENIZER_FILE, self._content)
        self.save_settings(folder)

    def save_settings(self, folder: str | Path) -> None:
        """Write ``tokenizer_config.json`` alone."""
        tokens = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT)
        config = {"tokenizer_class": "GPT2Tokenizer", **tokens, **length_field(self.model_max_length)}
        write_text(Path(folder) / "tokenizer_config.json", json.dumps(config, indent=2) + "\n")

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text as the file writes them: a space is ``Ġ``, each other byte a visible sign."""
        return self.encode(text).tokens

    def encode(self, text: str) -> Encoding:
        """Return the ids of a text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the ids of many texts. The name of a special token in a text is ordinary text."""
        clean = [without_surrogates(text) for text in texts]
        self._library.encode_special_tokens = True
        found = self._library.encode_batch(clean, add_special_tokens=False)
        encodings = []
        for text, kept, one in zip(texts, clean, found, strict=True):
            offsets, length = offsets_before(text, kept, one.offsets), len(one.ids)
            encodings.append(Encoding(one.ids, [0] * length, one.tokens, offsets, [False] * length))
        return encodings

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; the token that ends a text is left out.

        Raises:
            UserError: an id outside the vocabulary.
        """
        indices = list(ids)
        for index in indices:
            if not 0 <= index < len(self.vocab):
                raise UserError(f"id {index} is outside the vocabulary of {len(self.vocab):,} pieces")
        decoded: str = self._library.decode(indices, skip_special_tokens=True)
        return decoded
