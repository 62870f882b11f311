"""``d2lbert pretrain`` as a user meets it: killed at any moment, taken up again, on one process or several."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from process_support import hearing_ctrl_c, with_full_disk
from safetensors.numpy import load_file

from d2lbert.cli import main
from d2lbert.data.pretraining.shards import TokenShards

KILLS = int(os.environ.get("D2LBERT_KILLS", "3"))  # make soak sets 20

RUN = [sys.executable, "-m", "d2lbert.cli", "pretrain"]
SMALL = ["--config", "tiny", "--max-length", "32", "--batch-size", "8", "--save-every", "3", "--lr", "1e-3"]
FILES = ("model.safetensors", "config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json")


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """One thread a process; the folder of this checkout first."""
    root = str(Path(__file__).resolve().parents[3])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root}


@pytest.fixture(scope="module")
def corpus(root: Path, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """The sample, prepared once."""
    folder = tmp_path_factory.mktemp("pretrain") / "corpus"
    sample = str(root / "data" / "samples" / "wikipedia_en")
    command = [
        *RUN,
        "--corpus",
        sample,
        "--out",
        str(folder),
        "--prepare",
        "--vocab-size",
        "1000",
        "--dev-share",
        "0.2",
    ]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.stdout.splitlines()[-1] == str(folder), run.stderr
    return folder


def _command(corpus: Path, out: Path, *more: str, steps: int = 30) -> list[str]:
    return [*RUN, "--corpus", str(corpus), "--out", str(out), "--steps", str(steps), *SMALL, *more]


def _finish(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def whole(corpus: Path, environment: dict[str, str]) -> Path:
    """A run that nothing disturbed."""
    out = corpus.parent / "whole"
    metrics = _finish(_command(corpus, out), environment)
    assert metrics["step"] == 30
    assert 0 < metrics["dev_masked_loss"] < 8
    return out


def _log(out: Path) -> list[dict[str, str]]:
    with (out / "log.csv").open() as stream:
        return [
            {name: value for name, value in row.items() if name != "tokens_per_second"}
            for row in csv.DictReader(stream)
        ]


def _tensors(folder: Path) -> dict[str, np.ndarray]:
    """The numbers in a state. Its bytes are not compared: the order within the files is left to chance."""
    return {name: value for path in folder.iterdir() for name, value in load_file(path).items()}


def _assert_same(first_out: Path, second_out: Path) -> None:
    for name in FILES:
        assert (first_out / name).read_bytes() == (second_out / name).read_bytes(), name
    folders = [sorted((out / "checkpoints").iterdir()) for out in (first_out, second_out)]
    assert [path.name for path in folders[0]] == [path.name for path in folders[1]]
    for first, second in zip(*folders, strict=True):
        for name in ("model.safetensors", "config.json", "state.json", "vocab.txt"):
            assert (first / name).read_bytes() == (second / name).read_bytes(), name
        tensors, expected = (_tensors(folder / "state") for folder in (first, second))
        assert tensors.keys() == expected.keys()
        assert all(np.array_equal(tensors[name], expected[name]) for name in expected), first.name
    assert _log(first_out) == _log(second_out)


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_bits(
    corpus: Path, whole: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """kill -9 at random moments, some while a checkpoint is being written; then to the end."""
    out = tmp_path / "out"
    moments = random.Random(KILLS)
    killed = 0
    while killed < KILLS:
        process = subprocess.Popen(
            _command(corpus, out, "--resume"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
        )
        while not (out / "log.csv").exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(moments.uniform(0.5, 4.0) if killed else moments.uniform(0.1, 0.6))
        process.kill()
        _, errors = process.communicate()
        if process.returncode == 0:  # it came to the end before the knife
            break
        assert process.returncode == -signal.SIGKILL, errors
        killed += 1
    metrics = _finish(_command(corpus, out, "--resume"), environment)
    assert metrics["step"] == 30
    assert not list((out / "checkpoints").glob(".*"))
    _assert_same(out, whole)
    # A finished run that is resumed changes nothing and reports again.
    assert _finish(_command(corpus, out, "--resume"), environment)["step"] == 30
    _assert_same(out, whole)


@pytest.mark.slow
def test_a_truncated_checkpoint(corpus: Path, whole: Path, environment: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    path = sorted((out / "checkpoints").iterdir())[-1] / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    run = subprocess.run(_command(corpus, out, "--resume"), capture_output=True, text=True, env=environment)
    assert "warning: checkpoint-00000030 is damaged (wrong sha256 of model.safetensors)" in run.stderr
    assert "going on after step 27" in run.stderr
    _assert_same(out, whole)


@pytest.mark.slow
def test_full_disk_leaves_the_old_checkpoint(
    corpus: Path, whole: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """Space runs out (as a limit on file size) in the middle of a run; with space again, it goes on."""
    out = tmp_path / "out"
    _kill_after_first_checkpoint(_command(corpus, out), out, environment)
    before = sorted(path.name for path in (out / "checkpoints").glob("checkpoint-*"))
    assert before
    command = with_full_disk(_command(corpus, out, "--resume"), 100_000)
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr
    assert run.stderr.splitlines()[-1].startswith("d2lbert: cannot write ")
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == before
    _finish(_command(corpus, out, "--resume"), environment)
    _assert_same(out, whole)


def _kill_after_first_checkpoint(command: list[str], out: Path, environment: dict[str, str]) -> None:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    while not list(out.glob("checkpoints/checkpoint-*")):
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()


def test_interrupt_says_how_to_go_on(corpus: Path, environment: dict[str, str], tmp_path: Path) -> None:
    command = hearing_ctrl_c(_command(corpus, tmp_path / "out", steps=100_000))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        while not (tmp_path / "out" / "log.csv").exists():
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    said = re.search(r"interrupted after step (\d+); --resume goes on after step \1$", errors.splitlines()[-1])
    assert said is not None
    newest = max((tmp_path / "out" / "checkpoints").iterdir())
    assert int(newest.name.partition("-")[2]) == int(said[1]) > 0


def _complaint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run a mistake in this process; it must end in one line and status 2."""
    monkeypatch.setattr(sys, "argv", ["d2lbert", "pretrain", *map(str, arguments)])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() replaces it
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    # Before it may stand what the corpus holds, and the progress bar.
    lines = [line for line in errors.splitlines() if line.startswith("d2lbert: ")]
    assert len(lines) == 1, lines
    return lines[0]


