"""Signals at any moment, two runs at once, clocks that go back: nothing is lost, a resumed run has the same bits."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import Command, Ended, ForkServer

SURFACE = "2 crash safety"
Attack, Refused = Callable[..., Ended], Callable[..., None]
FINETUNE = ("finetune", "classification", "--model", "d2lbert-tiny", "--train", "train.csv", "--dev", "train.csv")
PRETRAIN = ("pretrain", "--corpus", "corpus.txt", "--dev-share", "0", "--vocab-size", "300", "--max-length", "24")
STEPS = ("--steps", "24", "--batch-size", "4", "--save-every", "4")
SENTENCE = "The river runs to the sea. A boat lies at the bank. They waited for the tide.\n"
# Each step takes long enough to be met by a signal. What a test waits for is the state on the disk, never a time.
SLOW_STEPS = """
import os, signal, time
from pathlib import Path
from torch.optim import AdamW
step, folder, number = AdamW.step, {folder!r}, {number}
def wait(self, closure=None):
    step(self, closure)
    if len(list(Path(folder).glob("checkpoint-*"))) >= 2:
        os.kill(os.getpid(), number)
AdamW.step = wait
"""


FINETUNE_FOUR = (*FINETUNE, "--epochs", "4", "--batch-size", "8")
PRETRAIN_24 = (*PRETRAIN, *STEPS)
WRITTEN = ("model.safetensors", "config.json", "vocab.txt")


def _write_corpus(folder: Path) -> None:
    documents = [SENTENCE.replace("river", word) for word in ("river", "road", "wind", "path", "train", "stream")]
    (folder / "corpus.txt").write_text("\n".join(documents))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    _write_corpus(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def whole(server: ForkServer, tmp_path_factory: pytest.TempPathFactory, table: str) -> Path:
    """The folders ``finetune`` and ``pretrain`` of runs that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "train.csv").write_text(table)
    _write_corpus(folder)
    for words in (FINETUNE_FOUR, PRETRAIN_24):
        ended = server.run(Command([*words, "--out", words[0]], str(folder)))
        assert ended.status == 0, ended.stderr
    return folder


def _resumed(attack: Attack, words: tuple[str, ...], checkpoints: str, number: int, out: Path) -> None:
    """Run a command that kills itself once it has two checkpoints, then resume it."""
    ended = attack(*words, "--out", out, "--resume", before=SLOW_STEPS.format(folder=checkpoints, number=number))
    assert ended.status in (130, -signal.SIGKILL, -signal.SIGTERM), ended
    assert "Traceback" not in ended.stderr
    assert not (out / "model.safetensors").exists()
    ended = attack(*words, "--out", out, "--resume")
    assert ended.status == 0, ended.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_fine_tuning_goes_on_with_the_same_bits(
    number: int, train: Path, attack: Attack, whole: Path, tmp_path: Path
) -> None:
    _resumed(attack, FINETUNE_FOUR, "cut.checkpoint", number, tmp_path / "cut")
    assert not (tmp_path / "cut.checkpoint").exists()
    for name in WRITTEN:
        assert (tmp_path / "cut" / name).read_bytes() == (whole / "finetune" / name).read_bytes(), name


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_pretraining_goes_on_with_the_same_bits(
    number: int, corpus: Path, attack: Attack, whole: Path
) -> None:
    _resumed(attack, PRETRAIN_24, "cut/checkpoints", number, corpus / "cut")
    for name in WRITTEN:
        assert (corpus / "cut" / name).read_bytes() == (whole / "pretrain" / name).read_bytes(), name


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.15, 0.3, 0.6])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_leaves_a_whole_model_or_none(
    number: int, seconds: float, train: Path, attack: Attack, tmp_path: Path
) -> None:
    ended = attack(*FINETUNE, "--out", "out", "--epochs", "2", signals=[(seconds, number)])
    assert ended.status in (0, 130, -number), ended
    if ended.status == 130:
        assert "Traceback" not in ended.stderr
    if (tmp_path / "out").exists():
        assert (tmp_path / "out" / "config.json").is_file()
        assert attack("predict", "classification", "--model", "out", "--text", "good").status == 0
    if ended.status != -signal.SIGTERM:  # what SIGTERM ends cannot clean up
        assert not list(tmp_path.glob(".d2lbert-*"))


@pytest.mark.slow
def test_two_runs_into_one_folder(train: Path, root: Path, tmp_path: Path, attack: Attack) -> None:
    """The second begins while the first trains: it ends at once, in one line."""
    waits = "\n".join(
        (
            "import time",
            "from pathlib import Path",
            "from torch.optim import AdamW",
            "step = AdamW.step",
            "def wait(self, closure=None):",
            "    Path('begun').touch()",
            "    while not Path('ended').exists(): time.sleep(0.01)",
            "    return step(self, closure)",
            "AdamW.step = wait",
        )
    )
    other = ForkServer(root)
    ends: list[Ended] = []
    words = [*FINETUNE, "--out", "out", "--epochs", "1"]
    thread = threading.Thread(target=lambda: ends.append(other.run(Command(words, str(tmp_path), before=waits))))
    thread.start()
    while not (tmp_path / "begun").exists() and thread.is_alive():
        threading.Event().wait(0.01)
    try:
        second = attack(*words, "--seed", "1")
    finally:
        (tmp_path / "ended").touch()
        thread.join()
        other.close()
    assert ends[0].status == 0, ends
    assert second.status == 2, second


BACKWARDS = """
import time
def backwards(function, start):
    state = [start]
    def clock():
        state[0] -= 7.5
        return state[0]
    return clock
time.time = backwards(time.time, time.time())
time.perf_counter = backwards(time.perf_counter, 1000.0)
time.monotonic = backwards(time.monotonic, 1000.0)
"""
STOPPED = "import time\ntime.time = lambda: 0.0\ntime.perf_counter = lambda: 0.0\ntime.monotonic = lambda: 0.0\n"


@pytest.mark.parametrize("clock", [BACKWARDS, STOPPED], ids=["backwards", "stopped"])
@pytest.mark.parametrize("kind", ["finetune", "pretrain"])
def test_clocks(
    clock: str, kind: str, train: Path, corpus: Path, attack: Attack, accepted: Callable[[Ended], None]
) -> None:
    """A clock that is set back changes no weight and stops no run."""
    words = (*FINETUNE, "--epochs", "2") if kind == "finetune" else (*PRETRAIN, "--steps", "6", "--batch-size", "4")
    accepted(attack(*words, "--out", "plain"))
    ended = attack(*words, "--out", "odd", before=clock)
    accepted(ended)
    json.loads(ended.stdout.splitlines()[-1])
    weights = [(corpus / name / "model.safetensors").read_bytes() for name in ("plain", "odd")]
    assert weights[0] == weights[1]
