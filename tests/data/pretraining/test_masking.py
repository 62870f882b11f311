"""Masking: 15 % chosen, of these 80 / 10 / 10, special tokens never touched nor put in, whole words together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from d2lbert import UserError
from d2lbert.data.pretraining.masking import Masking, MaskingRates
from d2lbert.text import SPECIAL_TOKENS, WordPiece

WORDS = [f"w{number}" for number in range(30)] + [f"##s{number}" for number in range(15)]
# The special tokens stand in the middle, so that no range of ids describes them.
TOKENIZER = WordPiece([*WORDS[:20], *SPECIAL_TOKENS, *WORDS[20:]])
SPECIAL = [TOKENIZER.token_to_id[token] for token in SPECIAL_TOKENS]
MASK_ID = TOKENIZER.token_to_id["[MASK]"]
NOT_BY_CHANCE = 1e-4  # below this probability a test fails; the seeds are fixed, so it fails always or never


def _ids(count: int, seed: int = 0) -> np.ndarray:
    """Random ids, a tenth of them special tokens."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(len(TOKENIZER.vocab), size=count)
    special = generator.random(count) < 0.1
    ids[special] = generator.choice(SPECIAL, int(special.sum()))
    return ids


def test_fractions_are_15_and_80_10_10() -> None:
    ids = _ids(200_000)
    masked = Masking(TOKENIZER)(ids, np.random.default_rng(1))
    ordinary = int((~np.isin(ids, SPECIAL)).sum())
    count = len(masked.positions)
    assert chisquare([count, ordinary - count], np.array([0.15, 0.85]) * ordinary).pvalue > NOT_BY_CHANCE
    new = masked.ids[masked.positions]
    hidden = int((new == MASK_ID).sum())
    unchanged = int((new == masked.targets).sum())
    replaced = count - hidden - unchanged
    chance = 1 / len(WORDS)  # a replacement may be the token itself
    expected = np.array([0.8, 0.1 * (1 - chance), 0.1 + 0.1 * chance]) * count
    assert chisquare([hidden, replaced, unchanged], expected).pvalue > NOT_BY_CHANCE


def test_replacements_are_drawn_evenly_from_ordinary_pieces() -> None:
    rates = MaskingRates(chosen=1.0, masked=0.0, replaced=1.0)
    masked = Masking(TOKENIZER, rates)(np.zeros(90_000, dtype=np.int64), np.random.default_rng(2))
    counts = np.bincount(masked.ids, minlength=len(TOKENIZER.vocab))
    assert counts[SPECIAL].sum() == 0
    assert chisquare(np.delete(counts, SPECIAL)).pvalue > NOT_BY_CHANCE


@pytest.mark.parametrize("whole_words", [False, True])
def test_special_tokens_are_never_chosen_and_the_rest_is_untouched(whole_words: bool) -> None:
    ids = _ids(20_000)
    before = ids.copy()
    masked = Masking(TOKENIZER, MaskingRates(chosen=0.9, whole_words=whole_words))(ids, np.random.default_rng(3))
    assert (ids == before).all()
    assert (masked.targets == ids[masked.positions]).all()
    assert not np.isin(masked.targets, SPECIAL).any()
    rest = np.delete(np.arange(len(ids)), masked.positions)
    assert (masked.ids[rest] == ids[rest]).all()
    assert (np.diff(masked.positions) > 0).all()


def test_whole_words_are_chosen_together() -> None:
    ids = np.array(
        [TOKENIZER.token_to_id[piece] for piece in ["[CLS]", "w1", "##s1", "##s2", "w2", "w3", "##s4", "[SEP]"]]
    )
    words = [{1, 2, 3}, {4}, {5, 6}]
    masking = Masking(TOKENIZER, MaskingRates(chosen=0.5, whole_words=True))
    seen = set()
    for seed in range(60):
        positions = set(masking(ids, np.random.default_rng(seed)).positions.tolist())
        for word in words:
            assert word <= positions or not word & positions
        seen.add(frozenset(positions))
    assert len(seen) == 8  # every combination of the three words


def test_whole_word_share_is_15_percent() -> None:
    ids = _ids(200_000, seed=4)
    masked = Masking(TOKENIZER, MaskingRates(whole_words=True))(ids, np.random.default_rng(5))
    assert len(masked.positions) / (~np.isin(ids, SPECIAL)).sum() == pytest.approx(0.15, rel=0.03)


def test_the_same_generator_gives_the_same_masks() -> None:
    runs = [Masking(TOKENIZER)(_ids(500), np.random.default_rng(seed)).ids.tolist() for seed in (6, 6, 7)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_nothing_to_mask_is_no_error() -> None:
    for ids in (np.zeros(0, dtype=np.int64), np.array(SPECIAL)):
        for whole_words in (False, True):
            masked = Masking(TOKENIZER, MaskingRates(whole_words=whole_words))(ids, np.random.default_rng(0))
            assert masked.ids.tolist() == ids.tolist()
            assert len(masked.positions) == len(masked.targets) == 0


@pytest.mark.parametrize(
    "change", [{"chosen": 1.5}, {"masked": -0.1}, {"replaced": 2.0}, {"masked": 0.9, "replaced": 0.2}]
)
def test_rates_that_cannot_be(change: dict[str, float]) -> None:
    with pytest.raises(UserError, match="masking: "):
        MaskingRates(**change)


def test_a_vocabulary_of_special_tokens_alone() -> None:
    with pytest.raises(UserError, match="special tokens only"):
        Masking(WordPiece(list(SPECIAL_TOKENS)))
