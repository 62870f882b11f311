"""A small encoder in a folder, a model with adapters for it, and its logits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from parity_support import random_batch, small_config
from random_parameters import randomize
from torch import Tensor, nn

from d2lbert.config.adapters import AdapterConfig
from d2lbert.torch.adapters import adapted_layers, add_adapters
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForQuestionAnswering, BertForSequenceClassification, BertWithHead

LABELS = ("bad", "mixed", "good")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The folder of a small encoder with random weights."""
    encoder = BertModel(small_config())
    randomize(encoder, seed=1)
    encoder.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def make_adapted(base: Path, head: type[BertWithHead] = BertForSequenceClassification) -> BertWithHead:
    """A model whose adapters have random numbers, B too."""
    model = head(BertModel.from_pretrained(base), LABELS if head is not BertForQuestionAnswering else ("start", "end"))
    add_adapters(model, AdapterConfig(rank=3, alpha=6.0))
    for number, layer in enumerate(adapted_layers(model).values()):
        torch.manual_seed(number)
        nn.init.normal_(layer.up, std=0.1)
    return model.eval()


def compute_logits(model: nn.Module) -> Tensor:
    batch = random_batch()
    return model(batch.token_ids, batch.segment_ids, batch.mask).detach()


@pytest.fixture
def adapted() -> Callable[..., BertWithHead]:
    """Makes a model from the folder of an encoder."""
    return make_adapted


@pytest.fixture
def logits() -> Callable[[nn.Module], Tensor]:
    """Computes the logits of a model for a batch with padding."""
    return compute_logits
