"""The PyTorch edition of every model."""

from d2lbert.torch.bert import BertModel
from d2lbert.torch.elmo import Elmo
from d2lbert.torch.gpt import Gpt
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.relatives import AlbertModel, DistilBertModel
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer

__all__ = [
    "AlbertModel",
    "BertForPretraining",
    "BertModel",
    "DistilBertModel",
    "Elmo",
    "Gpt",
    "Seq2Seq",
    "Transformer",
]
