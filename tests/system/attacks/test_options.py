"""Options of the command line: numbers that cannot be, words that are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import Ended

SURFACE = "1a options"
FINETUNE = ("finetune", "classification", "--model", "d2lbert-tiny", "--train", "train.csv", "--dev", "train.csv")
PRETRAIN = ("pretrain", "--corpus", "train.csv", "--vocab-size", "100", "--max-length", "16", "--dev-share", "0")
DIGITS = "9" * 5000
Attack, Refused = Callable[..., Ended], Callable[..., None]

# Values that no number of the kind may have; an option may refuse more.
WORDS = ["", "much", DIGITS + "x"]
WHOLE = [*WORDS, "-1", "0.5", "1e10", "nan", "-" + DIGITS]
REAL = [*WORDS, "-1", "nan", "inf", "-inf"]
FINETUNE_OPTIONS = {
    "--epochs": [*WHOLE, "0"],
    "--batch-size": [*WHOLE, "0"],
    "--seed": [*WHOLE, "4294967296", DIGITS],
    "--patience": WHOLE,
    "--max-length": [*WHOLE, "0", "2", "513", DIGITS],
    "--lr": [*REAL, "0"],
    "--warmup": [*REAL, "1.01"],
    "--weight-decay": REAL,
    "--clip": [*REAL, "0"],
    "--layer-decay": [*REAL, "0", "1.01"],
}
PRETRAIN_OPTIONS = {
    "--steps": [*WHOLE, "0"],
    "--accumulation": [*WHOLE, "0"],
    "--keep": [*WHOLE, "0"],
    "--vocab-size": [*WORDS, "-1", "0", "5"],
    "--max-length": [*WHOLE, "4", "513"],
    "--dev-share": [*REAL, "1"],
    "--masking-share": [*REAL, "1.01"],
    "--dropout": [*REAL, "1"],
    "--initializer-range": [*REAL, "0"],
}
CASES = [(FINETUNE, name, value) for name, values in FINETUNE_OPTIONS.items() for value in values]
CASES += [(PRETRAIN, name, value) for name, values in PRETRAIN_OPTIONS.items() for value in values]


@pytest.mark.parametrize(
    ("command", "option", "value"), CASES, ids=[f"{words[0]} {name} {value[:12]}" for words, name, value in CASES]
)
def test_a_number_that_cannot_be(
    command: tuple[str, ...], option: str, value: str, train: Path, attack: Attack, refused: Refused, tmp_path: Path
) -> None:
    refused(attack(*command, "--out", "out", option, value))
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*"))


@pytest.mark.parametrize(
    "more",
    [
        ("--seed", "4294967295"),
        ("--batch-size", "1" + "0" * 26),
        ("--patience", "1" + "0" * 26),
        ("--max-length", "3"),
        ("--max-length", "512"),
        ("--warmup", "1"),
        ("--layer-decay", "1e-300"),
        ("--balanced", "--no-packed", "--no-bias-correction"),
    ],
    ids=lambda more: " ".join(more)[:30],
)
def test_numbers_at_the_edge(
    more: tuple[str, ...], train: Path, attack: Attack, accepted: Callable[[Ended], None], tmp_path: Path
) -> None:
    accepted(attack(*FINETUNE, "--out", "out", "--epochs", "1", *more))
    assert (tmp_path / "out" / "model.safetensors").is_file()


WRONG = {
    "nothing": (),
    "an unknown command": ("finetun",),
    "an unknown option": (*FINETUNE, "--out", "out", "--epoch", "3"),
    "an Arabic digit": (*FINETUNE, "--out", "out", "--epochs", "\u0661"),
    "an option without its value": (*FINETUNE, "--out", "out", "--epochs"),
    "an unknown task": ("predict", "sentiment", "--model", "d2lbert-tiny", "--text", "a"),
    "no task": ("predict",),
    "no text": ("predict", "classification", "--model", "d2lbert-tiny"),
    "an empty text": ("predict", "classification", "--model", "d2lbert-tiny", "--text", ""),
    "an unknown score": (*FINETUNE, "--out", "out", "--best-by", "f2"),
    "an unknown precision": (*FINETUNE, "--out", "out", "--precision", "half"),
    "an unknown format": (*FINETUNE, "--out", "out", "--format", "xls"),
    "an unknown size": (*PRETRAIN, "--out", "out", "--config", "huge"),
    "an unknown model": (*PRETRAIN, "--out", "out", "--model", "t5"),
    "an unknown engine": (*PRETRAIN, "--out", "out", "--engine", "spark"),
    "shares of masks above one": (
        *PRETRAIN,
        "--out",
        "out",
        "--mask-token-share",
        "0.8",
        "--random-token-share",
        "0.3",
    ),
    "an unknown data set": ("data", "fetch", "sst22"),
    "a data set with a path in its name": ("data", "fetch", "../../etc/passwd"),
    "a name that no terminal shows": ("data", "fetch", "\x1b[31m\x07"),
    "half a character": ("data", "fetch", "\udcff"),
    "a word too many": ("data", "list", "all"),
}


@pytest.mark.parametrize("name", WRONG)
def test_words_that_are_wrong(name: str, train: Path, attack: Attack, refused: Refused, tmp_path: Path) -> None:
    refused(attack(*WRONG[name]))
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*"))
