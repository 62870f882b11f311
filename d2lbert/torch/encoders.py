"""Which class is the encoder of a model folder: BERT or one of its relatives."""

from __future__ import annotations

from d2lbert.torch.albert import AlbertModel
from d2lbert.torch.bert import BertModel, TextEncoder
from d2lbert.torch.distilbert import DistilBertModel

_RELATIVES: dict[str, type[TextEncoder]] = {"albert": AlbertModel, "distilbert": DistilBertModel}


def encoder_class(model_type: str) -> type[TextEncoder]:
    """Return the class for a ``model_type`` of ``config.json``; BERT for one that is unknown, which will refuse it."""
    return _RELATIVES.get(model_type, BertModel)
