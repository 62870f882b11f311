"""``d2lbert predict fill_mask``: what a pretrained model expects in the gaps of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from d2lbert.errors import UserError

FILL_MASK = "fill_mask"
PIECES = 5  # shown for each gap
_HEAD = "cls.predictions.transform.dense.weight"


def fill_mask(model: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each text: the likeliest pieces of every ``[MASK]`` in it, best first, with probabilities.

    Args:
        model: a folder or a name, of a BERT with the heads of pretraining.

    Raises:
        UserError: there is no such model, it has no head for masked words, or a text has no ``[MASK]`` or is too long.
    """
    from d2lbert.models import tokenizer_of
    from d2lbert.torch.masked_words import fill_masks
    from d2lbert.torch.pretraining import BertForPretraining
    from d2lbert.torch.runtime import best_device
    from d2lbert.weights.folder import CONFIG_FILE
    from d2lbert.weights.header import read_header
    from d2lbert.zoo.folders import locate

    folder = locate(model)
    if _HEAD not in (read_header(folder) if (folder / CONFIG_FILE).is_file() else {}):
        raise UserError(
            f"{model} has no head that names hidden words: use one that was pretrained with it: d2lbert-tiny, or "
            "bert-base-uncased, which is downloaded"
        )
    trained = BertForPretraining.from_pretrained(folder).to(best_device())
    tokenizer = tokenizer_of(folder, trained.config)
    return [
        {
            "text": text,
            "masks": [
                [{"piece": piece, "probability": probability} for piece, probability in gap]
                for gap in fill_masks(trained, tokenizer, text, PIECES)
            ],
        }
        for text in texts
    ]
