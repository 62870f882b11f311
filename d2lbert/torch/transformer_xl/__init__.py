"""Attention that asks for distances, a memory of the segments before, and tokens in any order."""

from d2lbert.torch.transformer_xl.attention import RelativeAttention, distance_waves
from d2lbert.torch.transformer_xl.encoder import (
    RelativeBlock,
    RelativeEncoder,
    SegmentOutput,
    order_masks,
    remember,
)

__all__ = [
    "RelativeAttention",
    "RelativeBlock",
    "RelativeEncoder",
    "SegmentOutput",
    "distance_waves",
    "order_masks",
    "remember",
]
