"""Smaller relatives of BERT: ALBERT (Lan et al. 2020), DistilBERT (Sanh et al. 2019), and a BERT that was pruned.

ALBERT is a BERT with two changes, both to save parameters. The word embeddings have size E, far smaller than D, and one
matrix (E, D) widens them: V E + E D parameters instead of V D (section 3.1, factorised embedding parameterisation). And
all layers share one block, so that 12 layers have the parameters of one. This saves memory, not time: every layer is
still computed.

DistilBERT has half of the blocks of BERT, without segments and pooler. It started from six blocks of BERT-base, its
teacher, and was trained to give the teacher's outputs.

A pruned BERT has lost heads, or neurons of its feed-forward networks; each layer may have kept another number of them.
Its word embeddings may be two factors in place of one matrix (:mod:`d2lbert.torch.compression`).

Shape legend: B rows of a batch, L length of a row, D hidden size, E embedding size, V vocabulary, R rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from d2lbert.config.base import BlockSizes
from d2lbert.config.bert import BertConfig
from d2lbert.config.relatives import AlbertConfig, DistilBertConfig, PrunedBertConfig
from d2lbert.torch.bert import BertEmbeddings, BertModel
from d2lbert.torch.encoder import TransformerEncoder, TransformerEncoderBlock
from d2lbert.weights.relatives import (
    albert_file_shapes,
    albert_names,
    distilbert_file_shapes,
    distilbert_names,
    pruned_bert_file_shapes,
    pruned_bert_names,
)

_EMBEDDING_FIELDS = (
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "hidden_dropout_prob",
)


class AlbertEmbeddings(BertEmbeddings):
    """The embeddings of a BERT of width E, then a linear layer to D."""

    def __init__(self, config: AlbertConfig) -> None:
        sizes = {name: getattr(config, name) for name in _EMBEDDING_FIELDS}
        super().__init__(BertConfig(hidden_size=config.embedding_size, num_attention_heads=1, **sizes))
        self.project = nn.Linear(config.embedding_size, config.hidden_size)

    def forward(self, token_ids: Tensor, segment_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D)."""
        return self.project(super().forward(token_ids, segment_ids, position_ids))  # (B, L, E) -> (B, L, D)


class SharedEncoder(TransformerEncoder):
    """A stack with fewer blocks than layers: each block serves the same number of consecutive layers (section 3.1).

    Args:
        sizes: of every block.
        num_layers: how many times the vectors pass through a block.
        num_groups: the number of blocks, which divides ``num_layers``.
    """

    def __init__(self, sizes: BlockSizes, num_layers: int, num_groups: int) -> None:
        super().__init__(sizes, num_groups)
        self.repeats = num_layers // num_groups

    def layers(self) -> list[TransformerEncoderBlock]:
        """Return the block of each layer."""
        return [block for block in super().layers() for _ in range(self.repeats)]


class AlbertModel(BertModel):
    """ALBERT without a head. Input, output and packed rows are those of :class:`~d2lbert.torch.bert.BertModel`.

    Differs from ``transformers`` in training alone, and only if the rate of dropout is above 0 (in version 2 it is 0):
    the output of the feed-forward network has dropout, too, as in BERT.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    config_class = AlbertConfig
    config: AlbertConfig

    def __init__(self, config: AlbertConfig) -> None:
        encoder = SharedEncoder(config.block, config.num_hidden_layers, config.num_hidden_groups)
        super().__init__(config, AlbertEmbeddings(config), encoder)

    def names(self) -> dict[str, str]:
        """Return the table from our parameter names to Hugging Face's."""
        return albert_names(self.config.num_hidden_groups)

    @classmethod
    def file_shapes(cls, config: AlbertConfig) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter under Hugging Face's names."""
        return albert_file_shapes(config)


class DistilBertEmbeddings(nn.Module):
    """The sum of word and position embeddings, then LayerNorm and dropout."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, token_ids: Tensor, segment_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D). Segments are ignored."""
        return self.dropout(self.norm(self.word(token_ids) + self.position(position_ids)))


class DistilBertModel(BertModel):
    """DistilBERT without a head: token ids in, contextual vectors out. ``pooled`` is the first token's last state.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    config_class = DistilBertConfig
    config: DistilBertConfig

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config, DistilBertEmbeddings(config))
        self.pooler = None

    def names(self) -> dict[str, str]:
        """Return the table from our parameter names to Hugging Face's."""
        return distilbert_names(self.config.num_hidden_layers)

    @classmethod
    def file_shapes(cls, config: DistilBertConfig) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter under Hugging Face's names."""
        return distilbert_file_shapes(config)


class UnevenEncoder(TransformerEncoder):
    """A stack whose blocks differ in heads and in the width of their feed-forward networks.

    Args:
        sizes: of each block, at least one.
    """

    def __init__(self, sizes: Sequence[BlockSizes]) -> None:
        super().__init__(sizes[0], 0)
        self.blocks.extend(TransformerEncoderBlock(own) for own in sizes)


class FactorisedEmbedding(nn.Module):
    """A table of vectors that is stored as a product: R numbers for each id, and a matrix that widens them to D.

    Args:
        vocab_size: V.
        rank: R, at most D.
        hidden_size: D.
    """

    def __init__(self, vocab_size: int, rank: int, hidden_size: int) -> None:
        super().__init__()
        self.narrow = nn.Embedding(vocab_size, rank)
        self.widen = nn.Linear(rank, hidden_size, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, L) to vectors (B, L, D)."""
        return self.widen(self.narrow(ids))  # (B, L, R) -> (B, L, D)


class PrunedBertModel(BertModel):
    """A BERT that has lost heads, neurons, or rank of its word embeddings. Input, output and packed rows are BERT's.

    Args:
        config: the sizes. Weights start at random; :func:`~d2lbert.torch.compression.prune_encoder` and
            :func:`~d2lbert.torch.compression.factorise_embeddings` take those of a trained BERT.
    """

    config_class = PrunedBertConfig
    config: PrunedBertConfig

    def __init__(self, config: PrunedBertConfig) -> None:
        embeddings: Any = BertEmbeddings(config)
        if config.embedding_rank:
            embeddings.word = FactorisedEmbedding(config.vocab_size, config.embedding_rank, config.hidden_size)
        super().__init__(config, embeddings, UnevenEncoder(config.blocks))

    def names(self) -> dict[str, str]:
        """Return the table from our parameter names to those of the file: Hugging Face's, but for two factors."""
        return pruned_bert_names(self.config)

    @classmethod
    def file_shapes(cls, config: PrunedBertConfig) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter under the names of the file."""
        return pruned_bert_file_shapes(config)


_RELATIVES: dict[str, type[BertModel]] = {
    "albert": AlbertModel,
    "distilbert": DistilBertModel,
    "pruned_bert": PrunedBertModel,
}


def encoder_class(model_type: str) -> type[BertModel]:
    """Return the class for a ``model_type`` in ``config.json``; for an unknown one BERT, which will refuse it."""
    return _RELATIVES.get(model_type, BertModel)
