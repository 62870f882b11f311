"""Pairs for next sentence prediction: half and half, true ones within a document, and nothing but the text tells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ks_2samp

from d2lbert import UserError
from d2lbert.data.pretraining.next_sentence import IS_NEXT, IS_RANDOM, NO_LABEL, Pairs, plan_pairs, plan_texts

ROOM = 60


def _corpus(lengths: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Edges of sentences and documents from the lengths of the sentences of each document."""
    flat = [length for document in lengths for length in document]
    sentences = np.concatenate([[0], np.cumsum(flat)]).astype(np.int64)
    return sentences, np.concatenate([[0], np.cumsum([len(document) for document in lengths])]).astype(np.int64)


def _random_corpus(documents: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    sizes = generator.geometric(0.15, documents)
    return _corpus([(1 + generator.geometric(0.06, size)).tolist() for size in sizes])


@pytest.fixture(scope="module")
def corpus() -> tuple[np.ndarray, np.ndarray]:
    return _random_corpus(6000)


@pytest.fixture(scope="module")
def pairs(corpus: tuple[np.ndarray, np.ndarray]) -> Pairs:
    return plan_pairs(*corpus, ROOM, np.random.default_rng(1))


def _document_of(corpus: tuple[np.ndarray, np.ndarray], token: np.ndarray) -> np.ndarray:
    sentences, documents = corpus
    return np.searchsorted(sentences[documents], token, side="right") - 1


def _check(corpus: tuple[np.ndarray, np.ndarray], pairs: Pairs, room: int) -> None:
    a, b = pairs.a_end - pairs.a_start, pairs.b_end - pairs.b_start
    assert (a > 0).all()
    assert (b > 0).all()
    assert (a + b <= room).all()
    owner_a = _document_of(corpus, pairs.a_start)
    owner_b = _document_of(corpus, pairs.b_start)
    assert (owner_a == _document_of(corpus, pairs.a_end - 1)).all()
    assert (owner_b == _document_of(corpus, pairs.b_end - 1)).all()
    follows = pairs.labels == IS_NEXT
    assert (owner_a[follows] == owner_b[follows]).all()
    assert (pairs.a_end[follows] == pairs.b_start[follows]).all()
    assert (owner_a[~follows] != owner_b[~follows]).all()
    assert set(pairs.labels.tolist()) <= {IS_NEXT, IS_RANDOM}
    # Every A ends and every B begins at the edge of a sentence.
    assert np.isin(pairs.a_end, corpus[0]).all()
    assert np.isin(pairs.b_start, corpus[0]).all()


def test_true_pairs_stay_in_a_document_and_others_leave_it(corpus: tuple[np.ndarray, np.ndarray], pairs: Pairs) -> None:
    _check(corpus, pairs, ROOM)


@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=8), min_size=2, max_size=9),
    st.integers(2, 50),
    st.integers(0, 99),
)
def test_any_corpus(lengths: list[list[int]], room: int, seed: int) -> None:
    corpus = _corpus(lengths)
    if sum(len(document) > 1 for document in lengths) < 2:
        with pytest.raises(UserError, match="two documents of two sentences"):
            plan_pairs(*corpus, room, np.random.default_rng(seed))
    else:
        _check(corpus, plan_pairs(*corpus, room, np.random.default_rng(seed)), room)


def test_half_and_half(pairs: Pairs) -> None:
    assert len(pairs.labels) > 5000
    assert binomtest(int(pairs.labels.sum()), len(pairs.labels), 0.5).pvalue > 1e-4


def test_lengths_do_not_tell_the_label(corpus: tuple[np.ndarray, np.ndarray], pairs: Pairs) -> None:
    """Lengths of A, of B and of both, and whether B is cut, are distributed alike under both labels."""
    follows = pairs.labels == IS_NEXT
    a, b = pairs.a_end - pairs.a_start, pairs.b_end - pairs.b_start
    cut = ~np.isin(pairs.b_end, corpus[0])
    for value in (a, b, a + b, cut.astype(int)):
        assert ks_2samp(value[follows], value[~follows]).pvalue > 1e-3


def test_a_classifier_learns_nothing_from_what_is_not_text(corpus: tuple[np.ndarray, np.ndarray], pairs: Pairs) -> None:
    """The strongest test: trees on every number that an input shows, beside the words, are right half of the time."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import cross_val_score

    a, b = pairs.a_end - pairs.a_start, pairs.b_end - pairs.b_start
    whole = np.isin(pairs.a_start, corpus[0]), np.isin(pairs.b_end, corpus[0])
    features = np.stack([a, b, a + b, a / (a + b), *whole], axis=1)
    accuracy = cross_val_score(HistGradientBoostingClassifier(random_state=0), features, pairs.labels, cv=5).mean()
    assert accuracy < 0.5 + 3 * 0.5 / len(pairs.labels) ** 0.5


def test_sentences_are_used_once_as_long_as_b_is_true(corpus: tuple[np.ndarray, np.ndarray], pairs: Pairs) -> None:
    """The As and the true Bs together cover the text without overlap, but for the last sentences left alone."""
    true = pairs.labels == IS_NEXT
    starts = np.concatenate([pairs.a_start, pairs.b_start[true]])
    ends = np.concatenate([pairs.a_end, pairs.b_end[true]])
    order = np.argsort(starts)
    assert (ends[order][:-1] <= starts[order][1:]).all()
    assert (ends - starts).sum() / corpus[0][-1] > 0.7


def test_short_pairs(corpus: tuple[np.ndarray, np.ndarray]) -> None:
    few, many = (plan_pairs(*corpus, ROOM, np.random.default_rng(2), short_share=fraction) for fraction in (0.0, 1.0))
    means = [(p.a_end - p.a_start + p.b_end - p.b_start).mean() for p in (few, many)]
    assert means[1] < 0.9 * means[0]


def test_cutting_keeps_the_two_texts_in_touch() -> None:
    corpus = _corpus([[30, 50, 40], [50, 30, 44]])
    pairs = plan_pairs(*corpus, 40, np.random.default_rng(3))
    lengths = pairs.a_end - pairs.a_start, pairs.b_end - pairs.b_start
    assert (lengths[0] + lengths[1] == 40).all()
    assert (lengths[0] == 20).all()
    follows = pairs.labels == IS_NEXT
    assert (pairs.a_end[follows] == pairs.b_start[follows]).all()


def test_a_document_that_is_nearly_everything() -> None:
    """Pairs of the large document find their wrong Bs in the small ones, fast."""
    corpus = _corpus([[10] * 3, [10] * 60_000, [11] * 3])
    _check(corpus, plan_pairs(*corpus, ROOM, np.random.default_rng(4)), ROOM)


def test_single_texts_cover_everything_once() -> None:
    corpus = _random_corpus(300, seed=5)
    texts = plan_texts(*corpus, ROOM)
    assert (texts.labels == NO_LABEL).all()
    assert (texts.b_start == texts.b_end).all()
    lengths = texts.a_end - texts.a_start
    assert lengths.max() <= ROOM
    assert (_document_of(corpus, texts.a_start) == _document_of(corpus, texts.a_end - 1)).all()
    longest = np.diff(corpus[0])
    assert lengths.sum() == corpus[0][-1] - np.maximum(longest - ROOM, 0).sum()
