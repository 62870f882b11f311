"""Options come from the settings: none is lost, none has a default of its own, and what is given arrives."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_support import complaint, finetune_command, run

from d2lbert import UserError, cli
from d2lbert.commands import pretrain
from d2lbert.commands.group import imported
from d2lbert.config.settings import Settings
from d2lbert.config.training import Pretraining, Training, suited_settings
from d2lbert.data.pretraining.batches import PretrainingSettings
from d2lbert.data.pretraining.masking import MaskingRates
from d2lbert.data.pretraining.shards import Preparation
from d2lbert.data.readers.tables import Columns
from d2lbert.torch.training import finetuning

# Options and defaults that users know: they stay, whatever becomes of the settings.
PROMISED = {
    "finetune": {
        "--model": None, "--train": None, "--dev": None, "--out": None, "--format": None, "--epochs": None,
        "--batch-size": None, "--lr": None, "--text-column": "", "--pair-column": "", "--label-column": "",
        "--score-column": "",
        "--separator": "", "--seed": 0, "--max-length": None, "--layer-decay": 1.0, "--patience": 0,
        "--best-by": "", "--balanced": False, "--precision": "auto", "--resume": False,
    },
    "pretrain": {
        "--corpus": None, "--out": None, "--config": "tiny", "--model": "bert", "--steps": 1000, "--resume": False,
        "--seed": 0, "--prepare": False, "--vocab": None, "--vocab-size": 30522, "--cased": False, "--dev-share": 0.01,
        "--workers": 1, "--engine": "processes", "--max-length": 128, "--batch-size": 32, "--accumulation": 1,
        "--lr": 5e-4, "--dropout": 0.1, "--initializer-range": 0.02, "--precision": "auto", "--whole-words": False,
        "--next-sentence": True, "--no-next-sentence": True, "--static-copies": 0, "--save-every": 500, "--keep": 3,
        "--tensorboard": False, "--compile": False, "--sharded": False,
    },
}  # fmt: skip
# Settings of the command's own: the default is that of the task, or what suits the number of examples.
BY_TASK_AND_DATA = ("max_length", "epochs", "batch_size", "learning_rate")
CLASSES = {"finetune": (Training, Columns), "pretrain": (Pretraining, PretrainingSettings, MaskingRates, Preparation)}


def _options(command: str) -> dict[str, Any]:
    """Return what typer knows of each option, by all that may be typed for it."""
    parameters = imported(command).params
    return {name: parameter for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("command", PROMISED)
def test_known_options_keep_names_and_defaults(command: str) -> None:
    options = _options(command)
    for name, default in PROMISED[command].items():
        assert (options[name].default or None) == (default or None), name
        assert type(options[name].default) is type(default) or not default, name


@pytest.mark.parametrize("command", CLASSES)
def test_every_setting_is_an_option_with_its_default_and_meaning(command: str) -> None:
    by_field = {parameter.name: parameter for parameter in _options(command).values()}
    for settings in CLASSES[command]:
        for field in fields(settings):
            if isinstance(field.default, Settings):
                assert field.name not in by_field  # but each of its own fields is
                continue
            if settings is Training and field.name in BY_TASK_AND_DATA:
                assert by_field[field.name].default is None
                continue
            assert by_field[field.name].default == field.default, field.name
            assert settings.meanings[field.name].meaning in by_field[field.name].help


def test_help_tells_the_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("TERMINAL_WIDTH", "250")
    shown = run("pretrain", "--help").stdout
    assert "share of all steps during which the learning rate rises" in shown
    assert "--no-next-sentence" in shown
    assert "[CLS] and two [SEP] included" in shown


def test_what_is_given_to_finetune_arrives(
    encoder: Path, train_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Training] = []

    def look(*arguments: Any, **_: Any) -> None:
        seen.extend(argument for argument in arguments if isinstance(argument, Training))
        raise UserError("seen enough")

    monkeypatch.setattr(finetuning, "fine_tune", look)
    flags = ("--lr", "0.002", "--warmup", "0", "--no-packed", "--no-bias-correction", "--balanced")
    command = finetune_command(encoder, train_file, tmp_path / "one", *flags, "--max-length", "20")
    assert "seen enough" in complaint(*command)
    expected = {"learning_rate": 0.002, "warmup": 0, "packed": False, "bias_correction": False, "balanced": True}
    suited = suited_settings(4, 8, Training(max_length=20, **expected))
    assert seen[0] == dataclasses.replace(suited, learning_rate=0.002)
    assert seen[0].epochs > 3
    given = ("--lr", "1e-4", "--epochs", "3", "--batch-size", "32")
    assert "seen enough" in complaint(*finetune_command(encoder, train_file, tmp_path / "two", *given))
    assert seen[1] == Training()


def test_what_is_given_to_pretrain_arrives(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(*arguments: Any) -> None:
        seen.extend(argument for argument in arguments if isinstance(argument, Pretraining | PretrainingSettings))
        raise UserError("seen enough")

    monkeypatch.setattr(pretrain, "_trainer", look)
    corpus = str(root / "data" / "samples" / "wikipedia_en" / "dev.txt")
    start = ("pretrain", "--corpus", corpus, "--vocab-size", "200", "--out", str(tmp_path / "out"))
    flags = ("--seed", "7", "--masking-share", "0.3", "--short-share", "0", "--compile", "--clip", "2", "--window", "3")
    assert "seen enough" in run(*start, *flags).stderr
    examples = PretrainingSettings(seed=7, rates=MaskingRates(chosen=0.3), short_share=0.0, window=3)
    assert {type(argument): argument for argument in seen} == {
        Pretraining: Pretraining(seed=7, compiled=True, clip=2.0),
        PretrainingSettings: examples,
    }


@pytest.mark.parametrize("command", CLASSES)
def test_a_number_that_cannot_be_is_one_line(command: str, tmp_path: Path) -> None:
    start = {
        "finetune": ("classification", "--model", "minilm", "--train", "sst2", "--dev", "sst2"),
        "pretrain": ("--corpus", "nowhere"),
    }[command]
    of_fields = {
        field.name: settings.kind
        for settings in CLASSES[command]
        for field in fields(settings)
        if type(field.default) in (int, float) and (settings, field.name) != (Training, "max_length")
    }
    checked = {name: parameter for name, parameter in _options(command).items() if parameter.name in of_fields}
    assert len(checked) >= 8
    for name, option in checked.items():
        line = complaint(command, *start, "--out", tmp_path / "out", name, "-1")
        assert line.startswith(f"d2lbert: {of_fields[option.name]}: {option.name} is -1"), line
        assert "should be a valid" in complaint(command, *start, "--out", tmp_path / "out", name, "much")
    assert not (tmp_path / "out").exists()


def test_text_is_prepared_by_one_process_at_least(tmp_path: Path) -> None:
    for workers in ("0", "-3"):
        assert "--workers" in complaint("pretrain", "--corpus", "x", "--out", tmp_path / "out", "--workers", workers)
    assert not (tmp_path / "out").exists()


def test_what_a_wrong_command_line_raises() -> None:
    assert issubclass(typer.BadParameter, cli.CommandLineError)
    assert not issubclass(UserError, cli.CommandLineError)
    assert not issubclass(RuntimeError, cli.CommandLineError)
    assert "No such command 'finetun'" in complaint("finetun")
    assert "No such option" in complaint("finetune", "--epoch", "3")
    assert "--epochs" in complaint("finetune", "--epochs")


@pytest.mark.parametrize(
    ("hidden", "wanted"),
    [((), "typer.BadParameter.__bases__"), (("typer._click",), "[__import__('click').UsageError]")],
)
def test_older_versions_of_typer(hidden: tuple[str, ...], wanted: str) -> None:
    """Without the public name the exception of the copy of click is found; without the copy, that of click."""
    pytest.importorskip("click")
    program = (
        f"import sys, typer; vars(typer).pop('TyperException', None)\n"
        f"expected = {wanted}[0]\n"
        f"sys.modules.update(dict.fromkeys({hidden!r}))\n"
        "from d2lbert import cli\n"
        "print(issubclass(expected, cli.CommandLineError), cli.CommandLineError.__name__)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout == "True ClickException\n", result.stderr
