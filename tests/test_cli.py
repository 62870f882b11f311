"""The command line, as a user meets it: what works, and one line for every mistake."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from d2lbert.cli import main
from d2lbert.config import BertConfig
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.zoo import locate

TEXTS = [
    ("what a good film", "positive"),
    ("a bad plot", "negative"),
    ("fine and good", "positive"),
    ("poor", "negative"),
]


@dataclass
class Result:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(autouse=True)
def samples_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No data but the samples, and no network."""
    monkeypatch.delenv("D2LBERT_DATA", raising=False)
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() replaces it


def run(*arguments: str | Path) -> Result:
    """Run the command in this process: importing PyTorch for each would take most of the time."""
    stdout, stderr, status = io.StringIO(), io.StringIO(), 0
    before = sys.argv
    sys.argv = ["d2lbert", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            main()
    except SystemExit as error:
        status = int(error.code or 0)
    finally:
        sys.argv = before
    return Result(status, stdout.getvalue(), stderr.getvalue())


def complaint(*arguments: str | Path) -> str:
    """Run a mistake; check that it ends in one line and status 2, and return the line."""
    return check_complaint(run(*arguments))


def check_complaint(result: Result) -> str:
    lines = [line for line in result.stderr.splitlines() if line.strip() and not line.startswith("warning:")]
    lines = [line for line in lines if "%|" not in line]  # the progress bar
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("d2lbert: ")
    return lines[0]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder with random weights and MiniLM's vocabulary."""
    folder = tmp_path_factory.mktemp("models") / "encoder"
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(**sizes)).save_pretrained(folder)
    WordPiece.from_pretrained(locate("minilm")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def classifier(encoder: Path) -> Path:
    folder = encoder.parent / "classifier"
    model = BertForSequenceClassification(BertModel.from_pretrained(encoder), ["negative", "positive"])
    model.save_pretrained(folder)
    WordPiece.from_pretrained(encoder).save_pretrained(folder)
    return folder


@pytest.fixture
def train_file(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in TEXTS))
    return path


def _finetune(encoder: Path, train: str | Path, out: Path, *more: str) -> list[str | Path]:
    return ["finetune", "classification", "--model", encoder, "--train", train, "--dev", train, "--out", out, *more]


