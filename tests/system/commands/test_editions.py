"""``--edition mxnet``: a folder that one edition has fine-tuned is scored and answered alike by both."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_support import complaint, finetune_command, run

from d2lbert.commands.editions import named_edition
from d2lbert.mxnet import MxnetMissing
from d2lbert.mxnet.pretraining import BertForPretraining
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from d2lbert.torch.pretraining import BertForPretraining as TorchPretraining

TYPED = {
    "classification": ("--text", "a good film"),
    "pair": ("--text", "a good film", "--pair", "a poor plot"),
    "tagging": ("--text", "a good film"),
    "question_answering": ("--text", "a good film , what a plot", "--pair", "what ?"),
    "multiple_choice": ("--text", "a film", "--pair", "good", "--pair", "a poor plot"),
}


def _numbers(line: str) -> dict[str, float]:
    return {name: value for name, value in json.loads(line).items() if isinstance(value, float | int)}


@pytest.fixture
def tuned(encoder: Path, train_file: Path, tmp_path: Path) -> Path:
    """A folder that the MXNet edition has fine-tuned."""
    out = tmp_path / "tuned"
    result = run(
        *finetune_command(encoder, train_file, out), "--edition", "mxnet", "--epochs", "2", "--batch-size", "4"
    )
    assert result.returncode == 0, result.stderr
    assert "epoch 2: loss" in result.stdout
    return out


def test_what_mxnet_has_tuned_both_score_and_answer_alike(tuned: Path, train_file: Path) -> None:
    words = ("evaluate", "classification", "--model", tuned, "--data", train_file)
    one, two = run(*words), run(*words, "--edition", "mxnet")
    assert one.returncode == two.returncode == 0, (one.stderr, two.stderr)
    assert _numbers(one.stdout.splitlines()[-1]) == _numbers(two.stdout.splitlines()[-1])
    answers = [
        run("predict", "classification", "--model", tuned, "--data", train_file, "--edition", name) for name in BOTH
    ]
    rows = [[json.loads(line) for line in result.stdout.splitlines()] for result in answers]
    assert [row["label"] for row in rows[0]] == [row["label"] for row in rows[1]]
    for theirs, ours in zip(*rows, strict=True):
        for label, probability in theirs["probabilities"].items():
            assert ours["probabilities"][label] == pytest.approx(probability, abs=1e-5)


BOTH = ("torch", "mxnet")


@pytest.mark.parametrize("task", TYPED)
def test_what_pytorch_has_tuned_mxnet_answers_alike(task: str, encoder: Path, tmp_path: Path) -> None:
    bert = BertModel.from_pretrained(encoder)
    heads = {
        "classification": lambda: BertForSequenceClassification(bert, ["bad", "good"]),
        "pair": lambda: BertForSequenceClassification(bert, ["score"]),
        "tagging": lambda: BertForTokenClassification(bert, ["O", "B-LOC", "I-LOC"]),
        "question_answering": lambda: BertForQuestionAnswering(bert),
        "multiple_choice": lambda: BertForMultipleChoice(bert),
    }
    heads[task]().save_pretrained(tmp_path)
    WordPiece.from_pretrained(encoder).save_pretrained(tmp_path)
    results = [run("predict", task, "--model", tmp_path, *TYPED[task], "--edition", name) for name in BOTH]
    assert [result.returncode for result in results] == [0, 0], results
    _assert_close(*(json.loads(result.stdout) for result in results))


def _assert_close(one: object, two: object) -> None:
    """Equal, but for the last digits of numbers."""
    if isinstance(one, dict) and isinstance(two, dict):
        assert list(one) == list(two)
        for name in one:
            _assert_close(one[name], two[name])
    elif isinstance(one, list) and isinstance(two, list):
        for pair in zip(one, two, strict=True):
            _assert_close(*pair)
    elif isinstance(one, float):
        assert np.isclose(one, two, atol=1e-4)  # type: ignore[call-overload]
    else:
        assert one == two


def test_a_checkpoint_of_the_other_edition_is_one_line(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    command = [*finetune_command(encoder, train_file, tmp_path / "out"), "--epochs", "1", "--batch-size", "4"]
    from d2lbert.mxnet.training import resuming

    resuming.save_checkpoint(tmp_path / "state", 1, {"edition": "mxnet"}, {}, {})
    assert "is of another run" in complaint(*command, "--checkpoint", tmp_path / "state")


def test_what_the_edition_lacks_is_one_line(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    command = finetune_command(encoder, train_file, tmp_path / "out")
    assert "unknown edition 'mxent': did you mean mxnet?" in complaint(*command, "--edition", "mxent")
    message = complaint(*command, "--edition", "mxnet", "--precision", "bfloat16")
    assert "the mxnet edition trains in float32 alone" in message
    config = encoder / "config.json"
    before = config.read_text()
    try:
        config.write_text(json.dumps({**json.loads(before), "model_type": "distilbert"}))
        assert "the mxnet edition has no distilbert" in complaint(*command, "--edition", "mxnet")
    finally:
        config.write_text(before)
    assert not (tmp_path / "out").exists()
    fill = ("predict", "fill_mask", "--model", encoder, "--text", "a [MASK]", "--edition", "mxnet")
    assert "fill_mask is of the torch edition alone" in complaint(*fill)


def test_pretraining_gives_a_folder_for_both(tmp_path: Path) -> None:
    sentence = "The river runs to the sea. A boat lies at the bank. They waited for the tide.\n"
    words = ("river", "road", "wind", "path", "train", "stream")
    (tmp_path / "corpus.txt").write_text("\n".join(sentence.replace("river", word) for word in words))
    command = ("pretrain", "--corpus", tmp_path / "corpus.txt", "--vocab-size", "300", "--steps", "2")
    out = tmp_path / "out"
    small = ("--dev-share", "0", "--max-length", "24", "--batch-size", "4", "--out", out, "--edition", "mxnet")
    result = run(*command, *small)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["step"] == 2
    tensors = TorchPretraining.from_pretrained(out).tensors()
    checkpoint = BertForPretraining.from_pretrained(out / "checkpoints" / "checkpoint-00000002").tensors()
    assert all(np.array_equal(array, tensors[name]) for name, array in checkpoint.items())
    for more, message in (
        (("--model", "gpt"), "the mxnet edition pretrains a BERT alone, no gpt"),
        (("--sharded",), "the mxnet edition trains in one process"),
        (("--compile",), "the mxnet edition has no compiling"),
    ):
        assert message in complaint(*command, *small, *more)


def test_a_graph_is_not_for_mxnet(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    (tmp_path / "config.json").write_text((encoder / "config.json").read_text())
    words = ("predict", "classification", "--model", tmp_path, "--text", "a", "--edition", "mxnet")
    assert "is a graph of ONNX, which the mxnet edition does not run: leave --edition out" in complaint(*words)


def test_editions_by_name() -> None:
    assert [named_edition(name).name for name in BOTH] == list(BOTH)
    assert issubclass(MxnetMissing, ImportError)


@pytest.mark.parametrize("name", BOTH)
def test_all_that_an_edition_computes_with_is_of_its_own_package(name: str) -> None:
    edition = named_edition(name)
    for task in TYPED:
        assert edition.head_of(task).__module__ == f"d2lbert.{name}.heads"
    for module in ("runtime", "training.finetuning", "training.evaluation"):
        assert edition._module(module).__name__ == f"d2lbert.{name}.{module}"


def test_an_edition_that_nobody_knows_loads_no_framework() -> None:
    program = (
        "import sys\nfrom d2lbert import UserError\nfrom d2lbert.commands.editions import named_edition\n"
        "named_edition('mxnet')\ntry:\n    named_edition('mxent')\nexcept UserError as error:\n    print(error)\n"
        "print(*sorted({'torch', 'mxnet'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["unknown edition 'mxent': did you mean mxnet?", ""]
