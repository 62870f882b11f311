"""A small tokenizer.json in the manner of ALBERT's: lower case, no accents, pieces with log-probabilities."""

from __future__ import annotations

import string
from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
PIECES = [
    ("▁", -2.0),
    ("▁the", -3.0),
    ("▁river", -5.0),
    ("river", -7.0),
    ("▁bank", -4.5),
    ("bank", -6.0),
    ("▁un", -5.5),
    ("ed", -4.0),
    ("s", -3.5),
    ("▁a", -3.2),
    (",", -3.9),
    *((letter, -9.0) for letter in string.ascii_lowercase if letter != "s"),
]


def tokenizer_json(size: int = 0, special: Sequence[str] = SPECIAL) -> str:
    """Return the content of the file.

    Args:
        size: how many pieces there shall be; more than there are words for are filled with numbers.
    """
    numbers = [(f"w{number}", -20.0) for number in range(max(0, size - len(special) - len(PIECES)))]
    vocabulary = [*((token, 0.0) for token in special), *PIECES, *numbers]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=1, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace("  ", " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.add_special_tokens(list(special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    content: str = tokenizer.to_str()
    return content
