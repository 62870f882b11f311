"""The PyTorch edition of every model.

A model is imported when it is first asked for, so that one of them does not bring all the others along.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from d2lbert.torch.bert import BertModel
    from d2lbert.torch.elmo import Elmo
    from d2lbert.torch.gpt import Gpt
    from d2lbert.torch.pretraining import BertForPretraining
    from d2lbert.torch.relatives import AlbertModel, DistilBertModel, PrunedBertModel
    from d2lbert.torch.seq2seq import Seq2Seq
    from d2lbert.torch.transformer import Transformer

_MODULES = {
    "AlbertModel": "relatives",
    "BertForPretraining": "pretraining",
    "BertModel": "bert",
    "DistilBertModel": "relatives",
    "Elmo": "elmo",
    "Gpt": "gpt",
    "PrunedBertModel": "relatives",
    "Seq2Seq": "seq2seq",
    "Transformer": "transformer",
}

__all__ = [
    "AlbertModel",
    "BertForPretraining",
    "BertModel",
    "DistilBertModel",
    "Elmo",
    "Gpt",
    "PrunedBertModel",
    "Seq2Seq",
    "Transformer",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
