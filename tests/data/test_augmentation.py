"""New texts for a teacher: masks, parts of a text, the same for a seed, and the shares that were asked for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data.augmentation import augment, masked, part
from d2lbert.text import MASK, SPECIAL_TOKENS, WordPiece

TEXTS = ["a b c d e f g h", "k l", "m"]


def test_the_same_seed_gives_the_same_texts() -> None:
    assert augment(TEXTS, 5, seed=1) == augment(TEXTS, 5, seed=1)
    assert augment(TEXTS, 5, seed=1) != augment(TEXTS, 5, seed=2)


def test_new_texts_are_new_and_differ_from_each_other() -> None:
    made = augment([*TEXTS, "a b", "", "  "], 50)
    assert made
    assert len(set(made)) == len(made)
    assert not set(made) & {*TEXTS, "a b"}
    assert all(set(text.split()) - {MASK} for text in made)


def test_masks_stand_for_words_of_their_text() -> None:
    for text in augment(TEXTS[:1], 40, mask_rate=0.5, part_rate=0):
        words = text.split()
        assert len(words) == 8
        assert all(new in (MASK, old) for new, old in zip(words, TEXTS[0].split(), strict=True))


def test_parts_are_neighbouring_words() -> None:
    made = augment(TEXTS[:1], 100, mask_rate=0, part_rate=1, longest_part=3)
    assert all(text in TEXTS[0] for text in made)
    assert {len(text.split()) for text in made} == {1, 2, 3}
    assert {text[0] for text in made} == set("abcdefgh")  # every word begins one


def test_the_last_words_are_as_likely_as_the_first() -> None:
    generator = np.random.default_rng(0)
    begins = Counter(part(["a", "b", "c"], 1, generator)[0] for _ in range(3000))
    assert all(abs(begins[word] - 1000) < 120 for word in "abc")


def test_a_short_text_is_a_part_of_itself() -> None:
    assert part(["a", "b"], 9, np.random.default_rng(5)) in (["a"], ["b"], ["a", "b"])
    lengths = Counter(len(part(["a", "b"], 4, np.random.default_rng(seed))) for seed in range(400))
    assert 60 < lengths[1] < 140  # one length of four


def test_rates_are_kept() -> None:
    words = masked(["a"] * 10_000, 0.1, np.random.default_rng(0))
    assert abs(words.count(MASK) - 1000) < 100
    assert masked(["a"] * 100, 0.0, np.random.default_rng(0)) == ["a"] * 100
    assert not augment(TEXTS, 9, mask_rate=0, part_rate=0)
    assert not augment(TEXTS, 9, mask_rate=1)


def test_a_mask_is_the_tokenizers_mask() -> None:
    tokenizer = WordPiece([*SPECIAL_TOKENS, "a", "b"])
    (encoding,) = tokenizer.encode_batch([f"a {MASK} b"])
    assert encoding.tokens == ["[CLS]", "a", "[MASK]", "b", "[SEP]"]


@pytest.mark.parametrize("wrong", [{"mask_rate": 1.5}, {"part_rate": -0.1}, {"longest_part": 0}, {"copies": -1}])
def test_numbers_out_of_range_are_refused(wrong: dict) -> None:
    with pytest.raises(UserError, match="give"):
        augment(TEXTS, **{"copies": 1, **wrong})
