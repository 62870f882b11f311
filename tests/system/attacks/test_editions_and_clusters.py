"""Mistakes under torchrun, with Ray and with the MXNet edition."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fork_server import Ended
from safetensors.numpy import load_file, save_file

from d2lbert import UserError

SURFACE = "8 torchrun, Ray, MXNet"
PRETRAIN = ("pretrain", "--corpus", "corpus.txt", "--vocab-size", "300", "--steps", "2", "--dev-share", "0")
SMALL = ("--max-length", "24", "--batch-size", "4")
SENTENCE = "The river runs to the sea. A boat lies at the bank. They waited for the tide.\n"
Attack, Refused = Callable[..., Ended], Callable[..., None]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    documents = [SENTENCE.replace("river", word) for word in ("river", "road", "wind", "path", "train", "stream")]
    (tmp_path / "corpus.txt").write_text("\n".join(documents))
    return tmp_path


def _torchrun(folder: Path, root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    command = [*start, "--monitor-interval", "0.2", "-m", "d2lbert.cli", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--accumulation", "3"), "2 processes cannot share 3 batches a step evenly"),
        (("--corpus", "nowhere.txt"), "no corpus at nowhere.txt"),
    ],
    ids=["batches that cannot be shared", "no corpus"],
)
def test_a_mistake_under_torchrun_ends_every_process(
    more: tuple[str, ...], message: str, corpus: Path, root: Path
) -> None:
    """Every process says its line and ends; none waits for another."""
    words = [*PRETRAIN, *SMALL, "--accumulation", "2", "--out", "out", *more]
    if more[0] == "--corpus":
        words[2] = more[1]
        words = words[: -len(more)]
    ended = _torchrun(corpus, root, *words)
    assert ended.returncode != 0
    assert f"d2lbert: {'' if 'corpus' in message else 'pretraining: '}{message}" in ended.stderr
    assert "UserError" not in ended.stderr
    assert not (corpus / "out" / "model.safetensors").exists()


@pytest.mark.slow
def test_a_damaged_corpus_stops_ray_in_one_line(corpus: Path, attack: Attack, refused: Refused) -> None:
    pytest.importorskip("ray")
    (corpus / "second.txt").write_bytes(b"caf\xe9\n")
    words = ("pretrain", "--corpus", "corpus.txt", "second.txt", "--out", "out", "--prepare", "--engine", "ray")
    refused(attack(*words, "--vocab-size", "300", seconds=300), "not UTF-8")
    assert not (corpus / "out" / "index.json").exists()


def test_processes_that_prepare_report_a_damaged_file(corpus: Path, attack: Attack, refused: Refused) -> None:
    (corpus / "second.txt").write_bytes(b"caf\xe9\n")
    words = ("pretrain", "--corpus", "corpus.txt", "second.txt", "--out", "out", "--prepare", "--workers", "2")
    refused(attack(*words, "--vocab-size", "300"), "not UTF-8")
    assert not (corpus / "out" / "index.json").exists()


def _broken(folder: Path, name: str) -> None:
    """Break a model folder in one of the ways below."""
    weights = folder / "model.safetensors"
    if name == "a tensor gone":
        tensors = load_file(weights)
        save_file({key: value for key, value in tensors.items() if "layer.0.attention.self.query" not in key}, weights)
    elif name == "a tensor turned":
        tensors = load_file(weights)
        key = next(key for key in tensors if key.endswith("word_embeddings.weight"))
        save_file({**tensors, key: np.ascontiguousarray(tensors[key].T)}, weights)
    elif name == "cut weights":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif name == "another architecture":
        path = folder / "config.json"
        path.write_text(path.read_text().replace('"bert"', '"roberta"', 1))
    else:
        (folder / name).unlink()


BROKEN = ["a tensor gone", "a tensor turned", "cut weights", "another architecture", "config.json", "model.safetensors"]


@pytest.mark.parametrize("name", BROKEN)
def test_both_editions_refuse_a_broken_folder_in_the_same_words(name: str, classifier: Path, tmp_path: Path) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    from d2lbert.models import get_model

    shutil.copytree(classifier, tmp_path / "model")
    _broken(tmp_path / "model", name)
    said = []
    for edition in ("torch", "mxnet"):
        with pytest.raises(UserError) as caught:
            get_model(str(tmp_path / "model"), edition=edition)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "\n" not in said[0]


def test_an_edition_that_is_none(classifier: Path) -> None:
    from d2lbert.models import get_model

    with pytest.raises(UserError, match="edition"):
        get_model(str(classifier), edition="keras")
