"""``d2lbert predict fill_mask``: the pieces of each gap, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import complaint, run

from d2lbert.models import tokenizer_of_name
from d2lbert.torch.masked_words import fill_masks
from d2lbert.torch.pretraining import BertForPretraining

COMMAND = ("predict", "fill_mask", "--model", "d2lbert-tiny")
TEXT = "Deep learning [MASK] fun."


def test_the_likeliest_pieces_of_every_gap() -> None:
    two = "The [MASK] of France is [MASK]."
    result = run(*COMMAND, "--text", TEXT, "--text", two)
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["text"] for row in rows] == [TEXT, two]
    assert [len(row["masks"]) for row in rows] == [1, 2]
    model, tokenizer = BertForPretraining.from_pretrained("d2lbert-tiny"), tokenizer_of_name("d2lbert-tiny")
    for row in rows:
        for shown, expected in zip(row["masks"], fill_masks(model, tokenizer, row["text"]), strict=True):
            assert [guess["piece"] for guess in shown] == [piece for piece, _ in expected]
            assert [guess["probability"] for guess in shown] == pytest.approx([value for _, value in expected])
            assert len(shown) == 5


def test_answers_go_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "gaps.jsonl"
    result = run(*COMMAND, "--text", TEXT, "--out", out)
    assert (result.returncode, result.stdout) == (0, "")
    assert json.loads(out.read_text())["text"] == TEXT
    assert f"--out {out} exists: choose a new file" in complaint(*COMMAND, "--text", TEXT, "--out", out)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--text", "no gap"], "the text 'no gap' has no [MASK]: write one where a word is to be guessed"),
        ([], "fill_mask reads one or more --text with [MASK] in it: give these, and no --pair or --data"),
        (["--text", TEXT, "--pair", "x"], "fill_mask reads one or more --text with [MASK] in it"),
        (["--text", TEXT, "--data", "x"], "fill_mask reads one or more --text with [MASK] in it"),
        (["--text", TEXT, "--model", "minilm"], "minilm has no head that names hidden words"),
        (["--text", TEXT, "--model", "elmo-small"], "elmo-small has no head that names hidden words"),
        (["--text", "a " * 600 + "[MASK]"], "but the model takes 512: give a shorter one"),
    ],
)
def test_a_mistake_ends_in_one_line(more: list[str], line: str) -> None:
    assert line in complaint(*COMMAND, *more)


def test_only_predict_fills_gaps() -> None:
    assert "unknown task 'fill_mask'" in complaint("evaluate", "fill_mask", "--model", "d2lbert-tiny", "--data", "sst2")
