"""The PyTorch edition of every model."""

from d2lbert.torch.bert import BertModel
from d2lbert.torch.pretraining import BertForPretraining

__all__ = ["BertForPretraining", "BertModel"]
