"""What parity tests share: a small configuration of unequal sizes, a padded batch, and the comparison itself."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from random_parameters import randomize
from torch import Tensor

from d2lbert.config import AlbertConfig, BertConfig, DistilBertConfig
from d2lbert.torch.bert import BertModel

# Every dimension has another size, so that a transposed axis cannot pass.
SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_attention_heads": 4,
    "intermediate_size": 56,
    "max_position_embeddings": 47,
}
DROPOUT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}
ALBERT = AlbertConfig(**SIZES, **DROPOUT, num_hidden_layers=4, embedding_size=10, type_vocab_size=3)
DISTILBERT = DistilBertConfig(**SIZES, **DROPOUT, num_hidden_layers=3)


def small_config(**changes: Any) -> BertConfig:
    """Return the sizes of a small BERT."""
    return BertConfig(**{**SIZES, "num_hidden_layers": 3, "type_vocab_size": 3, **changes})


@dataclass
class BatchOfIds:
    """Token ids with segments and a padding mask, each (B, L)."""

    token_ids: Tensor
    segment_ids: Tensor
    mask: Tensor

    @staticmethod
    def encoding(generator: np.random.Generator, length: int) -> Any:
        """A random text, in the fields that batching reads."""
        cut = int(generator.integers(1, length + 1))
        ids = generator.integers(1, 101, length).tolist()
        return SimpleNamespace(ids=ids, segment_ids=[0] * cut + [1] * (length - cut))


def random_batch(vocab_size: int = 101, batch: int = 5, length: int = 13) -> BatchOfIds:
    """Rows of unequal length; each has two segments and ends in padding."""
    generator = torch.Generator().manual_seed(7)
    token_ids = torch.randint(1, vocab_size, (batch, length), generator=generator)
    mask = torch.ones(batch, length, dtype=torch.long)
    segment_ids = torch.zeros(batch, length, dtype=torch.long)
    for row in range(batch):
        mask[row, length - row :] = 0
        segment_ids[row, 2 + row :] = 1
    return BatchOfIds(token_ids * mask, segment_ids, mask)


def reference_and_ours(
    config: BertConfig, implementation: str = "eager", random_parameters: bool = True
) -> tuple[Any, BertModel]:
    """A transformers.BertModel and ours, with the same parameters: random ones, or those of default initialisation."""
    import transformers

    from d2lbert.weights.folder import canonical_name

    sizes = {name: value for name, value in config.to_dict().items() if name not in ("architectures", "model_type")}
    reference = transformers.BertModel(transformers.BertConfig(**sizes, attn_implementation=implementation))
    if random_parameters:
        randomize(reference, seed=11)
    ours = BertModel(config)
    state = {canonical_name(name): value.numpy() for name, value in reference.state_dict().items()}
    ours.load_tensors(state, "the reference")
    return reference.eval(), ours.eval()


def compare_bert(reference: Any, ours: BertModel, batch: BatchOfIds) -> dict[str, float]:
    """Return the largest absolute difference of each output and of two gradients, over real tokens."""
    eager = reference.config._attn_implementation == "eager"
    theirs = reference(
        input_ids=batch.token_ids,
        token_type_ids=batch.segment_ids,
        attention_mask=batch.mask,
        output_hidden_states=True,
        output_attentions=eager,
    )
    got = ours(batch.token_ids, batch.segment_ids, batch.mask, output_hidden_states=True, output_attentions=eager)
    kept = batch.mask.bool()
    pairs = list(zip(theirs.hidden_states, got.hidden_states, strict=True))
    differences = {
        "hidden_states": max(_largest((one - two)[kept]) for one, two in pairs),
        "pooled": _largest(theirs.pooler_output - got.pooled),
    }
    if eager:
        both = zip(theirs.attentions, got.attentions, strict=True)
        differences["attentions"] = max(_largest((a - b).transpose(1, 2)[kept]) for a, b in both)
    differences |= _gradient_differences(reference, ours, theirs, got, kept)
    return differences


def _gradient_differences(reference: Any, ours: BertModel, theirs: Any, got: Any, kept: Tensor) -> dict[str, float]:
    """Compare the gradients of a random projection of every output, scaled to order one."""
    generator = torch.Generator().manual_seed(5)
    direction = torch.randn(got.sequence[kept].shape, generator=generator)
    direction /= direction.numel() ** 0.5
    pooled_direction = torch.randn(got.pooled.shape, generator=generator) / got.pooled.numel() ** 0.5
    for model, sequence, pooled in (
        (reference, theirs.last_hidden_state, theirs.pooler_output),
        (ours, got.sequence, got.pooled),
    ):
        model.zero_grad()
        ((sequence[kept] * direction).sum() + (pooled * pooled_direction).sum()).backward()
    word = reference.embeddings.word_embeddings.weight.grad
    query = reference.encoder.layer[0].attention.self.query.weight.grad
    return {
        "word gradient": _largest(word - ours.embeddings.word.weight.grad),
        "query gradient": _largest(query - ours.encoder.blocks[0].attention.query.weight.grad),
    }


def _largest(difference: Tensor) -> float:
    return float(difference.detach().abs().max())
