"""Word embeddings as a product of two narrower matrices: V R + R D numbers in place of V D.

ALBERT learns such factors from the start (Lan et al. 2020, section 3.1). Here they are taken from a trained BERT: the
first R singular values and vectors of its matrix give the product that is nearest to it (Eckart and Young 1936).

Shape legend: V vocabulary, D hidden size, R rank.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from d2lbert.config.bert import BertConfig
from d2lbert.config.relatives import PrunedBertConfig
from d2lbert.errors import UserError
from d2lbert.torch.bert import BertModel
from d2lbert.torch.relatives import PrunedBertModel


def best_factors(matrix: Tensor, rank: int, counts: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return two factors whose product is nearest to a matrix, of all products of this rank.

    Args:
        matrix: (V, D).
        rank: R, from 1 to the smaller of V and D.
        counts: (V,), how often each row is used, above 0; the squared differences of a row count so many times. By
            default all count the same. (Chen et al. 2018 weigh words so in a language model.)

    Returns:
        (V, R) and (R, D). Their product has the smallest possible sum of squared differences to the matrix. Where all
        rows count the same, that is the sum of the squares of the singular values that are left out.

    Raises:
        UserError: the matrix has no such rank, or the counts are not one above 0 for each row.
    """
    highest = min(matrix.shape)
    if not 1 <= rank <= highest:
        raise UserError(f"rank {rank}: a matrix of {' x '.join(map(str, matrix.shape))} can have 1 to {highest}")
    scale = torch.ones_like(matrix[:, :1]) if counts is None else _scale(matrix, counts)  # (V, 1)
    left, values, right = torch.linalg.svd(scale * matrix, full_matrices=False)  # (V, S), (S,), (S, D)
    return left[:, :rank] * values[:rank] / scale, right[:rank]


def _scale(matrix: Tensor, counts: Tensor) -> Tensor:
    """Return the root of how often each row counts, (V, 1): differences are squared afterwards."""
    if counts.shape != matrix.shape[:1] or not bool((counts > 0).all()):
        raise UserError(f"counts: give {len(matrix)} numbers above 0, one for each row; add 1 to counts of a text")
    return counts.to(matrix).sqrt().unsqueeze(1)


@torch.no_grad()
def factorise_embeddings(bert: BertModel, rank: int, counts: Tensor | None = None) -> PrunedBertModel:
    """Return an encoder whose word embeddings are two factors of the given one's. The given one stays as it is.

    In a model with a head, ``model.bert = factorise_embeddings(model.bert, 128)``. Less is stored; a look-up then also
    multiplies R numbers with a matrix (R, D), so nothing is computed faster.

    Args:
        bert: a BERT, which may have been pruned before.
        rank: R, at least 1 and at most the smaller of V and D.
        counts: (V,), how often each token is read, above 0: frequent tokens then come out nearer to what they were.

    Raises:
        UserError: the encoder is another than BERT, has adapters or factors already, there is no such rank, or the
            counts do not fit.
    """
    if type(bert) not in (BertModel, PrunedBertModel):
        raise UserError(f"a {type(bert).__name__} cannot be factorised: its embeddings are not BERT's; give a BERT")
    before = getattr(bert.config, "embedding_rank", 0)
    if before:
        raise UserError(f"the word embeddings have {before} columns already: give the whole model")
    tensors = bert.state_dict()
    narrow, wide = best_factors(tensors.pop("embeddings.word.weight"), rank, counts)
    tensors["embeddings.word.narrow.weight"], tensors["embeddings.word.widen.weight"] = narrow, wide.T
    kind = PrunedBertConfig if isinstance(bert.config, PrunedBertConfig) else BertConfig
    sizes = {one.name: getattr(bert.config, one.name) for one in dataclasses.fields(kind)}
    smaller = PrunedBertModel(PrunedBertConfig(**sizes | {"embedding_rank": rank})).to(narrow)
    if set(tensors) != set(smaller.state_dict()):
        raise UserError("the encoder has more than a BERT's own weights: merge its adapters first")
    smaller.load_state_dict(tensors)
    return smaller.train(bert.training)
