"""Small files that unpack to more than memory holds, and one that would run a program."""

from __future__ import annotations

import gzip
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fork_server import Ended

SURFACE = "3c bombs"
Attack, Refused = Callable[..., Ended], Callable[..., None]
MEGABYTE = 2**20


def _packed(path: Path, head: bytes, megabytes: int) -> None:
    """Write a head and so many megabytes of one letter; each compresses to a thousandth."""
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(head)
        for _ in range(megabytes):
            stream.write(b"a" * MEGABYTE)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "file"), [("classification", "bomb.csv.gz"), ("question_answering", "bomb.json.gz")])
def test_a_packed_line_of_two_gigabytes(
    task: str, file: str, classifier: Path, tmp_path: Path, attack: Attack, refused: Refused
) -> None:
    head = b'{"data": "' if "json" in file else b"text,label\n"
    _packed(tmp_path / file, head, 2048)
    words = ("finetune", task, "--model", "d2lbert-tiny", "--train", file, "--dev", file, "--out", "out")
    refused(attack(*words, memory=3, seconds=120))
    assert not (tmp_path / "out").exists()


def test_a_packed_text_of_a_corpus_is_read_by_the_line(tmp_path: Path, attack: Attack, refused: Refused) -> None:
    _packed(tmp_path / "bomb.txt.gz", b"", 600)
    words = ("pretrain", "--corpus", "bomb.txt.gz", "--out", "out", "--vocab-size", "500", "--steps", "1")
    refused(attack(*words, memory=1, seconds=60))
    assert not (tmp_path / "out" / "model.safetensors").exists()


@pytest.fixture
def model(classifier: Path, tmp_path: Path) -> Path:
    """A model whose weights must be read from an old file."""
    folder = tmp_path / "model"
    shutil.copytree(classifier, folder)
    (folder / "model.safetensors").unlink()
    return folder


def test_a_deflated_checkpoint(model: Path, attack: Attack, refused: Refused) -> None:
    with zipfile.ZipFile(model / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
        with archive.open("archive/data/0", "w", force_zip64=True) as stream:
            for _ in range(300):
                stream.write(bytes(MEGABYTE))
    refused(attack("predict", "classification", "--model", model, "--text", "good", memory=2))


class _Touch:
    """What a pickle of it does when it is read: it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_code_in_a_checkpoint_does_not_run(model: Path, tmp_path: Path, attack: Attack, refused: Refused) -> None:
    (model / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": _Touch(tmp_path / "it ran")}))
    refused(attack("predict", "classification", "--model", model, "--text", "good"))
    assert not (tmp_path / "it ran").exists()
    pickle.loads((model / "pytorch_model.bin").read_bytes())  # it would have
    assert (tmp_path / "it ran").exists()
