"""``d2lbert finetune`` and what follows it, for every task; with nowhere to write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_support import Result, check_complaint, complaint, finetune_command, run

from d2lbert.torch.training import finetuning


def test_fine_tune_evaluate_predict(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(*finetune_command(encoder, train_file, out, "--epochs", "2", "--batch-size", "2"))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["epoch"] in (1, 2)
    tokenizer = {"tokenizer.json", "tokenizer_config.json", "vocab.txt"}
    model = {"README.md", "config.json", "model.safetensors", "training.json"}
    assert {path.name for path in out.iterdir()} == tokenizer | model
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "train.csv"]

    result = run("evaluate", "classification", "--model", out, "--data", train_file)
    metrics = json.loads(result.stdout.splitlines()[-1])
    assert metrics["examples"] == 4
    history = json.loads((out / "training.json").read_text())
    assert metrics["accuracy"] == max(record["accuracy"] for record in history)

    result = run("predict", "classification", "--model", out, "--text", "a good film", "--text", "poor")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["text"] for answer in answers] == ["a good film", "poor"]
    assert set(answers[0]["probabilities"]) == {"negative", "positive"}


def test_parts_of_speech_are_learned_scored_and_predicted(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("D2LBERT_DATA", raising=False)  # the sample: 32 sentences
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    out, data = tmp_path / "out", ("--train", "brown_universal", "--dev", "brown_universal")
    result = run("finetune", "tagging", "--model", encoder, *data, "--out", out, "--epochs", "1")
    assert result.returncode == 0, result.stderr
    assert {"accuracy", "f1_macro"} <= set(json.loads(result.stdout.splitlines()[-1]))
    result = run("predict", "tagging", "--model", out, "--text", "a good film")
    answer = json.loads(result.stdout.splitlines()[-1])
    assert len(answer["tags"]) == len(answer["words"]) == len(answer["probabilities"]) == 3


def test_output_folder_that_cannot_be_used(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    assert "cannot write to folder" in complaint(*finetune_command(encoder, train_file, Path("/proc/nothing/out")))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    assert "is not empty" in complaint(*finetune_command(encoder, train_file, tmp_path / "full"))
    assert (tmp_path / "full" / "thesis.txt").read_text() == "years of work"
    assert "cannot write to folder" in complaint(*finetune_command(encoder, train_file, train_file / "out"))
    assert "train.csv is a file: choose a new folder" in complaint(*finetune_command(encoder, train_file, train_file))


def test_a_model_that_cannot_be_moved_is_not_lost(
    encoder: Path, train_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody makes a file of that name while the model learns."""
    out, real = tmp_path / "out", finetuning.fine_tune

    def slow(*args: Any, **options: Any) -> list[dict[str, float]]:
        history = real(*args, **options)
        out.write_text("years of work")
        return history

    monkeypatch.setattr(finetuning, "fine_tune", slow)
    line = complaint(*finetune_command(encoder, train_file, out, "--epochs", "1"))
    folder = Path(line.split("the trained model is in ")[1])
    assert len(list(folder.iterdir())) == 7
    assert out.read_text() == "years of work"


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_that_somebody_fills_meanwhile_is_not_touched(
    encoder: Path, train_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    out, real = tmp_path / "out", finetuning.fine_tune
    if exists:
        out.mkdir()

    def slow(*args: Any, **options: Any) -> list[dict[str, float]]:
        history = real(*args, **options)
        out.mkdir(exist_ok=True)
        (out / "config.json").write_text("years of work")
        return history

    monkeypatch.setattr(finetuning, "fine_tune", slow)
    line = complaint(*finetune_command(encoder, train_file, out, "--epochs", "1"))
    folder = Path(line.split("the trained model is in ")[1])
    assert len(list(folder.iterdir())) == 7
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("config.json", "years of work")]
    assert run("evaluate", "classification", "--model", folder, "--data", train_file).returncode == 0


