"""Searches against all outputs there are, samples against a distribution by hand, a cache that changes nothing."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from random_parameters import randomize
from torch import Tensor

from d2lbert import UserError
from d2lbert.config import TransformerConfig
from d2lbert.torch.generation import (
    Hypothesis,
    Sampling,
    beam_search,
    greedy_search,
    length_penalty,
    next_token_distribution,
    sample,
)
from d2lbert.torch.transformer import Transformer

VOCABULARY, LONGEST, EOS = 5, 4, 2


def _model(seed: int, **changes: Any) -> Transformer:
    """A small Transformer whose outputs are far from uniform."""
    sizes = {
        "source_vocab_size": VOCABULARY,
        "target_vocab_size": VOCABULARY,
        "hidden_size": 12,
        "num_encoder_layers": 1,
        "num_decoder_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "max_position_embeddings": 12,
    }
    model = Transformer(TransformerConfig(**{**sizes, **changes})).eval()
    randomize(model, seed, standard_deviation=0.6)
    return model


def _sources() -> tuple[Tensor, Tensor]:
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
    return torch.randint(3, VOCABULARY, (3, 5), generator=torch.Generator().manual_seed(0)) * mask, mask


@torch.no_grad()
def _best_of_all(model: Transformer, source: Tensor, mask: Tensor, alpha: float) -> Hypothesis:
    """Score every possible output by running the whole model on it."""
    words = [token for token in range(VOCABULARY) if token != EOS]
    best = Hypothesis()
    for length in range(LONGEST):
        outputs = list(itertools.product(words, repeat=length))
        targets = torch.tensor([[1, *ids, EOS] for ids in outputs])
        everywhere = source.expand(len(outputs), -1), targets[:, :-1], mask.expand(len(outputs), -1)
        steps = model(*everywhere).logits.log_softmax(-1)
        totals = steps.gather(2, targets[:, 1:, None]).sum((1, 2)) / length_penalty(length + 1, alpha)
        if float(totals.max()) > best.score:
            best = Hypothesis(list(outputs[int(totals.argmax())]), float(totals.max()), True)
    return best


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_beam_search_with_beams_enough_finds_the_best_output_of_all(alpha: float, seed: int) -> None:
    model, (sources, mask) = _model(seed), _sources()
    found = beam_search(model, sources, mask, beam_size=VOCABULARY**LONGEST, alpha=alpha, max_length=LONGEST)
    for row, hypothesis in enumerate(found):
        expected = _best_of_all(model, sources[row : row + 1], mask[row : row + 1], alpha)
        assert hypothesis.ids == expected.ids
        assert hypothesis.score == pytest.approx(expected.score, abs=1e-5)
        assert hypothesis.ended


def test_length_penalty_changes_the_answer_somewhere() -> None:
    """Otherwise the test above would not see a missing penalty."""
    lengths = {}
    for alpha in (0.0, 2.0):
        answers = [_best_of_all(_model(seed), *(x[:1] for x in _sources()), alpha) for seed in range(3)]
        lengths[alpha] = [len(answer.ids) for answer in answers]
    assert lengths[0.0] != lengths[2.0]
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1.0) == pytest.approx(2.0)


@pytest.mark.parametrize("seed", range(6))
def test_one_beam_is_greedy_search(seed: int) -> None:
    model, (sources, mask) = _model(seed), _sources()
    greedy = greedy_search(model, sources, mask, max_length=9)
    beams = beam_search(model, sources, mask, beam_size=1, alpha=0.0, max_length=9)
    for one, two in zip(greedy, beams, strict=True):
        assert (one.ids, one.ended) == (two.ids, two.ended)
        assert one.score == pytest.approx(two.score, abs=1e-4)


class _Scripted:
    """A model that knows one table: the probabilities of the next token after each last one."""

    config = SimpleNamespace(bos_token_id=0, eos_token_id=1)

    def __init__(self, table: list[list[float]]) -> None:
        self.table = torch.tensor(table).log()

    def start(self, source_ids: Tensor, source_mask: Tensor | None) -> Any:
        state = SimpleNamespace(last=source_ids[:, 0])
        state.select = lambda rows: setattr(state, "last", state.last[rows])
        return state

    def step(self, token_ids: Tensor, state: Any) -> Tensor:
        return self.table[token_ids]


def test_in_16_bits_the_most_probable_token_is_taken() -> None:
    """Of 2,000 tokens each is improbable, and bfloat16 writes the log probabilities of the best two alike."""
    model, source = _Scripted([[1.0]]), torch.zeros(1, 1, dtype=torch.long)
    model.table = torch.zeros(2000, 2000, dtype=torch.bfloat16)
    model.table[:, 5], model.table[:, 9] = 1.0, 1.0078125
    exact = float(model.table[0].double().log_softmax(0)[9])
    for found in (
        greedy_search(model, source, max_length=1),
        beam_search(model, source, beam_size=1, alpha=0, max_length=1),
        sample(model, source, max_length=1, sampling=Sampling(temperature=0)),
    ):
        assert found[0].ids == [9]
        assert found[0].score == pytest.approx(exact, abs=1e-5)


def test_only_the_best_beginnings_may_end() -> None:
    """To end at once is second best here, so one beam goes on, though what it finds is less probable in all."""
    model = _Scripted([[0, 0.4, 0.6], [0, 1, 0], [0, 0.5, 0.5]])
    one, two = (beam_search(model, torch.zeros(1, 1, dtype=torch.long), None, beams, 0.0)[0] for beams in (1, 2))
    assert (one.ids, one.score) == ([2], pytest.approx(math.log(0.3)))
    assert (two.ids, two.score) == ([], pytest.approx(math.log(0.4)))


def test_what_goes_on_may_overtake_what_has_ended() -> None:
    """To end at once is most probable, but the penalty of the longer output makes it the better one."""
    model = _Scripted([[0.1, 0.5, 0.4], [0, 1, 0], [0, 1, 0]])
    found = beam_search(model, torch.zeros(1, 1, dtype=torch.long), None, beam_size=1, alpha=2.0, max_length=2)[0]
    assert math.log(0.4) < math.log(0.5) < math.log(0.4) / length_penalty(2, 2.0)
    assert (found.ids, found.score) == ([2], pytest.approx(math.log(0.4) / length_penalty(2, 2.0)))


def test_what_has_ended_waits_unchanged_for_the_others() -> None:
    model = _Scripted([[0.1, 0.6, 0.3], [0.2, 0, 0.8], [0, 0.1, 0.9]])
    ended, going_on = greedy_search(model, torch.tensor([[0], [2]]), None, max_length=3)
    assert (ended.ids, ended.score, ended.ended) == ([], pytest.approx(math.log(0.6)), True)
    assert (going_on.ids, going_on.score, going_on.ended) == ([2, 2, 2], pytest.approx(3 * math.log(0.9)), False)


def test_both_kinds_of_end_occur_in_greedy_search() -> None:
    found = [h for seed in range(6) for h in greedy_search(_model(seed), *_sources(), max_length=9)]
    assert {hypothesis.ended for hypothesis in found} == {False, True}
    assert all(len(h.ids) == 9 for h in found if not h.ended)
    assert all(EOS not in h.ids for h in found)


@pytest.mark.parametrize("beam_size", [2, 3])
def test_a_batch_gives_what_each_source_gives_alone(beam_size: int) -> None:
    for seed in range(4):
        model, (sources, mask) = _model(seed), _sources()
        together = beam_search(model, sources, mask, beam_size, max_length=8)
        for row, hypothesis in enumerate(together):
            length = int(mask[row].sum())
            alone = beam_search(model, sources[row : row + 1, :length], None, beam_size, max_length=8)[0]
            assert alone.ids == hypothesis.ids
            assert alone.score == pytest.approx(hypothesis.score, abs=1e-5)


def test_more_beams_never_lower_a_score_of_the_exhaustive_one() -> None:
    for seed in range(3):
        model, (sources, mask) = _model(seed), _sources()
        best = beam_search(model, sources, mask, VOCABULARY**LONGEST, max_length=LONGEST)
        for beam_size in (1, 2, 3):
            for one, two in zip(beam_search(model, sources, mask, beam_size, max_length=LONGEST), best, strict=True):
                assert one.score <= two.score + 1e-5 or not one.ended


def test_without_an_end_the_best_beginning_is_given() -> None:
    model = _model(0, tie_word_embeddings=False)
    step = model.step
    model.step = lambda *arguments: step(*arguments).index_fill(1, torch.tensor([EOS]), -math.inf)  # type: ignore
    found = beam_search(model, *_sources(), beam_size=VOCABULARY**3, alpha=0.6, max_length=3)
    assert all(len(hypothesis.ids) == 3 and not hypothesis.ended for hypothesis in found)
    greedy = greedy_search(model, *_sources(), max_length=3)
    for one, two in zip(found, greedy, strict=True):
        assert one.score * length_penalty(3, 0.6) >= two.score - 1e-5


def test_outliers_are_refused() -> None:
    for wrong in ({"beam_size": 0}, {"max_length": 0}, {"alpha": -0.1}):
        with pytest.raises(UserError, match="give at least 1, 1 and 0"):
            beam_search(_model(0), *_sources(), **wrong)


@pytest.mark.parametrize("norm_first", [False, True])
def test_steps_with_a_cache_equal_the_whole_target_at_once(norm_first: bool) -> None:
    model, (sources, mask) = _model(1, norm_first=norm_first), _sources()
    targets = torch.randint(0, VOCABULARY, (3, 7))
    with torch.no_grad():
        whole = model(sources, targets, mask).logits
        state = model.start(sources, mask)
        for position in range(7):
            assert (model.step(targets[:, position], state) - whole[:, position]).abs().max() < 1e-5
        state = model.start(sources, mask)
        model.step(targets[:, 0], state)
        rows = torch.tensor([2, 0, 0])
        state.select(rows)
        assert (model.step(targets[rows, 1], state) - whole[rows, 1]).abs().max() < 1e-5


PROBABILITIES = torch.tensor([[0.1, 0.4, 0.2, 0.3]])
SCORES = PROBABILITIES.log() + 7  # a constant changes nothing


def _kept_probabilities(**settings: Any) -> Tensor:
    return next_token_distribution(SCORES, Sampling(**settings))[0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.1, 0.4, 0.2, 0.3]),
        ({"temperature": 0.0}, [0, 1, 0, 0]),
        ({"temperature": 0.5}, [1 / 30, 16 / 30, 4 / 30, 9 / 30]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_k": 9}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_p": 0.3}, [0, 1, 0, 0]),
        ({"top_p": 0.6}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.75}, [0, 4 / 9, 2 / 9, 3 / 9]),
        ({"top_p": 1e-9}, [0, 1, 0, 0]),
        # After top-k the two that stay have 4/7 and 3/7: half is reached by the first alone.
        ({"top_k": 2, "top_p": 0.5}, [0, 1, 0, 0]),
        # At temperature 1/2 the best two have 25/30.
        ({"temperature": 0.5, "top_p": 0.8}, [0, 16 / 25, 0, 9 / 25]),
    ],
)
def test_distribution_by_hand(settings: dict[str, float], expected: list[float]) -> None:
    assert torch.allclose(_kept_probabilities(**settings), torch.tensor(expected, dtype=torch.float32), atol=1e-6)


@pytest.mark.parametrize(("count", "kept"), [(2, 1), (4, 2)])
def test_top_p_stops_where_it_is_reached_exactly(count: int, kept: int) -> None:
    found = next_token_distribution(torch.zeros(1, count), Sampling(top_p=0.5))  # each has exactly 1 / count
    assert found.tolist() == [[1 / kept] * kept + [0.0] * (count - kept)]


def test_equals_the_filters_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    scores = torch.randn(5, 60, generator=torch.Generator().manual_seed(3)) * 2
    warpers = transformers.LogitsProcessorList(
        [
            transformers.TemperatureLogitsWarper(0.7),
            transformers.TopKLogitsWarper(20),
            transformers.TopPLogitsWarper(0.8),
        ]
    )
    expected = warpers(torch.zeros(5, 1, dtype=torch.long), scores).softmax(dim=-1)
    found = next_token_distribution(scores, Sampling(temperature=0.7, top_k=20, top_p=0.8))
    assert torch.allclose(found, expected, atol=1e-6)
    assert 1 < int((found > 0).sum(dim=-1).min()) < 20


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1.0}, {"temperature": math.inf}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.1}]
)
def test_settings_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"sampling: {next(iter(wrong))} is"):
        Sampling(**wrong)  # type: ignore[arg-type]


class _Constant:
    """A model that gives the same probabilities at every step."""

    config = type("Config", (), {"eos_token_id": 0})

    def start(self, source_ids: Tensor, source_mask: Tensor | None = None) -> Any:
        return type("State", (), {"last": source_ids[:, 0]})

    def step(self, token_ids: Tensor, state: Any) -> Tensor:
        return SCORES.expand(len(token_ids), -1)


def test_draws_have_the_shares_of_the_distribution() -> None:
    found = sample(_Constant(), torch.zeros(4000, 1, dtype=torch.long), max_length=1, sampling=Sampling(seed=4))
    drawn = torch.tensor([hypothesis.ids[0] if hypothesis.ids else 0 for hypothesis in found])
    shares = torch.bincount(drawn, minlength=4) / len(drawn)
    # Four standard errors of a share of 0.4 are 0.031.
    assert (shares - PROBABILITIES[0]).abs().max() < 0.031
    ended = [hypothesis for hypothesis in found if hypothesis.ended]
    assert len(ended) == int((drawn == 0).sum())
    assert ended[0].score == pytest.approx(math.log(0.1), abs=1e-5)


def _untrained() -> tuple[Transformer, Tensor]:
    torch.manual_seed(0)
    config = TransformerConfig(
        source_vocab_size=30,
        target_vocab_size=30,
        hidden_size=16,
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=20,
    )
    return Transformer(config).eval(), torch.randint(3, 30, (3, 5))


def test_a_translator_can_be_sampled_and_a_seed_repeats() -> None:
    model, sources = _untrained()
    runs = [
        [hypothesis.ids for hypothesis in sample(model, sources, max_length=8, sampling=Sampling(seed=seed))]
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_temperature_zero_is_greedy_search() -> None:
    model, sources = _untrained()
    drawn = sample(model, sources, max_length=8, sampling=Sampling(temperature=0.0))
    assert [h.ids for h in drawn] == [h.ids for h in greedy_search(model, sources, max_length=8)]