def test_mistakes_are_one_line(
    corpus: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def complaint(*arguments: str | Path) -> str:
        return _complaint(monkeypatch, capsys, *arguments)

    out = ("--out", tmp_path / "out")
    assert "did you mean tiny" in complaint("--corpus", corpus, *out, "--config", "tny")
    assert "unknown model 'gtp': did you mean gpt" in complaint("--corpus", corpus, *out, "--model", "gtp")
    assert "unknown engine 'rey': did you mean ray" in complaint("--corpus", corpus, *out, "--engine", "rey")
    whole_words = ("--model", "gpt", "--whole-words")
    assert "hides nothing" in complaint("--corpus", corpus, *out, "--resume", *whole_words)
    assert "no corpus at nowhere" in complaint("--corpus", "nowhere", *out)
    assert "is not empty: choose a new folder, or give --resume" in complaint("--corpus", corpus, "--out", whole)
    assert "steps is 0" in complaint("--corpus", corpus, *out, "--steps", "0")
    assert "learning_rate is -1.0" in complaint("--corpus", corpus, *out, "--lr", "-1")
    assert "takes up to 512 tokens" in complaint("--corpus", corpus, *out, "--max-length", "513")
    assert "hidden_dropout_prob is 1.0" in complaint("--corpus", corpus, *out, "--dropout", "1")
    assert "initializer_range is 0.0" in complaint("--corpus", corpus, *out, "--initializer-range", "0")
    assert "dev_share is 1.0" in complaint("--corpus", corpus, *out, "--dev-share", "1")
    changed = [*_command(corpus, whole, "--resume", "--seed", "3")[4:]]
    assert "--resume: seed was 0 and is now 3" in complaint(*changed)
    (tmp_path / "empty.txt").write_text("")
    assert "holds no text" in complaint("--corpus", tmp_path / "empty.txt", *out)
    (tmp_path / "one.txt").write_text("One document only. It has two sentences.\n")
    single = ("--corpus", tmp_path / "one.txt", *out, "--resume", "--dev-share", "0", "--vocab-size", "100")
    assert "prediction needs 2 train documents of two sentences or more, and" in complaint(*single)


@pytest.mark.slow
def test_gpt(corpus: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """Killed after its first checkpoint, a GPT goes on to the bits of one that was never stopped."""
    gpt = ("--model", "gpt")
    metrics = _finish(_command(corpus, tmp_path / "whole", *gpt, steps=12), environment)
    assert 0 < metrics["dev_next_token_loss"] < 8
    _kill_after_first_checkpoint(_command(corpus, tmp_path / "cut", *gpt, steps=12), tmp_path / "cut", environment)
    _finish(_command(corpus, tmp_path / "cut", *gpt, "--resume", steps=12), environment)
    _assert_same(tmp_path / "cut", tmp_path / "whole")
    config = json.loads((tmp_path / "whole" / "config.json").read_text())
    assert (config["model_type"], config["vocab_size"], config["pad_token_id"]) == ("gpt2", 1000, 0)
    assert (config["bos_token_id"], config["eos_token_id"]) == (2, 3)


def test_one_call_from_text_to_model(root: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """Text files in, several of them; a vocabulary of one's own."""
    sample = root / "data" / "samples" / "wikipedia_en"
    vocab = tmp_path / "vocab.txt"
    words = ["the", "of", "and", *(f"{mark}{letter}" for mark in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz")]
    vocab.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    command = [*RUN, "--corpus", str(sample / "dev.txt"), str(sample / "train.txt"), "--vocab", str(vocab)]
    command += ["--out", str(tmp_path / "out"), "--steps", "2", *SMALL, "--no-next-sentence", "--whole-words"]
    command += ["--dropout", "0", "--initializer-range", "0.08"]
    metrics = _finish(command, environment)
    assert metrics["next_sentence_loss"] == 0.0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == 0.0
    assert config["initializer_range"] == 0.08
    assert (tmp_path / "out" / "vocab.txt").read_text() == vocab.read_text()
    shards = TokenShards.open(tmp_path / "out" / "data")
    assert shards.index["documents"] == 79
