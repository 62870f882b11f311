"""Files and folders that may not be read, searched or written: one line, nothing lost, nothing half-written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fork_server import Ended

SURFACE = "1e permissions"
FINETUNE = ("finetune", "classification", "--epochs", "1", "--train", "{train}", "--dev", "{train}")
Attack, Refused = Callable[..., Ended], Callable[..., None]
pytestmark = pytest.mark.usefixtures("modes_count")


@pytest.fixture
def closed(tmp_path: Path, train: Path, classifier: Path) -> Iterator[dict[str, Path]]:
    """A locked room with all that a command could want, and copies whose files alone are locked."""
    room, model, cache = tmp_path / "room", tmp_path / "model", tmp_path / "cache"
    shutil.copytree(classifier, model)
    shutil.copytree(classifier, room / "model")
    shutil.copy(train, room / "train.csv")
    shutil.copy(train, tmp_path / "unreadable.csv")
    (room / "empty").mkdir()
    (tmp_path / "readonly").mkdir()
    cache.mkdir()
    locked = [(room, 0), (tmp_path / "unreadable.csv", 0), (tmp_path / "readonly", 0o500), (cache, 0)]
    for path, mode in locked:
        path.chmod(mode)
    yield {"room": room, "train": train, "model": model, "here": tmp_path, "cache": cache}
    for path, _ in locked:
        path.chmod(0o700)


TINY = ("--model", "d2lbert-tiny")
EVALUATE, PRETRAIN = ("evaluate", "classification", "--model", "{model}", "--data"), ("pretrain", "--steps", "1")
PLACES = {
    "--train in a locked room": (*FINETUNE, *TINY, "--out", "out", "--train", "{room}/train.csv"),
    "--train that is locked": (*FINETUNE, *TINY, "--out", "out", "--train", "{here}/unreadable.csv"),
    "--model in a locked room": (*FINETUNE, "--model", "{room}/model", "--out", "out"),
    "--out in a locked room": (*FINETUNE, *TINY, "--out", "{room}/out"),
    "--out that is locked": (*FINETUNE, *TINY, "--out", "{room}"),
    "--out inside what may not be written": (*FINETUNE, *TINY, "--out", "{here}/readonly/out"),
    "--out that may not be written": (*FINETUNE, *TINY, "--out", "{here}/readonly"),
    "predict --model in a locked room": ("predict", "classification", "--model", "{room}/model", "--text", "good"),
    "evaluate --data in a locked room": (*EVALUATE, "{room}/train.csv"),
    "evaluate --data that is locked": (*EVALUATE, "unreadable.csv"),
    "--predictions in a locked room": (*EVALUATE, "{train}", "--predictions", "{room}/p"),
    "pretrain --corpus in a locked room": (*PRETRAIN, "--corpus", "{room}/train.csv", "--out", "out"),
    "pretrain --corpus that is a locked room": (*PRETRAIN, "--corpus", "{room}", "--out", "out"),
    "pretrain --corpus that is locked": (*PRETRAIN, "--corpus", "unreadable.csv", "--out", "out"),
    "pretrain --vocab in a locked room": (*PRETRAIN, "--corpus", "{train}", "--vocab", "{room}/v", "--out", "out"),
    "pretrain --out in a locked room": (*PRETRAIN, "--corpus", "{train}", "--out", "{room}/out"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_locked_place(name: str, closed: dict[str, Path], attack: Attack, refused: Refused) -> None:
    refused(attack(*[word.format(**closed) for word in PLACES[name]], modes_count=True))
    assert not (closed["here"] / "out" / "model.safetensors").exists()
    assert not list((closed["here"] / "readonly").iterdir())


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"])
def test_a_file_of_a_model_that_is_locked(file: str, closed: dict[str, Path], attack: Attack, refused: Refused) -> None:
    (closed["model"] / file).chmod(0)
    refused(attack("predict", "classification", "--model", closed["model"], "--text", "good", modes_count=True), file)


OF_THE_HUB = ("predict", "classification", "--model", "bert_12_768_12:wiki_cn_cased", "--text", "a")
VARIABLES = {
    "data list, data in a locked room": ("D2LBERT_DATA", "{room}/data", ("data", "list")),
    "data list, data that are a locked room": ("D2LBERT_DATA", "{room}", ("data", "list")),
    "data list, a locked cache": ("D2LBERT_CACHE", "{cache}/x", ("data", "list")),
    "models, a locked cache": ("D2LBERT_CACHE", "{cache}/x", ("models",)),
    "a model of the hub, a locked cache": ("D2LBERT_CACHE", "{cache}", OF_THE_HUB),
    "fetch, a locked cache": ("D2LBERT_CACHE", "{cache}", ("data", "fetch", "sst2")),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variables(name: str, closed: dict[str, Path], attack: Attack, refused: Refused) -> None:
    variable, place, words = VARIABLES[name]
    environment = {variable: place.format(**closed)}
    refused(attack(*words, environment=environment, modes_count=True))


def test_predictions_have_another_place_where_the_models_folder_is_closed(
    closed: dict[str, Path], attack: Attack, accepted: Callable[[Ended], None]
) -> None:
    closed["model"].chmod(0o500)
    words = ("evaluate", "classification", "--model", closed["model"], "--data", closed["train"])
    ended = attack(*words, modes_count=True)
    accepted(ended)
    assert "--predictions names another place" in ended.stderr
