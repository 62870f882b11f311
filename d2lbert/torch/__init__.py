"""The PyTorch edition of every model."""

from d2lbert.torch.bert import BertModel

__all__ = ["BertModel"]
