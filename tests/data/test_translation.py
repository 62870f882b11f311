"""Sentence pairs: encoded, and batched so that every pair comes once an epoch and little is padding."""

from __future__ import annotations

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data import Translation
from d2lbert.data.translation import EncodedPair, PairBatches, encode_pairs, learn_vocabulary, pad_ids

EXAMPLES = [Translation("a small house", "ein kleines Haus"), Translation("a house", "ein Haus")]


def _pairs(count: int = 200) -> list[EncodedPair]:
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 40, (count, 2))
    return [EncodedPair([number] * left, [1] + [number] * right) for number, (left, right) in enumerate(lengths)]


def test_both_languages_share_a_vocabulary_and_come_back() -> None:
    tokenizer = learn_vocabulary(EXAMPLES, 30)
    (first, second) = encode_pairs(EXAMPLES, tokenizer)
    assert tokenizer.special_tokens == ("[PAD]", "[BOS]", "[EOS]")
    assert first.source[-1] == first.target[-1] == 2
    assert first.target[0] == 1
    assert 1 not in first.source
    assert tokenizer.decode(first.source) == "a small house"
    assert tokenizer.decode(second.target) == "ein Haus"


def test_too_long_a_pair_is_named() -> None:
    tokenizer = learn_vocabulary(EXAMPLES, 0)
    assert len(encode_pairs(EXAMPLES, tokenizer, 18)) == 2
    with pytest.raises(UserError, match="sentence pair 1 has 18 tokens, more than 17; shorten or remove it"):
        encode_pairs(EXAMPLES, tokenizer, 17)
    with pytest.raises(UserError, match="no sentence pairs"):
        encode_pairs([], tokenizer)


def test_padding() -> None:
    ids, mask = pad_ids([[5, 6], [7], [8, 9, 10]])
    assert ids.tolist() == [[5, 6, 0], [7, 0, 0], [8, 9, 10]]
    assert mask.tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("tokens", [1, 64, 500, 100_000])
def test_every_pair_comes_once_an_epoch_and_batches_keep_to_their_size(tokens: int) -> None:
    pairs = _pairs()
    batches = PairBatches(pairs, tokens, seed=3)
    for epoch in range(2):
        seen = []
        for batch in batches.epoch(epoch):
            assert batch.target_ids.size <= tokens or len(batch.target_ids) == 1
            seen += batch.source_ids[:, 0].tolist()
            for row, number in enumerate(batch.source_ids[:, 0]):
                source, target = pairs[number]
                assert batch.source_ids[row, batch.source_mask[row] == 1].tolist() == source
                assert batch.target_ids[row, batch.target_mask[row] == 1].tolist() == target
        assert sorted(seen) == list(range(len(pairs)))
        assert len(list(batches.epoch(epoch))) == len(batches)
    assert sum(batch.num_tokens for batch in batches.epoch(0)) == sum(len(pair.target) - 1 for pair in pairs)
    assert sum(batch.num_tokens for batch in batches.in_order()) == sum(len(pair.target) - 1 for pair in pairs)


def test_order_depends_on_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return [int(row) for batch in PairBatches(_pairs(), 200, seed).epoch(epoch) for row in batch.source_ids[:, 0]]

    assert order(1, 4) == order(1, 4)
    assert order(1, 4) != order(1, 5)
    assert order(1, 4) != order(2, 4)


def test_pairs_meet_others_in_the_next_epoch() -> None:
    batches = PairBatches(_pairs(2000), 200)
    first, second = ({frozenset(b.source_ids[:, 0].tolist()) for b in batches.epoch(epoch)} for epoch in (0, 1))
    assert len(first & second) < len(first) / 2


def test_little_is_padding() -> None:
    batches = list(PairBatches(_pairs(2000), 400).epoch(0))
    real = sum(int(batch.target_mask.sum()) for batch in batches)
    assert real / sum(batch.target_ids.size for batch in batches) > 0.95


def test_nothing_to_batch_is_refused() -> None:
    with pytest.raises(UserError, match="batches of 10 tokens from 0 sentence pairs"):
        PairBatches([], 10)
