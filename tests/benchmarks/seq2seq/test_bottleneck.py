"""The models that are compared are of one size, and the task is what it says."""

from __future__ import annotations

import pytest
import torch

from benchmarks.seq2seq import bottleneck
from d2lbert.outputs import Hypothesis
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.seq2seq import Seq2Seq


def test_all_models_have_about_the_same_number_of_parameters() -> None:
    attentions = {attention for attention, _ in bottleneck.RUNS.values()}
    sizes = [count_parameters(Seq2Seq(bottleneck.same_size(attention))) for attention in attentions]
    assert max(sizes) / min(sizes) < 1.02


def test_a_target_is_its_source_backwards() -> None:
    ids, mask, targets = bottleneck.reversal(20, 2, 5, torch.Generator().manual_seed(0))
    for source, real, target in zip(ids.tolist(), mask.tolist(), targets.tolist(), strict=True):
        length = sum(real)
        assert target[: length + 2] == [bottleneck.BOS, *source[:length][::-1], bottleneck.EOS]
        assert not any(source[length:] + target[length + 2 :])


@pytest.mark.parametrize(("cut", "wanted"), [(0, 1.0), (2, 0.5)])
def test_accuracy_counts_tokens_at_their_place(cut: int, wanted: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(model: object, ids: torch.Tensor, mask: torch.Tensor, max_length: int) -> list[Hypothesis]:
        return [Hypothesis(row[::-1][: 4 - cut]) for row in ids.tolist()]

    monkeypatch.setattr(bottleneck, "greedy_search", written)
    assert bottleneck.accuracy(Seq2Seq(bottleneck.same_size("none")), 4) == wanted