def test_a_second_run_ends_at_once(
    encoder: Path, train_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started while the first one trains; the first one knows nothing of it."""
    out, real, lines = tmp_path / "out", finetuning.fine_tune, []

    def slow(*args: Any, **options: Any) -> list[dict[str, float]]:
        monkeypatch.setattr(finetuning, "fine_tune", real)
        second = subprocess.run(
            [sys.executable, "-m", "d2lbert.cli", *map(str, finetune_command(encoder, "nothing", out))],
            capture_output=True, text=True,
        )  # fmt: skip
        lines.append(check_complaint(Result(second.returncode, second.stdout, second.stderr)))
        return real(*args, **options)

    monkeypatch.setattr(finetuning, "fine_tune", slow)
    assert run(*finetune_command(encoder, train_file, out, "--epochs", "1")).returncode == 0
    assert lines == [f"d2lbert: another run writes into --out {out}: wait for its end, or choose another"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "train.csv"]
    assert len(list(out.iterdir())) == 7


def test_this_folder_may_be_the_output(
    encoder: Path, train_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert run(*finetune_command(encoder, train_file, Path("."), "--epochs", "1", "--resume")).returncode == 0
    assert len(list((tmp_path / "empty").iterdir())) == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "train.csv"]


def test_scores_are_printed_whatever_becomes_of_the_predictions(classifier: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\na good film,positive\na poor film,negative\n")
    evaluate = ("evaluate", "classification", "--model", classifier, "--data", texts, "--predictions")
    assert "is a folder: name a file" in complaint(*evaluate, tmp_path)
    result = run(*evaluate, "/proc/nothing/answers.jsonl")
    assert result.returncode == 2
    assert json.loads(result.stdout)["examples"] == 2


def test_existing_empty_folder_is_filled(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    """It may be a mounted volume, whose folder can be neither removed nor renamed."""
    out = tmp_path / "volume"
    out.mkdir()
    number = out.stat().st_ino
    result = run(*finetune_command(encoder, train_file, out, "--epochs", "1"))
    assert result.returncode == 0, result.stderr
    assert out.stat().st_ino == number
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.csv", "volume"]
    assert len(list(out.iterdir())) == 7
    assert run("evaluate", "classification", "--model", out, "--data", train_file).returncode == 0


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epochs", "0", "epochs is 0"),
        ("--lr", "-1", "learning_rate is -1.0"),
        ("--lr", "nan", "learning_rate is nan"),
        ("--seed", "-1", "seed is -1"),
        ("--max-length", "600", "takes 3 to 512 tokens"),
        ("--epochs", "many", "should be a valid integer"),
        ("--format", "xml", "unknown format 'xml'"),
    ],
)
def test_settings_that_cannot_be(
    encoder: Path, train_file: Path, tmp_path: Path, option: str, value: str, message: str
) -> None:
    assert message in complaint(*finetune_command(encoder, train_file, tmp_path / "out", option, value))
    assert not (tmp_path / "out").exists()


PAIR_LINES = "1\t1\t2\tA good film.\tThe film is good.\n0\t3\t4\tA good plot.\tA bad film.\n"


@pytest.fixture
def pair_file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.txt"
    path.write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + PAIR_LINES * 2)
    return path


def test_pairs_from_fine_tuning_to_predictions(encoder: Path, pair_file: Path, tmp_path: Path) -> None:
    out, files = tmp_path / "out", ["--train", pair_file, "--dev", pair_file, "--format", "mrpc"]
    settings = ["--epochs", "1", "--best-by", "f1", "--layer-decay", "0.9", "--balanced", "--resume"]
    result = run("finetune", "pair", "--model", encoder, *files, "--out", out, *settings)
    assert result.returncode == 0, result.stderr
    assert "dev f1" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "pairs.txt"]
    result = run("evaluate", "pair", "--model", out, "--data", pair_file, "--format", "mrpc")
    metrics = json.loads(result.stdout.splitlines()[-1])
    assert metrics["examples"] == 4
    assert {"accuracy", "f1", "matthews"} <= set(metrics)
    rows = [json.loads(line) for line in (out / "predictions-pairs.txt.jsonl").read_text().splitlines()]
    assert rows[1]["example"] == {"first": "A good plot.", "second": "A bad film.", "label": "different"}
    right = [row["label"] == row["example"]["label"] for row in rows]
    assert sum(right) / 4 == metrics["accuracy"]
    result = run("predict", "pair", "--model", out, "--text", "A good film.", "--pair", "The film is good.")
    answer = json.loads(result.stdout)
    assert answer["pair"] == "The film is good."
    assert answer["probabilities"] == pytest.approx(rows[0]["probabilities"], abs=1e-5)


def test_scores_from_fine_tuning_to_predictions(encoder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = ["--train", "stsb_en", "--dev", "stsb_en"]
    result = run("finetune", "pair", "--model", encoder, *names, "--out", out, "--epochs", "1")
    assert result.returncode == 0, result.stderr
    answers = tmp_path / "answers.jsonl"
    result = run("evaluate", "pair", "--model", out, "--data", "stsb_en", "--predictions", answers)
    assert set(json.loads(result.stdout.splitlines()[-1])) == {"spearman", "pearson", "mean_squared_error", "examples"}
    assert len(answers.read_text().splitlines()) == 84
    result = run("predict", "pair", "--model", out, "--text", "A boat.", "--pair", "A ship.")
    assert set(json.loads(result.stdout)) == {"text", "pair", "score"}
    assert "needs two labels" in complaint("predict", "classification", "--model", out, "--text", "A boat.")


def test_tags_from_fine_tuning_to_predictions(encoder: Path, tmp_path: Path) -> None:
    out, train = tmp_path / "out", tmp_path / "train.conll"
    train.write_text("A O\ngood O\nfilm B-ART\n\nA O\nbad O\nplot B-ART\ntwist I-ART\n" * 3)
    result = run("finetune", "tagging", "--model", encoder, "--train", train, "--dev", train, "--out", out)
    assert "dev f1" in result.stdout, result.stderr
    result = run("evaluate", "tagging", "--model", out, "--data", train)
    assert {"f1", "examples"} < set(metrics := json.loads(result.stdout.splitlines()[-1]))
    rows = [json.loads(line) for line in (out / "predictions-train.conll.jsonl").read_text().splitlines()]
    pairs = [pair for row in rows for pair in zip(row["tags"], row["example"]["tags"], strict=True)]
    assert sum(predicted == expected for predicted, expected in pairs) / len(pairs) == metrics["accuracy"]
    result = run("predict", "tagging", "--model", out, "--text", "A good plot, a bad film.")
    assert len(json.loads(result.stdout)["tags"]) == 8
    train.write_text("A O\nfilm B-FILM\n")
    assert "tag 'B-FILM' is not one of" in complaint("evaluate", "tagging", "--model", out, "--data", train)
    assert "holds no tagged sentences" in complaint("evaluate", "tagging", "--model", out, "--data", "sst2")
    assert "not of BertForSequence" in complaint("evaluate", "classification", "--model", out, "--data", "sst2")


def test_choices_from_fine_tuning_to_predictions(encoder: Path, tmp_path: Path) -> None:
    out, names = tmp_path / "out", ["--train", "copa", "--dev", "copa"]
    settings = ["--out", out, "--epochs", "2", "--resume"]
    result = run("finetune", "multiple_choice", "--model", encoder, *names, *settings)
    assert "dev accuracy" in result.stdout, result.stderr
    result = run("evaluate", "multiple_choice", "--model", out, "--data", "copa")
    metrics = json.loads(result.stdout.splitlines()[-1])
    assert metrics["examples"] == 12
    rows = [json.loads(line) for line in (out / "predictions-copa-dev.jsonl").read_text().splitlines()]
    assert sum(row["place"] == row["example"]["answer"] for row in rows) / 12 == metrics["accuracy"]
    example = rows[0]["example"]
    choices = [word for choice in example["choices"] for word in ("--pair", choice)]
    result = run("predict", "multiple_choice", "--model", out, "--text", example["premise"], *choices)
    answer = json.loads(result.stdout)
    assert (answer["text"], answer["choice"]) == (example["premise"], rows[0]["choice"])
    assert answer["probabilities"] == pytest.approx(rows[0]["probabilities"], abs=1e-5)
    third = run("predict", "multiple_choice", "--model", out, "--text", "a", *choices, "--pair", "c")
    assert len(json.loads(third.stdout)["probabilities"]) == 3
    swag = tmp_path / "swag.csv"  # four endings, measured by a model that was trained on two alternatives
    swag.write_text("sent1,sent2,ending0,ending1,ending2,ending3,label\nHe sits.,He,runs.,stands up.,is.,sings.,1\n")
    result = run("evaluate", "multiple_choice", "--model", out, "--data", swag)
    assert json.loads(result.stdout.splitlines()[-1])["examples"] == 1
    (row,) = [json.loads(line) for line in (out / "predictions-swag.csv.jsonl").read_text().splitlines()]
    assert row["choice"] == ("He runs.", "He stands up.", "He is.", "He sings.")[row["place"]]


def test_mistakes_with_choices(encoder: Path, pair_file: Path, tmp_path: Path) -> None:
    ask = ("predict", "multiple_choice", "--model", encoder, "--text", "a", "--pair", "b")
    assert "give one --text, the premise, and two or more --pair" in complaint(*ask)
    assert "2 --text and 2 --pair" in complaint(*ask, "--pair", "c", "--text", "d")
    assert "--pair is empty" in complaint(*ask, "--pair", " ")
    assert "no head for choices; fine-tune it first" in complaint(*ask, "--pair", "c")
    start = ("finetune", "multiple_choice", "--model", encoder, "--out", tmp_path / "out", "--train")
    assert "no questions with choices" in complaint(*start, "sst2", "--dev", "sst2")
    assert "no column 'sent1'" in complaint(*start, pair_file, "--dev", pair_file)
    assert "balanced weighs labels" in complaint(*start, "copa", "--dev", "copa", "--balanced")
    assert not (tmp_path / "out").exists()


def test_mistakes_with_pairs(encoder: Path, classifier: Path, pair_file: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    files = ("--train", pair_file, "--dev", pair_file)
    assert "no column 'sentence'" in complaint("finetune", "classification", "--model", encoder, *files, *out,
                                               "--format", "glue-tsv")  # fmt: skip
    assert "unknown format" in complaint("finetune", "pair", "--model", encoder, *files, *out, "--format", "sst2")
    assert "no pairs of texts" in complaint("finetune", "pair", "--model", encoder, "--train", "sst2", "--dev", "sst2",
                                            *out)  # fmt: skip
    assert "one --pair for each" in complaint("predict", "pair", "--model", classifier, "--text", "a")
    assert "leave it out" in complaint("predict", "classification", "--model", classifier, "--text", "a", "--pair", "b")
    assert "--pair is empty" in complaint("predict", "pair", "--model", classifier, "--text", "a", "--pair", " ")
    assert "unknown score best_by" in complaint("finetune", "pair", "--model", encoder, *files, "--format", "mrpc",
                                                *out, "--best-by", "bleu", "--epochs", "1")  # fmt: skip
    assert not (tmp_path / "out").exists()
