"""A newcomer's own files, from ``d2lbert finetune`` to predictions: columns, a cut for dev, settings, warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import complaint, run

from d2lbert.commands import finetune

LABELS = ("billing", "login", "shipping")
TICKETS = [(f"{label} trouble number {number}", label) for number in range(20) for label in LABELS]
NAMED = ("--text-column", "ticket", "--label-column", "TEAM")
FAST = ("--epochs", "1", "--batch-size", "32")


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    """As a spreadsheet writes it: a byte order mark, semicolons, other columns, other names."""
    path = tmp_path / "tickets.csv"
    rows = "".join(f'{number};"{text}";{team}\r\n' for number, (text, team) in enumerate(TICKETS))
    path.write_text("\ufeffid;Ticket;Team\r\n" + rows, encoding="utf-8")
    return path


def test_from_a_spreadsheet_to_answers(encoder: Path, tickets: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    result = run("finetune", "classification", "--model", encoder, "--train", tickets, "--out", out, *NAMED)
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    chosen = "16 epochs of batches of 4, learning rate 0.0005; --epochs, --batch-size and --lr choose others"
    assert said == [
        "note: 6 of 60 examples are cut off for --dev; 54 are trained on",
        f"note: 54 examples: {chosen}",
    ]
    assert len(json.loads((out / "training.json").read_text())) == 16
    assert json.loads((out / "config.json").read_text())["id2label"] == {str(n): name for n, name in enumerate(LABELS)}
    result = run("evaluate", "classification", "--model", out, "--data", tickets, *NAMED)
    assert json.loads(result.stdout.splitlines()[-1])["examples"] == 60
    answers = tmp_path / "answers.jsonl"
    command = ("predict", "classification", "--model", out, "--data", tickets, *NAMED[:2], "--out", answers)
    assert run(*command).returncode == 0
    assert [json.loads(line)["text"] for line in answers.read_text().splitlines()] == [text for text, _ in TICKETS]


def test_what_is_given_is_not_chosen(encoder: Path, tickets: Path, tmp_path: Path) -> None:
    start = ("finetune", "classification", "--model", encoder, "--train", tickets, *NAMED, "--dev", "0.5")
    result = run(*start, "--out", tmp_path / "one", *FAST)
    assert "note: 30 examples: 1 epoch of batches of 32, learning rate 0.0005;" in result.stderr
    result = run(*start, "--out", tmp_path / "two", *FAST, "--lr", "1e-4")
    assert "epoch of batches" not in result.stderr
    assert "epochs is 0; it must be above 0" in complaint(*start, "--out", tmp_path / "three", "--epochs", "0")


def test_a_model_that_learned_nothing_is_warned_of(encoder: Path, tickets: Path, tmp_path: Path) -> None:
    """One step at a rate of nearly nothing, and a share of dev that was trained on."""
    nothing = ("--out", tmp_path / "out", *NAMED, *FAST, "--lr", "1e-30", "--max-length", "4")
    result = run("finetune", "classification", "--model", encoder, "--train", tickets, "--dev", tickets, *nothing)
    warned = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    beginnings = ("60 of 60 dev examples have a text that is also", "60 of 60 texts cut after 4", "dev accuracy 0.3")
    for beginning in beginnings:
        assert sum(line.startswith(f"warning: {beginning}") for line in warned) == 1, warned
    assert "is not clearly above 0.33 ± 0.06, the share of the commonest label" in warned[-1]
    json.loads(result.stdout.splitlines()[-1])


def test_runs_with_other_seeds_are_compared_on_the_same_examples(
    encoder: Path, tickets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = []
    real = finetune.train_and_dev
    monkeypatch.setattr(finetune, "train_and_dev", lambda *given: cuts.append(real(*given)) or cuts[-1])
    for seed in ("0", "1", "7"):
        out = ("--out", tmp_path / seed, "--seed", seed)
        result = run("finetune", "classification", "--model", encoder, "--train", tickets, *NAMED, *FAST, *out)
        assert result.returncode == 0, result.stderr
    assert len(cuts) == 3
    assert [(train, dev) for _, train, dev in cuts[1:]] == [cuts[0][1:]] * 2


def test_a_rare_label_and_one_that_train_lacks(encoder: Path, tmp_path: Path) -> None:
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    train.write_text("".join(f"{text}\t{team}\n" for text, team in TICKETS) + "where is my money\trefund\n")
    dev.write_text("hello\tbilling\n")
    start = ("finetune", "classification", "--model", encoder, "--train", train, *FAST, "--dev", dev)
    result = run(*start, "--out", tmp_path / "one")
    assert "warning: fewer than 5 training examples of the label refund (1): it will hardly be learned" in result.stderr
    dev.write_text("hello\tsales\nhi\tsales\n")
    line = complaint(*start, "--out", tmp_path / "two")
    assert "dev.tsv, line 1: the label 'sales' is not one of billing, login, refund, shipping" in line


@pytest.mark.parametrize(
    ("task", "name", "content"),
    [
        ("pair", "a.jsonl", '{{"first": "a {n}", "second": "b", "score": {n}}}\n'),
        ("tagging", "a.jsonl", '{{"tokens": ["Ann{n}", "sings"], "ner_tags": ["B-PER", "O"]}}\n'),
        ("question_answering", "a.jsonl", '{{"question": "who?", "context": "Ann {n} sings", "answer": "Ann"}}\n'),
        ("multiple_choice", "a.jsonl", '{{"premise": "p {n}", "choices": ["x", "y"], "label": 1}}\n'),
    ],
)
def test_every_task_learns_from_a_table(encoder: Path, tmp_path: Path, task: str, name: str, content: str) -> None:
    path, out = tmp_path / name, tmp_path / "out"
    path.write_text("".join(content.format(n=number) for number in range(20)))
    result = run("finetune", task, "--model", encoder, "--train", path, "--out", out, *FAST, "--dev", "0.2")
    assert result.returncode == 0, result.stderr
    assert "note: 4 of 20 examples are cut off" in result.stderr
    result = run("predict", task, "--model", out, "--data", path)
    assert len(result.stdout.splitlines()) == 20, result.stderr


def test_a_model_of_scores_is_asked_for_by_their_column(encoder: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "pairs.csv", tmp_path / "out"
    path.write_text("first,second,closeness\n" + "".join(f"a {n},b {n % 3},{n / 4}\n" for n in range(20)))
    start = ("finetune", "pair", "--model", encoder, "--train", path, "--out", out, *FAST)
    assert "line 3: the label '0.25' is a number with a fraction" in complaint(*start, "--label-column", "closeness")
    both = ("--label-column", "closeness", "--score-column", "closeness")
    assert "--label-column beside --score-column" in complaint(*start, *both)
    assert run(*start, "--score-column", "closeness").returncode == 0
    result = run("evaluate", "pair", "--model", out, "--data", path, "--score-column", "closeness")
    assert json.loads(result.stdout.splitlines()[-1])["examples"] == 20
    assert "--score-column closeness" in (out / "README.md").read_text()
    result = run("predict", "pair", "--model", out, "--data", path)
    assert {"first", "second", "score"} == set(json.loads(result.stdout.splitlines()[0])), result.stderr


def test_parquet_is_read_like_the_rest(encoder: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path, out = tmp_path / "tickets.parquet", tmp_path / "out"
    parquet.write_table(pyarrow.table({"text": [t for t, _ in TICKETS], "label": [team for _, team in TICKETS]}), path)
    result = run("finetune", "classification", "--model", encoder, "--train", path, "--out", out, *FAST)
    assert result.returncode == 0, result.stderr
    assert len(run("predict", "classification", "--model", out, "--data", path).stdout.splitlines()) == 60
