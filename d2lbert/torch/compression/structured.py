"""Remove heads, and neurons of the feed-forward networks: smaller matrices and files, and less time.

The result is a :class:`~d2lbert.torch.relatives.PrunedBertModel`. It computes what the whole model computes when the
outputs of the removed parts are multiplied by zero (Michel et al. 2019).

Shape legend: K size of a head, D hidden size, F width inside the feed-forward network.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from d2lbert.config.bert import BertConfig
from d2lbert.config.relatives import PrunedBertConfig
from d2lbert.errors import UserError
from d2lbert.torch.bert import BertModel
from d2lbert.torch.relatives import PrunedBertModel


def most_important(importance: Sequence[Tensor], keep: int) -> list[list[int]]:
    """Return the indices of the most important parts of each layer.

    Args:
        importance: of the parts of each layer; layers are compared as the numbers stand, see
            :func:`~d2lbert.torch.compression.normalize_per_layer`.
        keep: how many parts stay in all layers together. Each layer keeps its best one.

    Raises:
        UserError: there are fewer parts than ``keep``, or more layers.
    """
    total = sum(len(own) for own in importance)
    if not len(importance) <= keep <= total:
        raise UserError(
            f"cannot keep {keep} of {total} parts in {len(importance)} layers: keep from {len(importance)} to {total}"
        )
    scores = [own.tolist() for own in importance]
    kept = [{own.index(max(own))} for own in scores]
    parts = [(layer, part) for layer, own in enumerate(scores) for part in range(len(own)) if part not in kept[layer]]
    parts.sort(key=lambda pair: -scores[pair[0]][pair[1]])
    for layer, part in parts[: keep - len(scores)]:
        kept[layer].add(part)
    return [sorted(own) for own in kept]


@torch.no_grad()
def prune_encoder(
    bert: BertModel,
    heads: Sequence[Sequence[int]] | None = None,
    neurons: Sequence[Sequence[int]] | None = None,
) -> PrunedBertModel:
    """Return an encoder that has some of the heads and neurons alone. The given one stays as it is.

    In a model with a head, ``model.bert = prune_encoder(model.bert, ...)``.

    Args:
        bert: a BERT, which may have been pruned before.
        heads: the indices of those that stay, for each layer at least one; all by default.
        neurons: of the feed-forward networks, likewise.

    Raises:
        UserError: the encoder is another than BERT or has adapters, or the indices do not fit it.
    """
    if type(bert) not in (BertModel, PrunedBertModel):
        raise UserError(f"a {type(bert).__name__} cannot be pruned: its layers are not those of a BERT; give a BERT")
    blocks = bert.encoder.layers()
    head_counts = [block.attention.num_heads for block in blocks]
    neuron_counts = [block.feed_forward.expand.out_features for block in blocks]
    heads, neurons = _checked("heads", heads, head_counts), _checked("neurons", neurons, neuron_counts)
    sizes = {one.name: getattr(bert.config, one.name) for one in dataclasses.fields(BertConfig)}
    sizes["embedding_rank"] = getattr(bert.config, "embedding_rank", 0)
    config = PrunedBertConfig(**sizes, heads_per_layer=_counts(heads), neurons_per_layer=_counts(neurons))
    pruned = PrunedBertModel(config).to(next(bert.parameters()))  # its device and its precision
    tensors = bert.state_dict()
    if set(tensors) != set(pruned.state_dict()):
        raise UserError("the encoder has more than a BERT's own weights: merge its adapters first")
    for layer, (own_heads, own_neurons) in enumerate(zip(heads, neurons, strict=True)):
        block, size = f"encoder.blocks.{layer}", config.head_size
        columns = [size * head + column for head in own_heads for column in range(size)]
        projections = [f"{block}.attention.{name}" for name in ("query", "key", "value")]
        _keep(tensors, projections, f"{block}.attention.output", columns)
        _keep(tensors, [f"{block}.feed_forward.expand"], f"{block}.feed_forward.project", own_neurons)
    pruned.load_state_dict(tensors)
    return pruned.train(bert.training)


def _keep(tensors: dict[str, Tensor], before: Sequence[str], after: str, kept: Sequence[int]) -> None:
    """Keep some entries of a vector: these outputs of the layers before it, and these inputs of the layer after it."""
    index = torch.tensor(kept, device=tensors[f"{after}.weight"].device)
    for layer in before:
        for kind in ("weight", "bias"):
            tensors[f"{layer}.{kind}"] = tensors[f"{layer}.{kind}"].index_select(0, index)
    tensors[f"{after}.weight"] = tensors[f"{after}.weight"].index_select(1, index)


def _counts(kept: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(len(own) for own in kept)


def _checked(name: str, kept: Sequence[Sequence[int]] | None, counts: Sequence[int]) -> list[list[int]]:
    """Return what stays in each layer in rising order; everything where nothing was said.

    Raises:
        UserError: it is not one list for each layer, or a list is empty or has an index twice or out of range.
    """
    if kept is None:
        return [list(range(count)) for count in counts]
    if len(kept) != len(counts):
        raise UserError(f"{name} to keep are given for {len(kept)} layers of {len(counts)}: give a list for each")
    for layer, (own, count) in enumerate(zip(kept, counts, strict=True)):
        if not own or len(set(own)) != len(own) or not set(own) <= set(range(count)):
            raise UserError(
                f"{name} to keep in layer {layer} are {list(own)[:8]}: give one or more different numbers from 0 to "
                f"{count - 1}"
            )
    return [sorted(own) for own in kept]
