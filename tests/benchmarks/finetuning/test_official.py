"""The official sets end to end on stand-ins of their archives: trained for a moment, scored, kept, taken up again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from official_support import publish, random_bert

from benchmarks import archives, official_sets
from benchmarks.finetuning import official
from d2lbert.torch.training import finetuning

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
LIMIT = 12
# A process of its own, not a fork: a fork of a process whose PyTorch has threads may wait for them for ever.
KILLED_AFTER_ONE_EPOCH = """
import os, signal
from benchmarks.finetuning import official
from d2lbert.torch.training import finetuning

real = finetuning.save_checkpoint

def save(folder, *rest):  # as by a power cut, right after the first epoch's checkpoint of the second set
    real(folder, *rest)
    if "sst2" in str(folder):
        os.kill(os.getpid(), signal.SIGKILL)

finetuning.save_checkpoint = save
official.main()
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archives")
    publish(folder)
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_bert(tmp_path_factory.mktemp("models") / "random", old_names=True, **SIZES)


@pytest.fixture
def call(
    published: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """Run the script, write its results into a temporary folder, and return what it wrote for the model."""
    monkeypatch.setattr("benchmarks.record.ROOT", tmp_path)

    def run(*arguments: str, trial: bool = True, runs: Path = tmp_path / "runs") -> dict[str, Any]:
        fixed = ["--data", str(published), "--runs", str(runs), "--model", str(encoder)]
        monkeypatch.setattr("sys.argv", ["official", *fixed, *arguments])
        official.main()
        path = runs / "trial.json" if trial else tmp_path / "results" / "finetuning" / "official.json"
        content: dict[str, Any] = json.loads(path.read_text())
        return content["metrics"]

    return run


def _as_if_published(monkeypatch: pytest.MonkeyPatch) -> None:
    real = archives.get
    monkeypatch.setattr(official_sets, "get", lambda *arguments: (*real(*arguments)[:2], True))


@pytest.mark.slow
def test_every_set_is_trained_and_scored(
    call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("d2lbert.data.is_sample", lambda name: False)  # the sample stands in for CoNLL-2003
    rows = call("--limit", str(LIMIT))
    assert list(rows) == ["folder random"]  # never BERT-base
    assert {row.split(", ")[0] for row in rows["folder random"]} == set(official_sets.SETS)
    assert {"mnli, matched", "mnli, mismatched", "mrpc, dev", "mrpc, test"} <= set(rows["folder random"])
    for row in rows["folder random"].values():
        assert 0 <= row["standard error of examples"] < 1
        assert row["n"] == 1
        assert row["train"] == LIMIT
        assert row["rate chosen on"] == "nothing: fixed before"
        assert row["model"] == {"layers": 2, "width": 32, "parameters": row["model"]["parameters"]}
    assert rows["folder random"]["rte, dev"]["paper"] == {"BERT-base": 66.4, "BERT-large": 70.1}
    assert rows["folder random"]["mnli, mismatched"]["paper"]["BERT-base"] == 83.4
    assert rows["folder random"]["qnli, dev"]["paper"] == {"BERT-base": 90.5, "BERT-large": 92.7}  # of the set of 2019
    assert "best_f1" in rows["folder random"]["squad20, dev"]["all scores"][0]
    assert not (tmp_path / "results").exists()


def test_other_files_than_the_published_are_a_trial(
    call: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call("--sets", "rte")
    assert "rte: a trial, not a result: other files than published" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()


def test_a_result_keeps_the_rows_of_other_sets_and_models(
    call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _as_if_published(monkeypatch)
    path = tmp_path / "results" / "finetuning" / "official.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"metrics": {"other": {"rte, dev": {"mean": 1}}}}))
    call("--sets", "rte", trial=False)
    rows = call("--sets", "sst2", "--seeds", "0", "1", trial=False)
    assert rows["other"] == {"rte, dev": {"mean": 1}}
    assert set(rows["folder random"]) == {"rte, dev", "sst2, dev"}
    assert rows["folder random"]["sst2, dev"]["n"] == 2


def test_conll_is_left_out_or_refused_before_anything_is_trained(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[str] = []
    monkeypatch.setattr("d2lbert.data.is_sample", lambda name: True)
    monkeypatch.setattr(official, "measure", lambda name, *rest: (trained.append(name), ({}, False))[1])
    call()
    assert trained == [name for name in official_sets.SETS if name != "conll2003"]
    assert "conll2003 is left out" in capsys.readouterr().out
    trained.clear()
    with pytest.raises(SystemExit):
        call("--sets", "rte", "conll2003")
    assert "CoNLL-2003 is not here" in capsys.readouterr().err.splitlines()[-1]
    assert not trained


def test_a_finished_run_is_read_and_its_checkpoint_is_gone(call: Callable[..., Any], tmp_path: Path) -> None:
    call("--sets", "rte")
    (kept,) = (tmp_path / "runs").glob("**/rte.json")
    assert not list((tmp_path / "runs").glob("**/*.checkpoint"))
    content = json.loads(kept.read_text())
    content["found"]["parts"]["dev"]["scores"]["accuracy"] = 0.123
    kept.write_text(json.dumps(content))
    assert call("--sets", "rte")["folder random"]["rte, dev"]["mean"] == 0.123


def test_the_rate_is_chosen_on_a_part_of_train(
    call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(official, "RATES", (1e-3, 1e-5))
    seen = []
    real = official.fine_tune
    monkeypatch.setattr(
        official,
        "fine_tune",
        lambda *arguments, **rest: seen.append((len(arguments[3]), len(arguments[4]))) or real(*arguments, **rest),
    )
    row = call("--sets", "rte", "--choose")["folder random"]["rte, dev"]
    assert row["rate"] in (1e-3, 1e-5)
    assert seen == [(22, 2), (22, 2), (24, 12)]  # the choice never sees the 12 that are scored


def test_a_killed_run_goes_on_to_the_same_scores(
    root: Path,
    published: Path,
    encoder: Path,
    call: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sets = ["--sets", "rte", "sst2"]
    whole = call(*sets, runs=tmp_path / "unbroken")["folder random"]
    runs = tmp_path / "broken"
    arguments = [*sets, "--data", str(published), "--runs", str(runs), "--model", str(encoder)]
    child = subprocess.run([sys.executable, "-c", KILLED_AFTER_ONE_EPOCH, *arguments], cwd=root)
    assert child.returncode == -signal.SIGKILL
    kept = json.loads((runs / "trial.json").read_text())["metrics"]["folder random"]
    assert set(kept) == {"rte, dev"}  # the first set is recorded although the second never ended
    assert list(runs.glob("**/sst2.checkpoint"))
    epochs = []
    real = finetuning.train_epoch
    monkeypatch.setattr(finetuning, "train_epoch", lambda run, bar: epochs.append(1) or real(run, bar))
    resumed = call(*sets, runs=runs)["folder random"]
    assert len(epochs) == 2  # of three: one was in the checkpoint, and rte's run was read
    assert {name: row["all scores"] for name, row in resumed.items()} == {
        name: row["all scores"] for name, row in whole.items()
    }


def test_files_for_the_server(call: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "server"
    call("--sets", "cola", "mnli", "stsb", "qqp", "--submit", str(target))
    lines = {path.stem: path.read_text().splitlines() for path in target.glob("*.tsv")}
    assert set(lines) == {"CoLA", "MNLI-m", "MNLI-mm", "AX", "STS-B", "QQP", "WNLI"}
    for name, allowed in (("CoLA", {"0", "1"}), ("QQP", {"0", "1"}), ("WNLI", {"0"})):
        assert lines[name][0] == "index\tprediction"
        assert [line.split("\t")[0] for line in lines[name][1:]] == [str(i) for i in range(24)]
        assert {line.split("\t")[1] for line in lines[name][1:]} <= allowed
    assert {line.split("\t")[1] for line in lines["AX"][1:]} <= {"entailment", "neutral", "contradiction"}
    assert all(0 <= float(line.split("\t")[1]) <= 5 for line in lines["STS-B"][1:])
    assert "still missing: SST-2, MRPC, QNLI, RTE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "3"], "--limit 3 leaves too little"),
        (["--model", "minilmm"], "unknown model 'minilmm': did you mean minilm"),
    ],
)
def test_mistakes_are_one_line(
    call: Callable[..., Any], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        call(*arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_a_bert_of_full_size_in_the_hubs_old_names(published: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    base = random_bert(
        tmp_path / "base",
        old_names=True,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
    )
    rows = call("--sets", "rte", "squad11", "--limit", str(LIMIT), "--model", str(base))["folder base"]
    assert {row["model"]["layers"] for row in rows.values()} == {12}
    assert {row["examples"] for row in rows.values()} == {LIMIT}
