"""The five numbers of ``d2lbert doctor``: each is found again, and each notices a change of its part of the package."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from d2lbert import metrics
from d2lbert.config import BertConfig
from d2lbert.text import WordPiece
from d2lbert.torch.training import reproduction
from d2lbert.torch.training.reproduction import NUMBERS


def off(name: str, root: Path) -> float:
    """By which share of the stored number that of this machine differs."""
    stored: dict[str, Any] = json.loads((root / "results/doctor/numbers.json").read_text())["metrics"][name]
    return abs(NUMBERS[name][0]() / stored["value"] - 1)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_found_again_whatever_was_drawn_before(name: str, root: Path) -> None:
    torch.manual_seed(5)
    torch.rand(3)
    assert off(name, root) <= NUMBERS[name][1]


def test_other_pieces_are_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = reproduction._tokenizer()
    monkeypatch.setattr(reproduction, "_tokenizer", lambda: WordPiece(tokenizer.vocab, lowercase=False))
    assert off("pieces of five texts", root) > 0


@pytest.mark.parametrize("name", ["forward pass of d2lbert-tiny", "loss of masked words", "loss after six steps"])
def test_another_forward_pass_is_noticed(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = BertConfig.from_json.__func__
    changed = classmethod(lambda cls, path: dataclasses.replace(original(cls, path), layer_norm_eps=0.1))
    monkeypatch.setattr(BertConfig, "from_json", changed)
    assert off(name, root) > NUMBERS[name][1]


def test_another_metric_is_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "normalize_answer", str)
    assert off("F1 of three answers", root) > NUMBERS["F1 of three answers"][1]
