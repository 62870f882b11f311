"""ALBERT, DistilBERT and a pruned BERT through the command line: fine-tuned, saved, read again with the same scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from cli_support import run
from unigram_support import tokenizer_json

from d2lbert.config import AlbertConfig, BertConfig, DistilBertConfig, PrunedBertConfig
from d2lbert.text import WordPiece
from d2lbert.torch.relatives import encoder_class
from d2lbert.zoo import locate

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
CONFIGS: dict[str, BertConfig] = {
    "albert": AlbertConfig(**SIZES, vocab_size=200, embedding_size=8),
    "distilbert": DistilBertConfig(**SIZES),
    "pruned_bert": PrunedBertConfig(**SIZES, heads_per_layer=(1, 2), neurons_per_layer=(5, 32), embedding_rank=6),
}
TASKS = [
    ("classification", "sst2", "accuracy"),
    ("pair", "stsb_en", "spearman"),
    ("tagging", "conll2003", "f1"),
    ("question_answering", "squadshifts", "f1"),
    ("multiple_choice", "copa", "accuracy"),
]


@pytest.fixture(scope="module", params=sorted(CONFIGS))
def relative(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small encoder with random weights and a tokenizer of its kind."""
    folder: Path = tmp_path_factory.mktemp("relatives") / request.param
    torch.manual_seed(0)
    encoder_class(request.param)(CONFIGS[request.param]).save_pretrained(folder)
    if request.param == "albert":
        (folder / "tokenizer.json").write_text(tokenizer_json(200))
    else:
        WordPiece.from_pretrained(locate("minilm")).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("task", "data_set", "score"), TASKS)
def test_finetune_and_evaluate_every_task(task: str, data_set: str, score: str, relative: Path, tmp_path: Path) -> None:
    command = ("finetune", task, "--model", relative, "--epochs", "1", "--out", tmp_path / "out", "--max-length", "96")
    trained = run(*command, "--train", data_set, "--dev", data_set)
    assert trained.returncode == 0, trained.stderr
    before = json.loads(trained.stdout.splitlines()[-1])
    tested = run("evaluate", task, "--model", tmp_path / "out", "--data", data_set, "--max-length", "96")
    assert tested.returncode == 0, tested.stderr
    after = json.loads(tested.stdout.splitlines()[-1])
    assert after[score] == pytest.approx(before[score], abs=1e-6)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == relative.name
