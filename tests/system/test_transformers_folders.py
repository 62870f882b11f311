"""Folders go both ways between d2lbert and transformers, tokenizer included.

By hand this file also ran with transformers 4.45, which writes vocab.txt beside tokenizer.json.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from cli_support import finetune_command, run
from huggingface_hub import ModelCard
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertTokenizerFast, pipeline

from d2lbert import get_model
from d2lbert.deploy.exported import load_trained
from d2lbert.text import WordPiece
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.zoo import locate

TEXTS = ("A warm and funny film", "Money in the bank; CAFÉ!")
LONG = "a warm and funny film " * 300


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``d2lbert finetune`` leaves."""
    folder = tmp_path_factory.mktemp("trained")
    rows = [f"{text},{label}" for text, label in (("good", "yes"), ("bad", "no"), ("fine", "yes"), ("poor", "no"))]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    few = ("--epochs", "1", "--max-length", "40")
    result = run(*finetune_command("d2lbert-tiny", folder / "train.csv", folder / "out", *few))
    assert result.returncode == 0, result.stderr
    return folder / "out"


@pytest.mark.parametrize("lacking", ["", "vocab.txt", "tokenizer.json"])
def test_a_trained_folder_answers_in_transformers(trained: Path, tmp_path: Path, lacking: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in trained.iterdir():
        if path.name != lacking:
            (folder / path.name).write_bytes(path.read_bytes())
    model, tokenizer = load_trained(str(trained), BertForSequenceClassification)
    theirs, library = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        encoding = tokenizer.encode(text)
        assert library(text)["input_ids"] == encoding.ids
        with torch.inference_mode():
            ours = model(torch.tensor([encoding.ids]))
            logits = theirs(**library(text, return_tensors="pt")).logits
        torch.testing.assert_close(ours, logits, atol=1e-5, rtol=0)
    answers = pipeline("text-classification", model=str(folder))(LONG, truncation=True)  # cut at 512 tokens
    assert answers[0]["label"] in ("yes", "no")
    theirs.save_pretrained(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["trained_length"] == 40


def test_the_card_of_a_trained_folder_is_the_hubs(trained: Path) -> None:
    card = ModelCard.load(trained / "README.md")
    assert card.data.pipeline_tag == "text-classification"
    best = json.loads((trained / "training.json").read_text())[0]
    assert card.data.eval_results[0].metric_value == pytest.approx(best["accuracy"], abs=1e-4)


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_folder_of_transformers_answers_here(tmp_path: Path, lowercase: bool) -> None:
    """As version 5 leaves it, without vocab.txt; version 4 writes that, too."""
    vocabulary = WordPiece.from_pretrained(locate("d2lbert-tiny"))
    library = BertTokenizerFast.from_pretrained(locate("d2lbert-tiny"), do_lower_case=lowercase)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    config = BertConfig(vocab_size=len(vocabulary.vocab), max_position_embeddings=64, **sizes)
    theirs = transformers.BertModel(config).eval()
    theirs.save_pretrained(tmp_path)
    library.save_pretrained(tmp_path)
    assert (tmp_path / "vocab.txt").is_file() == transformers.__version__.startswith("4.")
    model, tokenizer = get_model(str(tmp_path))
    assert (tokenizer.lowercase, tokenizer.model_max_length) == (lowercase, 64)
    for text in TEXTS:
        encoding = tokenizer.encode(text)
        assert encoding.ids == library(text)["input_ids"]
        with torch.inference_mode():
            expected = theirs(**library(text, return_tensors="pt")).last_hidden_state
            torch.testing.assert_close(model(torch.tensor([encoding.ids])).sequence, expected, atol=1e-5, rtol=0)
