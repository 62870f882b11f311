"""The PyTorch edition of every model."""

from d2lbert.torch.bert import BertModel
from d2lbert.torch.elmo import Elmo

__all__ = ["BertModel", "Elmo"]
