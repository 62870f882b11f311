"""Training examples of word vectors: windows, thinning, noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert.data import skipgrams
from d2lbert.data.skipgrams import Windows, keep_probability, noise_distribution, windows
from d2lbert.errors import UserError
from d2lbert.text import Vocabulary


def _slow_windows(ids: list[int], sentences: list[int], radii: list[int], width: int) -> list[list[int]]:
    """The rule, position by position: the left neighbours, then the right, each in the order of the text."""
    rows = []
    for i in range(len(ids)):
        row = []
        for j in [*range(i - width, i), *range(i + 1, i + width + 1)]:
            near = 0 <= j < len(ids) and abs(i - j) <= radii[i] and sentences[i] == sentences[j]
            row.append(ids[j] if near else 0)
        rows.append(row)
    return rows


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.integers(1, 3)), min_size=1, max_size=30),
    st.integers(3, 4),
)
def test_windows_equal_the_plain_loop(positions: list[tuple[int, bool, int]], width: int) -> None:
    ids = [position[0] for position in positions]
    sentences = np.cumsum([position[1] for position in positions]).tolist()
    radii = [position[2] for position in positions]
    result = windows(np.array(ids), np.array(sentences), np.array(radii), width)
    assert result.tolist() == _slow_windows(ids, sentences, radii, width)


def test_noise_probabilities_by_hand() -> None:
    # 16 ** 0.75 = 8, 81 ** 0.75 = 27
    np.testing.assert_allclose(noise_distribution(np.array([0, 16, 81, 1])), np.array([0, 8, 27, 1]) / 36)


def test_thinning_by_hand() -> None:
    # frequencies 0.64, 0.32, 0.04 at threshold 0.16
    kept = keep_probability(np.array([64, 32, 4]), 0.16)
    np.testing.assert_allclose(kept, [0.5, np.sqrt(0.5), 1.0])


@pytest.fixture(scope="module")
def zipf() -> tuple[list[list[str]], Vocabulary]:
    """A text whose word k occurs about 1 / k as often as the first."""
    rng = np.random.default_rng(0)
    probabilities = 1 / np.arange(1, 41)
    drawn = rng.choice(40, size=30_000, p=probabilities / probabilities.sum())
    sentences = [[f"w{word}" for word in row] for row in drawn.reshape(-1, 20)]
    counts = {f"w{word}": int((drawn == word).sum()) for word in range(40)}
    return sentences, Vocabulary(counts)


def test_noise_is_drawn_from_the_distribution(zipf: tuple[list[list[str]], Vocabulary]) -> None:
    from scipy.stats import chisquare

    examples = Windows(*zipf, seed=4)
    drawn = np.bincount(examples.draw_noise(20_000, 5).ravel(), minlength=len(zipf[1]))
    expected = noise_distribution(examples.counts) * 100_000
    assert drawn[:2].sum() == 0  # neither padding nor the unknown word
    assert chisquare(drawn[2:], expected[2:]).pvalue > 0.001
    # The test has the power to tell: plain frequencies are refused.
    unigram = examples.counts[2:] / examples.counts.sum() * 100_000
    assert chisquare(drawn[2:], unigram).pvalue < 1e-9


def test_frequent_words_are_thinned_out(zipf: tuple[list[list[str]], Vocabulary]) -> None:
    examples = Windows(*zipf, window=1, threshold=0.01, seed=2)
    centers = np.concatenate([batch.targets for batch in examples.cbow(4096, epochs=5)])
    seen = np.bincount(centers, minlength=len(zipf[1])) / (5 * np.maximum(examples.counts, 1))
    expected = keep_probability(examples.counts, 0.01)
    assert expected[2] < 0.25
    np.testing.assert_allclose(seen[2:], np.minimum(expected, 1)[2:], atol=0.06)


def test_all_window_sizes_are_drawn_alike() -> None:
    """In one long sentence a neighbour at distance d is seen from a part (W - d + 1) / W of the positions."""
    words = [f"w{index}" for index in range(2000)]
    examples = Windows([words], Vocabulary(dict.fromkeys(words, 1)), window=4, threshold=1.0, seed=0)
    position = {examples.ids[index]: index for index in range(2000)}
    distances = [
        abs(position[center] - position[context])
        for batch in examples.skip_gram(512, epochs=4)
        for center, context in zip(batch.inputs, batch.targets, strict=True)
    ]
    fractions = np.bincount(distances, minlength=6)[1:] / (2 * 4 * 2000)
    np.testing.assert_allclose(fractions, [1.0, 0.75, 0.5, 0.25, 0.0], atol=0.03)


def test_skip_gram_and_cbow_hold_the_same_pairs() -> None:
    sentences = [["a", "b", "c"], ["d"], ["e", "x", "f"]]
    vocabulary = Vocabulary(dict.fromkeys("abcdef", 1))
    examples = Windows(sentences, vocabulary, window=1, threshold=1.0)
    word = vocabulary.word
    pairs = [
        (word(int(center)), word(int(context)))
        for batch in examples.skip_gram(3)
        for center, context in zip(batch.inputs, batch.targets, strict=True)
    ]
    # "x" is no word of the vocabulary: "e" and "f" become neighbours. Sentences stay apart.
    assert sorted(pairs) == [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("e", "f"), ("f", "e")]
    groups = [
        (word(int(target)), [word(int(i)) for i in row if i])
        for batch in examples.cbow(3)
        for row, target in zip(batch.inputs, batch.targets, strict=True)
    ]
    assert sorted(groups) == [("a", ["b"]), ("b", ["a", "c"]), ("c", ["b"]), ("e", ["f"]), ("f", ["e"])]


def test_batches_cover_all_training_in_order(
    zipf: tuple[list[list[str]], Vocabulary], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skipgrams, "_CHUNK", 700)
    examples = Windows(*zipf, window=2, noise=3, threshold=1.0)
    batches = list(examples.skip_gram(500, epochs=2))
    progress = [batch.progress for batch in batches]
    assert progress == sorted(progress)
    assert progress[0] == 0
    assert 0.99 < progress[-1] < 1
    assert progress[len(progress) // 2] == pytest.approx(0.5, abs=0.02)
    assert all(batch.noise.shape == (len(batch.inputs), 3) for batch in batches)
    assert all(len(batch.inputs) <= 500 and (batch.inputs > 1).all() and (batch.targets > 1).all() for batch in batches)


def test_same_seed_same_batches(zipf: tuple[list[list[str]], Vocabulary]) -> None:
    first, second, other = (
        np.concatenate([b.noise for b in Windows(*zipf, seed=seed).cbow(1000)]) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert first.shape != other.shape or not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("sentences", "sizes", "message"),
    [
        ([["a"], ["b"]], {}, "no two neighbouring words"),
        ([], {}, "no two neighbouring words"),
        ([["zz", "yy"]], {}, "no two neighbouring words"),
        ([["a", "b"]], {"window": 0}, "at least 1"),
        ([["a", "b"]], {"noise": 0}, "at least 1"),
    ],
)
def test_unusable_text_or_size(sentences: list[list[str]], sizes: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Windows(sentences, Vocabulary({"a": 1, "b": 1}), **sizes)
