"""Batches for a causal language model: every token but the last asks for the one after it, and nothing is hidden."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.causal import CausalBatch, CausalData
from d2lbert.data.pretraining.corpus import learn_vocabulary
from d2lbert.data.pretraining.masking import MaskingRates
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare

SETTINGS = PretrainingSettings(max_length=30, batch_size=8, seed=3, next_sentence=False)


@pytest.fixture(scope="module")
def shards(root: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    files = sorted((root / "data" / "samples" / "wikipedia_en").glob("*.txt"))
    folder = tmp_path_factory.mktemp("corpus")
    return prepare(files, folder, learn_vocabulary(files, 900), Preparation(dev_share=0.2, shard_characters=30_000))


def _texts(batch: CausalBatch) -> list[list[int]]:
    spans = zip(batch.rows.starts.tolist(), batch.rows.lengths.tolist(), strict=True)
    return [batch.rows.token_ids[row, column : column + length].tolist() for (row, column), length in spans]


@pytest.mark.parametrize("packed", [True, False])
def test_each_token_predicts_the_one_after_it(shards: TokenShards, packed: bool) -> None:
    settings = PretrainingSettings(max_length=30, batch_size=8, seed=3, next_sentence=False, packed=packed)
    for batch, _ in islice(CausalData(shards, settings).batches(), 12):
        texts = _texts(batch)
        inputs = batch.rows.token_ids.reshape(-1)[batch.positions]
        pairs = sorted((token, next_token) for text in texts for token, next_token in pairwise(text))
        assert sorted(zip(inputs.tolist(), batch.next_ids.tolist(), strict=True)) == pairs
        # The answer stands one place further, in the same text.
        rows, numbers = batch.rows, batch.rows.sequence_ids.reshape(-1)
        assert (rows.token_ids.reshape(-1)[batch.positions + 1] == batch.next_ids).all()
        assert (numbers[batch.positions] == numbers[batch.positions + 1]).all()
        assert (numbers[batch.positions] > 0).all()
        assert len(batch.positions) == rows.num_tokens - len(texts)


def test_texts_are_those_that_bert_reads_without_pairs(shards: TokenShards) -> None:
    """The same texts in the same order, so that the two can be compared at equal tokens."""
    unmasked = PretrainingSettings(
        max_length=30, batch_size=8, seed=3, next_sentence=False, rates=MaskingRates(chosen=0.0)
    )
    batches = zip(CausalData(shards, SETTINGS).batches(), PretrainingData(shards, unmasked).batches(), strict=False)
    for (causal, after), (masked, masked_after) in islice(batches, 20):
        assert after == masked_after
        assert np.array_equal(causal.rows.token_ids, masked.rows.token_ids)
        assert np.array_equal(causal.rows.sequence_ids, masked.rows.sequence_ids)


def test_texts_begin_and_end_as_they_should(shards: TokenShards) -> None:
    tokenizer = shards.tokenizer()
    cls, sep = (tokenizer.token_to_id[token] for token in ("[CLS]", "[SEP]"))
    for batch, _ in islice(CausalData(shards, SETTINGS).batches(), 5):
        for text in _texts(batch):
            assert (text[0], text[-1]) == (cls, sep)
            assert cls not in text[1:]
        assert (batch.next_ids == sep).sum() == len(batch.rows.starts)  # the end is asked for, too


def test_pairs_and_masks_are_refused(shards: TokenShards) -> None:
    for wrong in (
        PretrainingSettings(),
        PretrainingSettings(next_sentence=False, rates=MaskingRates(whole_words=True)),
        PretrainingSettings(next_sentence=False, rates=MaskingRates(chosen=0.3)),
    ):
        with pytest.raises(UserError, match="reads single texts and hides nothing"):
            CausalData(shards, wrong)
