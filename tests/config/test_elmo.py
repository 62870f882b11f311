"""ELMo's sizes, from and to AllenNLP's options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.config import ElmoConfig

OPTIONS: dict[str, Any] = {
    "lstm": {
        "cell_clip": 3,
        "use_skip_connections": True,
        "n_layers": 2,
        "proj_clip": None,
        "projection_dim": 5,
        "dim": 7,
    },
    "char_cnn": {
        "embedding": {"dim": 4},
        "filters": [[1, 2], [3, 6]],
        "n_highway": 1,
        "n_characters": 262,
        "max_characters_per_token": 9,
        "activation": "tanh",
    },
}


def _read(folder: Path, options: Any) -> ElmoConfig:
    (folder / "options.json").write_text(json.dumps(options))
    return ElmoConfig.from_options(folder / "options.json")


def test_options_by_hand(tmp_path: Path) -> None:
    config = _read(tmp_path, OPTIONS)
    assert config == ElmoConfig(
        char_embedding_size=4,
        filters=((1, 2), (3, 6)),
        num_highway_layers=1,
        activation="tanh",
        max_characters=9,
        projection_size=5,
        hidden_size=7,
        cell_clip=3.0,
        projection_clip=0.0,  # null there: no limit
    )
    assert config.num_filters == 8


def test_options_come_back(tmp_path: Path) -> None:
    for config in (ElmoConfig(), ElmoConfig(filters=((2, 3),), num_layers=1, skip_connections=False)):
        assert _read(tmp_path, config.to_options()) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"projection_size": 0}, "projection_size is 0; it must be at least 1"),
        ({"activation": "gelu"}, "unknown activation 'gelu'"),
        ({"filters": ((51, 4),)}, r"the widest filter spans 51 characters; it must be from 1 to max_characters \(50\)"),
        ({"filters": ()}, "the widest filter spans 0 characters"),
        ({"num_layers": 2.5}, "num_layers is 2.5; it must be of type int"),
    ],
)
def test_sizes_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ElmoConfig(**changes)


def test_options_that_are_none(tmp_path: Path) -> None:
    for options in ({"lstm": OPTIONS["lstm"]}, {**OPTIONS, "lstm": None}, {**OPTIONS, "char_cnn": {}}):
        with pytest.raises(UserError, match=r"options\.json holds no ELMo options \("):
            _read(tmp_path, options)
    wrong = {**OPTIONS, "lstm": {**OPTIONS["lstm"], "dim": 0}}
    with pytest.raises(UserError, match=r"options\.json: configuration: hidden_size is 0"):
        _read(tmp_path, wrong)
