"""What students and teachers of the tests share: a small corpus, and the sizes of a model that reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2lbert.config import BertConfig
from d2lbert.data.pretraining.corpus import learn_vocabulary
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare


@pytest.fixture(scope="session")
def shards(root: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    """The sample of Wikipedia with a vocabulary of 300 pieces, a third of its documents held out."""
    files = sorted((root / "data" / "samples" / "wikipedia_en").glob("*.txt"))
    return prepare(files, tmp_path_factory.mktemp("corpus"), learn_vocabulary(files, 300), Preparation(dev_share=0.3))


@pytest.fixture
def sizes(shards: TokenShards) -> BertConfig:
    """Three layers of width 12."""
    return BertConfig(
        vocab_size=len(shards.tokenizer().vocab),
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=40,
    )
