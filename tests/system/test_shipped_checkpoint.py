"""The BERT that comes with the book: small, read alike by both editions and by transformers, and it knows something."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from d2lbert import get_model
from d2lbert.text import WordPiece
from d2lbert.torch.masked_words import fill_masks
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.zoo import locate

NAME = "d2lbert-tiny"
TEXT = "the [MASK] flows into the sea ."


def test_it_is_small_and_tells_its_licence() -> None:
    folder = locate(NAME)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 8e6
    assert "CC BY-SA 4.0" in (folder / "README.md").read_text()


def test_its_card_says_what_was_measured(root: Path) -> None:
    card = " ".join((locate(NAME) / "README.md").read_text().split())
    gaps, quality, value = (
        json.loads((root / "results" / "pretraining" / f"{name}.json").read_text())["metrics"]
        for name in ("gaps", "quality", "value")
    )

    def pair(name: str) -> str:
        return " and ".join(f"{100 * value[name][start]['scores']['mean']:.1f}" for start in ("pretrained", "random"))

    right = 100 * quality["held out"]["dev_masked_accuracy"], 100 * quality["held out"]["dev_next_sentence_accuracy"]
    hidden = gaps["by what is shown"]["[MASK]"]
    assert f"at `[MASK]` loss {hidden['loss']:.2f} nats, {100 * hidden['accuracy']:.0f} of 100 pieces named" in card
    assert f"the loss is {quality['held out']['dev_masked_loss']:.2f} and {right[0]:.0f} of 100 are named" in card
    assert f"{right[1]:.0f} of 100 pairs told apart" in card
    assert f"Pseudo-perplexity of held-out sentences {quality['pseudo_perplexity']:.1f}" in card
    assert f"BLiMP {100 * quality['blimp']['mean']:.1f} of 100" in card
    assert f"STS-B Spearman {pair('stsb_en')}, SICK accuracy {pair('sick')}, CoLA Matthews {pair('cola')}" in card
    assert f"SST-2 accuracy {pair('sst2')}" in card


def test_it_fills_gaps() -> None:
    model, tokenizer = BertForPretraining.from_pretrained(NAME), WordPiece.from_pretrained(locate(NAME))
    gaps = {
        "the film was directed [MASK] him .": "by",
        "it was released [MASK] 2017 .": "in",
        "he was [MASK] in london .": "born",
    }
    for text, expected in gaps.items():
        assert fill_masks(model, tokenizer, text, k=1)[0][0][0] == expected, text


def test_transformers_reads_the_same() -> None:
    transformers = pytest.importorskip("transformers")
    model = BertForPretraining.from_pretrained(NAME)
    reference = transformers.BertForPreTraining.from_pretrained(locate(NAME)).float().eval()
    ids = torch.tensor([WordPiece.from_pretrained(locate(NAME)).encode(TEXT, "it is long .").ids])
    with torch.no_grad():
        expected, output = reference(input_ids=ids), model(ids)
    assert (expected.prediction_logits - output.token_logits).abs().max() < 1e-4
    assert (expected.seq_relationship_logits - output.next_logits).abs().max() < 1e-4


def test_both_editions_read_the_same() -> None:
    pytest.importorskip("d2lbert.mxnet", exc_type=ImportError)
    from mxnet import nd

    (torch_model, tokenizer), (mxnet_model, _) = get_model(NAME), get_model(NAME, edition="mxnet")
    ids = tokenizer.encode(TEXT).ids
    with torch.no_grad():
        expected = torch_model(torch.tensor([ids])).sequence.numpy()
    assert np.abs(expected - mxnet_model(nd.array([ids])).sequence.asnumpy()).max() < 1e-4
