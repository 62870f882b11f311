"""Word vectors learn what stands near what; fastText gives vectors to words never seen."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from d2lbert.data.skipgrams import Batch, Windows
from d2lbert.tasks.similarity import WordVectors
from d2lbert.text import Vocabulary, count_words
from d2lbert.torch.word_vectors import Cbow, FastText, SkipGram, negative_sampling_loss, train

_DRINKS, _CARS = ["tea", "coffee", "milk", "water"], ["truck", "car", "bus", "van"]


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    """Drinks occur with cups, cars with roads; no drink with another, no car with another."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(600):
        drawn.append(["drink", "a", "cup", "of", str(rng.choice(_DRINKS)), "hot", "please"])
        drawn.append(["drive", "the", "road", "with", str(rng.choice(_CARS)), "fast", "again"])
    return drawn


@pytest.fixture(scope="module")
def vocabulary(sentences: list[list[str]]) -> Vocabulary:
    return Vocabulary(count_words(" ".join(words) for words in sentences))


def _trained(kind: str, sentences: list[list[str]], vocabulary: Vocabulary) -> tuple[torch.nn.Module, list[float]]:
    torch.manual_seed(0)
    examples = Windows(sentences, vocabulary, window=3, threshold=1.0, seed=1)
    if kind == "fasttext":
        model: torch.nn.Module = FastText(vocabulary.words, 16, buckets=500)
    else:
        model = Cbow(len(vocabulary), 16) if kind == "cbow" else SkipGram(len(vocabulary), 16)
    batches = examples.cbow(64, epochs=6) if kind == "cbow" else examples.skip_gram(64, epochs=6)
    return model, train(model, batches)


@pytest.mark.parametrize("kind", ["skip_gram", "cbow", "fasttext"])
def test_words_of_equal_company_come_together(kind: str, sentences: list[list[str]], vocabulary: Vocabulary) -> None:
    model, history = _trained(kind, sentences, vocabulary)
    vectors = WordVectors(vocabulary.words, model.vectors().numpy())
    drinks = [vectors.cosine("tea", other) for other in _DRINKS[1:]]
    cars = [vectors.cosine("tea", other) for other in _CARS]
    assert min(drinks) > max(cars) + 0.3
    # Six scores of 0 before training: a loss of 6 log 2.
    assert history[0] == pytest.approx(6 * np.log(2), abs=0.01)
    assert np.mean(history[-20:]) < 0.75 * history[0]


def test_training_repeats_itself(sentences: list[list[str]], vocabulary: Vocabulary) -> None:
    first, second = (_trained("skip_gram", sentences[:100], vocabulary)[0].vectors() for _ in range(2))
    assert torch.equal(first, second)


def test_steps_are_adagrads_with_a_falling_rate() -> None:
    """Each number moves by rate (1 - progress) g / sqrt(sum of all g squared so far), g the gradient of the sum."""
    torch.manual_seed(0)
    model = SkipGram(6, 5)
    with torch.no_grad():
        model.input.weight.normal_()
        model.output.weight.normal_()
    rng = np.random.default_rng(1)
    batches = [Batch(*rng.integers(1, 6, (2, 7)), rng.integers(1, 6, (7, 2)), progress) for progress in (0.0, 0.75)]
    by_hand = copy.deepcopy(model)
    squares = [torch.full_like(table, 1e-20) for table in by_hand.parameters()]
    losses = []
    for batch in batches:
        by_hand.zero_grad()
        loss = by_hand(*(torch.from_numpy(ids) for ids in batch[:3]))
        loss.sum().backward()
        losses.append(loss.mean().item())
        with torch.no_grad():
            for table, total in zip(by_hand.parameters(), squares, strict=True):
                gradient = table.grad.to_dense()
                total += gradient**2
                table -= 0.1 * (1 - batch.progress) * gradient / total.sqrt()
    assert train(model, batches, learning_rate=0.1) == pytest.approx(losses, abs=1e-6)
    for table, expected in zip(model.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(table, expected, atol=1e-6, rtol=1e-5)


def test_a_batch_larger_than_the_vocabulary_stays_finite(sentences: list[list[str]], vocabulary: Vocabulary) -> None:
    torch.manual_seed(0)
    model = Cbow(len(vocabulary), 8)
    history = train(model, Windows(sentences, vocabulary, threshold=1.0).cbow(2048, epochs=3), learning_rate=0.5)
    assert np.isfinite(history).all()
    assert history[-1] < history[0]


def test_loss_does_not_overflow() -> None:
    given = torch.full((1, 4), 30.0)
    losses = negative_sampling_loss(given, -given, given.unsqueeze(1))
    assert losses.item() == pytest.approx(2 * 4 * 900, rel=1e-6)


def test_padding_has_no_part_in_a_window() -> None:
    torch.manual_seed(0)
    model = Cbow(6, 5)
    with torch.no_grad():
        model.input.weight.normal_()
        model.output.weight.normal_()
    target, noise = torch.tensor([4]), torch.tensor([[5]])
    short = model(torch.tensor([[2, 3]]), target, noise)
    long = model(torch.tensor([[0, 2, 0, 3, 0]]), target, noise)
    torch.testing.assert_close(short, long)
    assert not torch.allclose(short, model(torch.tensor([[2, 3, 1]]), target, noise))


def test_misspelt_word_lies_near_the_word(sentences: list[list[str]], vocabulary: Vocabulary) -> None:
    model, _ = _trained("fasttext", sentences, vocabulary)
    assert isinstance(model, FastText)
    vectors = WordVectors(vocabulary.words, model.vectors().numpy())
    assert "coffeee" not in vectors
    nearest = [word for word, _ in vectors.nearest(model.vector("coffeee").numpy(), k=3)]
    assert "coffee" in nearest
    torch.testing.assert_close(model.vector("coffee"), model.vectors()[vocabulary.id("coffee")])


def test_buckets_are_not_words() -> None:
    """With a single bucket all n-grams share one row; two words then differ by their own rows alone."""
    model = FastText(["[PAD]", "[UNK]", "one", "three"], 4, buckets=1)
    with torch.no_grad():
        model.input.weight.copy_(torch.arange(20.0).reshape(5, 4))
    shared = model.input.weight[4]
    torch.testing.assert_close(model.vector("unseen"), shared.detach())
    count = len(model.subwords.ngrams("one"))
    torch.testing.assert_close(model.vector("one"), (model.input.weight[2] + count * shared).detach() / (count + 1))
