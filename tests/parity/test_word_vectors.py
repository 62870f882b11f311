"""Word vectors against gensim, against formulas worked out by hand, and the two editions against each other."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from d2lbert.data.skipgrams import Batch, Windows, noise_distribution
from d2lbert.text import Vocabulary
from d2lbert.text.subwords import SubwordTable, character_ngrams, fnv1a
from d2lbert.torch import word_vectors as ours

WORDS = ["[PAD]", "[UNK]", "river", "bank", "money", "a", "flows", "Zürich", "the", "to"]
SIZE, BUCKETS = 7, 23
B, C, N = 5, 6, 3


def _batch(cbow: bool) -> Batch:
    rng = np.random.default_rng(3)
    shape = (B, C) if cbow else (B,)
    inputs = rng.integers(2, len(WORDS), shape)
    if cbow:
        inputs[0, 3:] = 0
        inputs[2, :2] = 0
    # The same word twice among the noise, and as target and noise at once: their gradients must add up.
    targets, noise = rng.integers(2, len(WORDS), B), rng.integers(2, len(WORDS), (B, N))
    noise[1] = targets[1]
    return Batch(inputs, targets, noise, 0.25)


def _model(edition: Any, kind: str) -> Any:
    if kind == "FastText":
        return edition.FastText(WORDS, SIZE, BUCKETS)
    return getattr(edition, kind)(len(WORDS), SIZE)


def _randomize(model: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)


def _loss_and_gradients(model: torch.nn.Module, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    losses = model(*(torch.from_numpy(ids) for ids in batch[:3]))
    losses.sum().backward()
    gradients = [table.weight.grad.to_dense().numpy() for table in (model.input, model.output)]
    return losses.detach().numpy(), gradients[0], gradients[1]


def _by_hand(model: torch.nn.Module, groups: list[list[int]], batch: Batch) -> tuple[np.ndarray, ...]:
    """Loss and gradients from the formulas: dL/dv = (s(u_o v) - 1) u_o + sum_k s(u_k v) u_k, and so on."""
    v_table = model.input.weight.detach().numpy().astype(np.float64)
    u_table = model.output.weight.detach().numpy().astype(np.float64)
    losses = np.zeros(B)
    v_gradient, u_gradient = np.zeros_like(v_table), np.zeros_like(u_table)
    for i in range(B):
        v = v_table[groups[i]].mean(axis=0)
        given_gradient = np.zeros(SIZE)
        for word, truth in [(batch.targets[i], 1), *((word, 0) for word in batch.noise[i])]:
            probability = 1 / (1 + np.exp(-u_table[word] @ v))
            losses[i] -= np.log(probability if truth else 1 - probability)
            given_gradient += (probability - truth) * u_table[word]
            u_gradient[word] += (probability - truth) * v
        for row in groups[i]:
            v_gradient[row] += given_gradient / len(groups[i])
    return losses, v_gradient, u_gradient


def _groups(kind: str, inputs: np.ndarray) -> list[list[int]]:
    if kind == "SkipGram":
        return [[int(word)] for word in inputs]
    if kind == "Cbow":
        return [[int(word) for word in row if word] for row in inputs]
    table = SubwordTable(WORDS, BUCKETS)
    return [table.row(WORDS[word]) for word in inputs]


@pytest.mark.parametrize("kind", ["SkipGram", "Cbow", "FastText"])
def test_loss_and_gradients_equal_the_formulas(kind: str) -> None:
    model = _model(ours, kind)
    _randomize(model)
    batch = _batch(kind == "Cbow")
    expected = _by_hand(model, _groups(kind, batch.inputs), batch)
    for got, wanted in zip(_loss_and_gradients(model, batch), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-6)
        assert np.abs(wanted).max() > 1e-3


def test_one_sentence_equals_gensims_updates() -> None:
    """Two words, each the other's window, one noise word: gensim's compiled skip-gram and two steps of ours."""
    word2vec = pytest.importorskip("gensim.models.word2vec", reason="gensim is not installed")
    words = ["river", "bank", "money"]
    reference = word2vec.Word2Vec(vector_size=SIZE, window=1, min_count=1, sg=1, negative=1, sample=0)
    reference.build_vocab([words])
    rng = np.random.default_rng(0)
    given, output = rng.normal(0, 0.5, (2, 3, SIZE)).astype(np.float32)
    reference.wv.vectors[:], reference.syn1neg[:] = given, output
    ids = reference.wv.key_to_index
    # A random number below the last entry finds its place in this table: now every draw is "money".
    reference.cum_table[: ids["money"]], reference.cum_table[ids["money"] :] = 0, 2**31 - 1
    reference.train([["river", "bank"]], total_examples=1, epochs=1, start_alpha=0.5, end_alpha=0.5)

    model = ours.SkipGram(3, SIZE)
    with torch.no_grad():
        model.input.weight.copy_(torch.from_numpy(given))
        model.output.weight.copy_(torch.from_numpy(output))
    # gensim takes the word of the window as the given one and the centre as the one to tell.
    for first, second in (("bank", "river"), ("river", "bank")):
        model.zero_grad()
        words_in_order = ([ids[first]], [ids[second]], [[ids["money"]]])
        model(*map(torch.tensor, words_in_order)).sum().backward()
        with torch.no_grad():
            for table in model.parameters():
                table -= 0.5 * table.grad.to_dense()
    # gensim reads the logistic function from a table with steps of 0.012: 0.003 in each of its values.
    np.testing.assert_allclose(model.input.weight.detach().numpy(), reference.wv.vectors, atol=5e-3)
    np.testing.assert_allclose(model.output.weight.detach().numpy(), reference.syn1neg, atol=5e-3)
    assert np.abs(reference.wv.vectors - given).max() > 0.1
    assert np.abs(reference.syn1neg - output).max() > 0.1


def test_noise_distribution_equals_gensims() -> None:
    word2vec = pytest.importorskip("gensim.models.word2vec", reason="gensim is not installed")
    counts = {"the": 900, "bank": 31, "river": 30, "money": 7, "odd": 1}
    reference = word2vec.Word2Vec(vector_size=2, min_count=1, negative=5)
    reference.build_vocab_from_freq(counts)
    table = np.diff(reference.cum_table.astype(np.float64), prepend=0) / reference.cum_table[-1]
    expected = [table[reference.wv.key_to_index[word]] for word in counts]
    np.testing.assert_allclose(noise_distribution(np.array(list(counts.values()))), expected, atol=1e-8)


@pytest.mark.parametrize("word", ["where", "as", "a", "Zürich", "naïveté", "日本語", "👍🏽ok", "incomprehensibility"])
def test_ngrams_and_hashes_equal_gensims(word: str) -> None:
    fasttext = pytest.importorskip("gensim.models.fasttext_inner", reason="gensim is not installed")
    expected = fasttext.compute_ngrams(word, 3, 6)
    assert sorted(character_ngrams(word)) == sorted(expected)
    assert [fnv1a(ngram) for ngram in expected] == [fasttext.ft_hash_bytes(n.encode("utf-8")) for n in expected]


def test_fasttext_vectors_equal_gensims() -> None:
    """The same numbers in both tables give the same vectors, for words in and out of the vocabulary."""
    fasttext = pytest.importorskip("gensim.models.fasttext", reason="gensim is not installed")
    reference = fasttext.FastText(vector_size=SIZE, min_count=1, bucket=BUCKETS, min_n=3, max_n=6)
    reference.build_vocab([WORDS])
    model = _model(ours, "FastText")
    _randomize(model)
    table = model.input.weight.detach().numpy()
    order = [WORDS.index(word) for word in reference.wv.index_to_key]
    reference.wv.vectors_vocab[:] = table[order]
    reference.wv.vectors_ngrams[:] = table[len(WORDS) :]
    reference.wv.adjust_vectors()
    vectors = model.vectors().numpy()
    for word in [*WORDS[2:], "rivers", "Zürcher", "x"]:
        np.testing.assert_allclose(model.vector(word).numpy(), reference.wv[word], atol=1e-6)
        if word in WORDS:
            np.testing.assert_allclose(vectors[WORDS.index(word)], reference.wv[word], atol=1e-6)


@pytest.fixture(scope="module")
def twin() -> ModuleType:
    """The MXNet edition."""
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    from d2lbert.mxnet import word_vectors

    return word_vectors


def _move_weights(model: torch.nn.Module, twin_model: Any) -> None:
    from mxnet import nd

    for name in ("input", "output"):
        weight = getattr(model, name).weight.detach().numpy()
        getattr(twin_model, name).weight.set_data(nd.array(weight))


@pytest.mark.parametrize("kind", ["SkipGram", "Cbow", "FastText"])
def test_editions_agree_on_losses_and_gradients(twin: ModuleType, kind: str) -> None:
    from mxnet import autograd

    model, other = _model(ours, kind), _model(twin, kind)
    _randomize(model)
    _move_weights(model, other)
    batch = _batch(kind == "Cbow")
    expected = _loss_and_gradients(model, batch)
    with autograd.record():
        losses = other(*batch[:3])
    losses.backward()
    gradients = [table.weight.grad().tostype("default").asnumpy() for table in (other.input, other.output)]
    for got, wanted in zip((losses.asnumpy(), *gradients), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)
    np.testing.assert_allclose(other.vectors().asnumpy(), model.vectors().numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", ["SkipGram", "Cbow", "FastText"])
def test_editions_train_alike(twin: ModuleType, kind: str) -> None:
    """From equal weights, on equal batches, both end with equal weights and equal losses."""
    sentences = [["river", "flows", "to", "the", "bank"], ["the", "bank", "a", "money", "Zürich"]] * 4
    vocabulary = Vocabulary({word: 9 - place for place, word in enumerate(WORDS[2:])})
    model, other = _model(ours, kind), _model(twin, kind)
    _randomize(model)
    _move_weights(model, other)
    histories = []
    for edition, learner in ((ours, model), (twin, other)):
        examples = Windows(sentences, vocabulary, window=2, noise=N, threshold=1.0, seed=5)
        batches = examples.cbow(8, epochs=3) if kind == "Cbow" else examples.skip_gram(8, epochs=3)
        histories.append(edition.train(learner, batches, learning_rate=0.1))
    np.testing.assert_allclose(histories[0], histories[1], atol=1e-5)
    # AdaGrad's first step is g / |g|: where g is almost 0 it makes a rounding error of the gradient larger.
    for name in ("input", "output"):
        ends = getattr(model, name).weight.detach().numpy(), getattr(other, name).weight.data().asnumpy()
        np.testing.assert_allclose(*ends, atol=1e-4)


def test_unknown_word_has_the_same_vector_in_both(twin: ModuleType) -> None:
    model, other = _model(ours, "FastText"), _model(twin, "FastText")
    _randomize(model)
    _move_weights(model, other)
    np.testing.assert_allclose(other.vector("riverbank").asnumpy(), model.vector("riverbank").numpy(), atol=1e-6)
    assert np.abs(other.vector("").asnumpy()).max() == 0 == np.abs(model.vector("").numpy()).max()


def test_twin_starts_as_ours_does(twin: ModuleType) -> None:
    for kind in ("SkipGram", "Cbow", "FastText"):
        given, output = (getattr(_model(twin, kind), name).weight.data().asnumpy() for name in ("input", "output"))
        assert (given[0] == 0).all()
        assert (output == 0).all()
        assert 0 < np.abs(given[1:]).max() <= 0.5 / SIZE
