"""GluonNLP's file of a vocabulary, ``.vocab``: JSON with the pieces, their ids, and which of them are special.

The ids need not be those of BERT's ``vocab.txt``. Where GluonNLP converted Google's first models, tokens swapped
places: ``[UNK]``, ``[PAD]``, ``[CLS]``, ``[SEP]`` and ``[MASK]`` became 0 to 4, and the rows of the embeddings moved
with them. So the weights need this file; with a ``vocab.txt`` in Google's order all five would be wrong, and nothing
would say so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError
from d2lbert.storage.files import read_json
from d2lbert.text.encoding import CLS, MASK, PAD, SEP, UNKNOWN
from d2lbert.text.tokenizer_json import pieces_by_id

# What GluonNLP calls a special token -> the token of BERT.
_SPECIAL = {
    "unknown_token": UNKNOWN,
    "padding_token": PAD,
    "cls_token": CLS,
    "sep_token": SEP,
    "mask_token": MASK,
}
_NOT_IN_A_LINE = re.compile("[\n\r\ud800-\udfff]")


def read_vocab(path: str | Path) -> list[str]:
    """Return the pieces of a ``.vocab`` file of GluonNLP's BERT; the index is the id.

    Raises:
        UserError: the file cannot be read, is damaged, or is of another kind of model.
    """
    values = read_json(path)
    vocab = pieces_by_id(values.get("token_to_idx"), path)
    if values.get("idx_to_token", vocab) != vocab:
        raise UserError(f"{path}: idx_to_token and token_to_idx have other ids for one piece: restore the file")
    named = {**_table(values.get("identifiers_to_tokens")), **values}  # files before version 0.7 have no inner table
    for role, token in _SPECIAL.items():
        if named.get(role, token) != token:
            raise UserError(f"{path}: its {role} is {named[role]!r}, not {token}: give the vocabulary of a BERT")
    broken = next((piece for piece in vocab if not piece or _NOT_IN_A_LINE.search(piece)), None)
    if broken is not None:
        raise UserError(f"{path}: the piece {broken!r} is empty or cannot stand on a line of text: restore the file")
    return vocab


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