def test_fine_tune_evaluate_predict(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(*_finetune(encoder, train_file, out, "--epochs", "2", "--batch-size", "2"))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["epoch"] in (1, 2)
    names = ["config.json", "model.safetensors", "tokenizer_config.json", "training.json", "vocab.txt"]
    assert sorted(path.name for path in out.iterdir()) == names
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


def test_named_data_falls_back_on_the_sample_and_says_so(classifier: Path) -> None:
    result = run("evaluate", "classification", "--model", classifier, "--data", "sst2")
    assert result.returncode == 0, result.stderr
    assert "warning: sst2: a small SAMPLE" in result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["examples"] == 80


def test_help_and_data_list_need_no_framework() -> None:
    program = (
        "import sys; from d2lbert.cli import app\n"
        "app(['data', 'list'], standalone_mode=False)\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "False"
    assert any(line.startswith("sst2 ") for line in result.stdout.splitlines())


def test_long_text_is_cut_with_a_note(classifier: Path) -> None:
    result = run("predict", "classification", "--model", classifier, "--text", "good film " * 10_000)
    assert result.returncode == 0, result.stderr
    assert "warning: 1 of 1 texts cut after 128 tokens" in result.stderr
    assert json.loads(result.stdout)["label"] in ("negative", "positive")


def test_words_of_the_command_line() -> None:
    assert "Missing command" in complaint()
    assert "Missing argument" in complaint("predict")
    assert "planned, not built" in complaint("predict", "multiple_choice", "--model", "x", "--text", "y")
    assert "unknown task" in complaint("predict", "clasification", "--model", "x", "--text", "y")
    assert "did you mean sst2" in complaint("data", "fetch", "sst22")


def test_models_that_are_not_there(classifier: Path, encoder: Path, tmp_path: Path) -> None:
    text = ("--text", "good")
    assert "not a model folder" in complaint("predict", "classification", "--model", tmp_path / "none", *text)
    assert "did you mean minilm" in complaint("predict", "classification", "--model", "minlm", *text)
    assert "names no labels" in complaint("predict", "classification", "--model", encoder, *text)
    assert "cannot read" in complaint("predict", "classification", "--model", tmp_path, *text)


def test_empty_text(classifier: Path) -> None:
    predict = ("predict", "classification", "--model", classifier, "--text")
    assert "--text is empty" in complaint(*predict, "  ")
    # A zero-width space is no white space to Python, but the tokenizer drops it.
    assert "holds nothing that the tokenizer keeps" in complaint(*predict, "\u200b")


def test_vocabulary_that_does_not_fit_the_weights(classifier: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(classifier, folder)
    with (folder / "vocab.txt").open("a") as vocabulary:
        vocabulary.write("onemorepiece\n")
    line = complaint("predict", "classification", "--model", folder, "--text", "good")
    assert "vocab.txt has 30,523 pieces but the model has 30,522 embeddings" in line


def test_damaged_weights_and_another_architecture(classifier: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(classifier, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "damaged" in complaint("predict", "classification", "--model", folder, "--text", "good")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "roberta"}))
    assert "model_type is 'roberta'" in complaint("predict", "classification", "--model", folder, "--text", "good")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,lable\na,positive\n", "label"),
        ("text,label\ngood,positive\n,negative\n", "empty"),
        ("text,label\ngood,positive\nbad\n", "line 3"),
        ("text,label\ngood,positive\nbad,positive\n", "needs two labels"),
        ("", "no column 'text'"),
        ("text,label\n", "no examples"),
    ],
)
def test_files_that_cannot_be_read(encoder: Path, tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "train.csv"
    path.write_text(content)
    line = complaint(*_finetune(encoder, path, tmp_path / "out"))
    assert message in line
    assert not (tmp_path / "out").exists()


def test_label_outside_the_set(classifier: Path, tmp_path: Path) -> None:
    path = tmp_path / "dev.csv"
    path.write_text("text,label\ngood,positive\nbad,awful\n")
    line = complaint("evaluate", "classification", "--model", classifier, "--data", path)
    assert "awful" in line
    assert "dev.csv" in line


def test_missing_file_and_unknown_set(encoder: Path, tmp_path: Path) -> None:
    assert "no file" in complaint(*_finetune(encoder, tmp_path / "nothing.csv", tmp_path / "out"))
    assert "did you mean sst2" in complaint(*_finetune(encoder, "sst3", tmp_path / "out"))
    assert "no labelled sentences" in complaint(*_finetune(encoder, "wic", tmp_path / "out"))


def test_output_folder_that_cannot_be_used(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    assert "cannot write to folder" in complaint(*_finetune(encoder, train_file, Path("/proc/nothing/out")))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    assert "is not empty" in complaint(*_finetune(encoder, train_file, tmp_path / "full"))
    assert (tmp_path / "full" / "thesis.txt").read_text() == "years of work"
    assert "cannot write to folder" in complaint(*_finetune(encoder, train_file, train_file / "out"))


def test_existing_empty_folder_is_filled(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    """It may be a mounted volume, whose folder can be neither removed nor renamed."""
    out = tmp_path / "volume"
    out.mkdir()
    number = out.stat().st_ino
    result = run(*_finetune(encoder, train_file, out, "--epochs", "1"))
    assert result.returncode == 0, result.stderr
    assert out.stat().st_ino == number
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.csv", "volume"]
    assert len(list(out.iterdir())) == 5
    assert run("evaluate", "classification", "--model", out, "--data", train_file).returncode == 0


def test_interrupt_writes_nothing(encoder: Path, tmp_path: Path) -> None:
    """Ctrl-C in the middle of the training: one line, no traceback, no folder."""
    command = [sys.executable, "-m", "d2lbert.cli", "finetune", "classification", "--model", str(encoder)]
    command += ["--train", "sst2", "--dev", "sst2", "--out", str(tmp_path / "out"), "--epochs", "100000"]

    def listen() -> None:  # a shell that starts the tests in the background makes their children deaf to Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listen
    ) as process:
        assert process.stderr is not None
        head = ""
        while "epoch 1" not in head:  # the progress bar says that the training has begun
            head += process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.splitlines()[-1] == "interrupted; nothing was written"
    assert "Traceback" not in head + stderr
    assert not stdout
    assert not list(tmp_path.iterdir())


def test_full_disk_leaves_nothing(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    """A limit on file size stops the writing of the weights in the middle, as a full disk does."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    command = [sys.executable, "-m", "d2lbert.cli"]
    command += map(str, _finetune(encoder, train_file, tmp_path / "out", "--epochs", "1"))
    process = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    line = check_complaint(Result(process.returncode, process.stdout, process.stderr))
    assert "cannot write" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.csv"]


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
    assert message in complaint(*_finetune(encoder, train_file, tmp_path / "out", option, value))
    assert not (tmp_path / "out").exists()


PAIR_LINES = "1\t1\t2\tA good film.\tThe film is good.\n0\t3\t4\tA good plot.\tA bad film.\n"


@pytest.fixture
def pair_file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.txt"
    path.write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + PAIR_LINES * 2)
    return path


def test_pairs_from_fine_tuning_to_predictions(encoder: Path, pair_file: Path, tmp_path: Path) -> None:
    out, both = tmp_path / "out", ["--train", pair_file, "--dev", pair_file, "--format", "mrpc"]
    settings = ["--epochs", "1", "--best-by", "f1", "--layer-decay", "0.9", "--balanced", "--resume"]
    result = run("finetune", "pair", "--model", encoder, *both, "--out", out, *settings)
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
    assert sum(one == two for one, two in pairs) / len(pairs) == metrics["accuracy"]
    result = run("predict", "tagging", "--model", out, "--text", "A good plot, a bad film.")
    assert len(json.loads(result.stdout)["tags"]) == 8
    train.write_text("A O\nfilm B-FILM\n")
    assert "tag 'B-FILM' is not one of" in complaint("evaluate", "tagging", "--model", out, "--data", train)
    assert "holds no tagged sentences" in complaint("evaluate", "tagging", "--model", out, "--data", "sst2")
    assert "not of a BertForSequence" in complaint("evaluate", "classification", "--model", out, "--data", "sst2")


def test_a_checkpoint_that_is_left_is_gone_on_from(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    """Interrupted after an epoch; another setting is refused, the same goes on."""
    command = _finetune(encoder, train_file, tmp_path / "out", "--epochs", "2", "--resume")
    (tmp_path / "out.checkpoint" / "checkpoint-00000001").mkdir(parents=True)
    assert "out.checkpoint to start anew" in complaint(*command)
    shutil.rmtree(tmp_path / "out.checkpoint")
    assert run(*command).returncode == 0


def test_mistakes_with_pairs(encoder: Path, classifier: Path, pair_file: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    both = ("--train", pair_file, "--dev", pair_file)
    assert "no column 'sentence'" in complaint("finetune", "classification", "--model", encoder, *both, *out,
                                               "--format", "glue-tsv")  # fmt: skip
    assert "unknown format" in complaint("finetune", "pair", "--model", encoder, *both, *out, "--format", "sst2")
    assert "no pairs of texts" in complaint("finetune", "pair", "--model", encoder, "--train", "sst2", "--dev", "sst2",
                                            *out)  # fmt: skip
    assert "one --pair for each" in complaint("predict", "pair", "--model", classifier, "--text", "a")
    assert "leave it out" in complaint("predict", "classification", "--model", classifier, "--text", "a", "--pair", "b")
    assert "--pair is empty" in complaint("predict", "pair", "--model", classifier, "--text", "a", "--pair", " ")
    assert "unknown score best_by" in complaint("finetune", "pair", "--model", encoder, *both, "--format", "mrpc",
                                                *out, "--best-by", "bleu", "--epochs", "1")  # fmt: skip
    assert not (tmp_path / "out").exists()
