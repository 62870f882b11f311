"""A small tokenizer.json in the manner of GPT-2's: the 256 bytes, some merges, filler, the end of a text."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

MERGES = [("t", "h"), ("th", "e"), ("Ġ", "b"), ("a", "n"), ("an", "k"), ("Ġb", "ank"), ("Ġ", "the")]


def tokenizer_json(size: int = 300, end: str = "<|endoftext|>") -> str:
    """Return the content of the file, with ``size`` pieces; the last is ``end``."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(left + right for left, right in MERGES)]
    pieces += [f"filler{number}" for number in range(size - len(pieces) - 1)]
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([end])
    return str(tokenizer.to_str())
