"""The ``tokenizer.json`` of a BERT: the pieces, and how a text is cleaned, in the format of the `tokenizers` library.

``transformers`` 4 writes it beside ``vocab.txt``, ``transformers`` 5 in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from d2lbert.errors import UserError
from d2lbert.storage.files import read_json
from d2lbert.text.encoding import UNKNOWN

TOKENIZER_FILE, VOCABULARY_FILE, SETTINGS_FILE = "tokenizer.json", "vocab.txt", "tokenizer_config.json"
ADDED_FILE = "added_tokens.json"
LONGEST_WORD = 100  # characters; a longer word is unknown
_MOST_TOKENS = 10**6  # transformers writes 10^30 where a tokenizer knows of no longest text


class WordPieces(NamedTuple):
    """What a ``tokenizer.json`` says.

    Fields:
        vocab: the pieces; the index is the id.
        lowercase: whether case is folded.
        strip_accents: whether accents are dropped; None: the same as ``lowercase``.
    """

    vocab: list[str]
    lowercase: bool
    strip_accents: bool | None


def has_word_pieces(folder: str | Path) -> bool:
    """Whether a model folder has BERT's tokenizer, as ``vocab.txt`` or as ``tokenizer.json``, and no other.

    Raises:
        UserError: a ``tokenizer.json`` cannot be read, or is not JSON.
    """
    path = Path(folder) / TOKENIZER_FILE
    if (Path(folder) / VOCABULARY_FILE).is_file():
        return True
    return path.is_file() and _part(read_json(path), "model").get("type") == "WordPiece"


def read_word_pieces(path: str | Path) -> WordPieces:
    """Read the ``tokenizer.json`` of a BERT.

    Raises:
        UserError: the file cannot be read, holds no WordPiece, or one that works otherwise than BERT's.
    """
    values = read_json(path)
    model, normalizer, pre_tokenizer = (_part(values, name) for name in ("model", "normalizer", "pre_tokenizer"))
    if model.get("type") != "WordPiece":
        raise UserError(f"{path} is a tokenizer of kind {model.get('type')}, not WordPiece: give the one of a BERT")
    wanted = {
        "model.unk_token": (model.get("unk_token"), UNKNOWN),
        "model.continuing_subword_prefix": (model.get("continuing_subword_prefix"), "##"),
        "model.max_input_chars_per_word": (model.get("max_input_chars_per_word"), LONGEST_WORD),
        "normalizer.type": (normalizer.get("type"), "BertNormalizer"),
        "normalizer.clean_text": (normalizer.get("clean_text"), True),
        "normalizer.handle_chinese_chars": (normalizer.get("handle_chinese_chars"), True),
        "pre_tokenizer.type": (pre_tokenizer.get("type"), "BertPreTokenizer"),
    }
    for name, (found, needed) in wanted.items():
        if found != needed:
            raise UserError(f"{path} asks for {name}={found!r}; only BERT's own, {needed!r}, is offered")
    vocab = pieces_by_id(model.get("vocab"), path)
    _check_added(_added(values, path), vocab, path)
    return WordPieces(
        vocab, _flag(normalizer, "lowercase", path) is not False, _flag(normalizer, "strip_accents", path)
    )


def longest_text(config: dict[str, Any]) -> int | None:
    """Return ``model_max_length`` of a ``tokenizer_config.json``, in tokens; None where it names no true length."""
    length = config.get("model_max_length")
    return length if isinstance(length, int) and 0 < length < _MOST_TOKENS else None


def length_field(longest: int | None) -> dict[str, int]:
    """Return the field of ``tokenizer_config.json`` that says how many tokens a model takes, if that is known."""
    return {} if longest is None else {"model_max_length": longest}


def _part(values: dict[str, Any], name: str) -> dict[str, Any]:
    part = values.get(name)
    return part if isinstance(part, dict) else {}


def _flag(part: dict[str, Any], name: str, path: str | Path) -> bool | None:
    flag = part.get(name)
    if not isinstance(flag, bool | None):
        raise UserError(f"{path}: {name} is {flag!r}; give true or false, without quotation marks")
    return flag


def pieces_by_id(ids: Any, path: str | Path) -> list[str]:
    """Return the pieces in the order of their ids, which must be 0, 1, 2 and so on."""
    if not isinstance(ids, dict) or not all(type(index) is int for index in ids.values()):
        raise UserError(f"{path} has no table from pieces to ids: restore the file")
    vocab = sorted(ids, key=ids.__getitem__)
    for index, piece in enumerate(vocab):
        if ids[piece] != index:
            raise UserError(
                f"{path} has no piece with the id {index}, but {piece!r} with {ids[piece]}: restore the file"
            )
    return vocab


def check_added_tokens(folder: str | Path, vocab: Sequence[str]) -> None:
    """Refuse a folder whose ``vocab.txt`` is not all: other files of it add tokens to the vocabulary.

    ``transformers`` 4 writes them into ``added_tokens.json``, ``tokenizer.json`` and ``tokenizer_config.json``, newer
    and older releases not into all of these.

    Args:
        folder: its path.
        vocab: the pieces of ``vocab.txt``; the special tokens that the other files name again are among them.

    Raises:
        UserError: a file has such a token, or cannot be read.
    """
    whole, added, settings = (Path(folder) / name for name in (TOKENIZER_FILE, ADDED_FILE, SETTINGS_FILE))
    if whole.is_file():
        _check_added(_added(read_json(whole), whole), vocab, whole)
    if added.is_file():
        _check_added(list(read_json(added)), vocab, added)
    if settings.is_file():
        tokens = _part(read_json(settings), "added_tokens_decoder").values()
        _check_added([token.get("content") for token in tokens if isinstance(token, dict)], vocab, settings)


def _added(values: dict[str, Any], path: str | Path) -> list[Any]:
    """Return the names of the tokens that a ``tokenizer.json`` adds."""
    added = values.get("added_tokens") or []
    if not isinstance(added, list):
        raise UserError(f"{path}: added_tokens is no list; restore the file")
    return [token.get("content") for token in added if isinstance(token, dict)]


def _check_added(names: Sequence[Any], vocab: Sequence[str], path: str | Path) -> None:
    """Refuse tokens that somebody added to the vocabulary: they are split by other rules than pieces are."""
    extra = next((name for name in names if name not in vocab), None)
    if extra is not None:
        raise UserError(f"{path} adds the token {extra!r} to the vocabulary, which is not offered; use another model")
