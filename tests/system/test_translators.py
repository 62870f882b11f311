"""The two small translators of the book: small, described, and they translate without training or network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from d2lbert import data, get_model, metrics
from d2lbert.data.translation import encode_source
from d2lbert.torch.generation import beam_search
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.translation import translate
from d2lbert.zoo import locate

NAMES = ("transformer-en-de", "seq2seq-en-de")
SIMPLE = {"A man is sleeping.": "Mann", "Two dogs are running in the snow.": "Hunde"}


def _stored(root: Path) -> dict[str, Any]:
    return json.loads((root / "results" / "translation" / "small.json").read_text())


def test_together_they_are_small(root: Path) -> None:
    sizes = {name: sum(path.stat().st_size for path in locate(name).iterdir()) for name in NAMES}
    assert sum(sizes.values()) < 5e6


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_what_was_measured(name: str, root: Path) -> None:
    card, found = " ".join((locate(name) / "README.md").read_text().split()), _stored(root)
    score, error = found["metrics"][name]["test"]["score"], found["standard_errors"]["test"][name]
    assert f"BLEU {score:.1f}, standard error {error:.1f}" in card
    assert found["metrics"][name]["test"]["signature"] in card
    for part in ("**Data**", "**Limits**", "**Licence**", "**Training**", f'get_model("{name}")'):
        assert part in card


@pytest.mark.parametrize("name", NAMES)
def test_it_translates(name: str, no_data: None) -> None:
    model, tokenizer = get_model(name)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    for text, found in zip(SIMPLE, translate(model, tokenizer, list(SIMPLE)), strict=True):
        assert SIMPLE[text] in found, found


def test_attention_and_beams_are_there(no_data: None) -> None:
    model, tokenizer = get_model("seq2seq-en-de")
    assert isinstance(model, Seq2Seq)
    source = torch.tensor([encode_source("A man is sleeping.", tokenizer)])
    best = beam_search(model, source, torch.ones_like(source), 4, 0.6, 30)[0]
    output = model(source, torch.tensor([[model.config.bos_token_id, *best.ids]]))
    assert output.attentions is not None
    assert output.attentions.shape == (1, 1 + len(best.ids), source.shape[1])
    torch.testing.assert_close(output.attentions.sum(-1), torch.ones(1, 1 + len(best.ids)))


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_translations_again(name: str, real_data: Path, root: Path) -> None:
    """Of the first dev sentences; the device may turn a word."""
    model, tokenizer = get_model(name)
    shown = _stored(root)["examples"]
    dev = data.load("multi30k", "dev")[: len(shown)]
    found = translate(model, tokenizer, [example.source for example in dev])
    assert metrics.bleu(found, [example[name] for example in shown]).score > 90
