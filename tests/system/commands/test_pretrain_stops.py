"""``d2lbert pretrain`` refuses early, loses nothing, and never goes on with something else than before."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cli_support import Result, complaint, run

from d2lbert.data.pretraining import shards as shards_module
from d2lbert.storage.claims import held
from d2lbert.storage.files import sha256_of

SMALL = ["--max-length", "32", "--batch-size", "4", "--vocab-size", "300", "--save-every", "2", "--steps", "2"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Forty short documents; with the default share, none is held out."""
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(f"The cat {n} sat. The dog {n} ran home. A bird {n} sang.\n" for n in range(40)))
    return path


def _command(corpus: Path, out: Path, *more: str) -> list[str | Path]:
    return ["pretrain", "--corpus", corpus, "--out", out, *SMALL, *more]


def _refused(*arguments: str | Path) -> str:
    """Run a mistake; of what is printed, one line is the complaint."""
    result = run(*arguments)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("d2lbert: ")]
    return line


def _succeeded(*arguments: str | Path) -> Result:
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_vocabulary_beside_a_prepared_corpus_is_refused(corpus: Path, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    _succeeded(*_command(corpus, shards, "--prepare"))
    line = _refused(*_command(shards, tmp_path / "out", "--vocab", str(shards / "vocab.txt")))
    assert line == f"d2lbert: --vocab: {shards} is prepared, with its own vocabulary: leave --vocab out"
    assert "leave --cased out" in _refused(*_command(shards, tmp_path / "out", "--cased"))
    assert not (tmp_path / "out").exists()


def test_a_held_out_part_without_pairs_is_refused_before_the_first_step(corpus: Path, tmp_path: Path) -> None:
    """One document is held out: nothing could be its wrong neighbour. What is prepared stays, and is used."""
    out = tmp_path / "out"
    lowest = min(shards_module._hash(document) for document in shards_module.read_documents([corpus]))
    share = (lowest + 1) / 10_000
    line = _refused(*_command(corpus, out, "--dev-share", str(share)))
    assert f"needs 2 dev documents of two sentences or more, and {out / 'data'} has 1: prepare the corpus anew" in line
    assert "with a larger --dev-share, or with 0 for no validation; or give --no-next-sentence" in line
    assert [path.name for path in out.iterdir()] == ["data"]
    before = _content(out / "data")
    line = _refused(*_command(corpus, out, "--dev-share", "0"))
    assert f"{out / 'data'} was prepared with --dev-share {share}, now it is 0.0: give what it was, or remove" in line
    _succeeded(*_command(corpus, out, "--dev-share", str(share), "--no-next-sentence"))
    assert _content(out / "data") == before
    shutil.rmtree(out)
    _succeeded(*_command(corpus, out, "--dev-share", "0"))


def test_a_training_part_without_pairs_is_refused_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "line.txt").write_text("One long line. " * 50)
    line = _refused(*_command(tmp_path / "line.txt", tmp_path / "out", "--dev-share", "0"))
    assert "needs 2 train documents of two sentences or more" in line
    assert "has 1: give more text, with a blank line between documents; or give --no-next-sentence" in line
    assert not (tmp_path / "out" / "log.csv").exists()


def test_another_corpus_is_refused(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _succeeded(*_command(corpus, out))
    before = _content(out)
    other = tmp_path / "other.txt"
    other.write_text(corpus.read_text().replace("cat", "cow"))
    more = _command(corpus, out, "--resume")
    for change, message in [
        (["--corpus", str(other)], "was prepared from 1 files, now there are 2"),
        (["--vocab-size", "250"], "was prepared with --vocab-size 300, now it is 250: give what it was"),
        (["--cased"], "was prepared with --cased False, now it is True"),
        (["--dev-share", "0.2"], "was prepared with --dev-share 0.01, now it is 0.2"),
        (["--seed", "7"], "--resume: seed was 0 and is now 7"),
    ]:
        assert message in _refused(*more, *change)
    assert "another text: give what it was" in _refused(*_command(other, out, "--resume"))
    assert _content(out) == before
    _succeeded(*_command(corpus, out, "--resume"))
    moved = corpus.rename(tmp_path / "moved.txt")
    assert f"no corpus at {corpus}" in _refused(*_command(corpus, out, "--resume"))
    _succeeded(*_command(moved, out, "--resume"))
    _succeeded(*_command(out / "data", out, "--resume"))


def test_a_second_run_ends_at_once(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with held(out):
        for more in ([], ["--resume"], ["--prepare"]):
            line = complaint(*_command(corpus, out, *more))
            assert line == f"d2lbert: another run writes into --out {out}: wait for its end, or choose another"
    _succeeded(*_command(corpus, out))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "out"]


def test_the_lock_lasts_to_the_end(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from d2lbert.torch.training.pretraining import Trainer

    real, lines = Trainer.finish, []

    def finish(self: Trainer, tokenizer: Any) -> None:
        lines.append(complaint(*_command(corpus, tmp_path / "out", "--resume")))
        real(self, tokenizer)

    monkeypatch.setattr(Trainer, "finish", finish)
    _succeeded(*_command(corpus, tmp_path / "out"))
    assert "another run writes" in lines[0]


def test_all_checkpoints_damaged(corpus: Path, tmp_path: Path) -> None:
    """There is no silent beginning anew; one who wants it removes the folder."""
    out = tmp_path / "out"
    _succeeded(*_command(corpus, out, "--steps", "4"))
    model = (out / "model.safetensors").read_bytes()
    for path in (out / "checkpoints").iterdir():
        (path / "state.json").write_text("{}")
    line = _refused(*_command(corpus, out, "--resume", "--steps", "4"))
    assert f"every checkpoint in {out / 'checkpoints'} is damaged: remove {out / 'checkpoints'} to start anew" in line
    assert len(list((out / "checkpoints").iterdir())) == 2
    shutil.rmtree(out / "checkpoints")
    _succeeded(*_command(corpus, out, "--resume", "--steps", "4"))
    assert (out / "model.safetensors").read_bytes() == model


@pytest.mark.parametrize("only_prepare", [False, True])
def test_interrupted_while_preparing(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only_prepare: bool
) -> None:
    out = tmp_path / "out"
    folder = out if only_prepare else out / "data"
    command = _command(corpus, out, *(["--prepare"] if only_prepare else []))
    real = shards_module.write_index

    def interrupt(*_: Any) -> Any:
        (folder / ".index.json.abcd1234.unfinished").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(shards_module, "write_index", interrupt)
    result = run(*command)
    assert result.returncode == 130
    line = f"interrupted; the same command prepares the corpus from its beginning, in {folder}"
    assert result.stderr.splitlines() == [line]
    assert list(folder.glob("*.npy"))
    monkeypatch.setattr(shards_module, "write_index", real)
    _succeeded(*command)
    assert not list(folder.glob(".*"))
    if only_prepare:  # a finished preparation is taken as it is, for the same corpus alone
        before = _content(out)
        assert _succeeded(*command).stdout == f"{out}\n"
        assert "with --cased False, now it is True" in _refused(*command, "--cased")
        assert _content(out) == before


def test_folders_with_other_files_are_refused(corpus: Path, tmp_path: Path) -> None:
    """A folder of one's own that is called data, too."""
    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "mine" / "data" / "text.txt").write_text("x")
    assert "is not empty: choose a new folder" in complaint(*_command(corpus, tmp_path / "mine"))
    assert "holds text.txt, which is not of shards" in complaint(*_command(corpus, tmp_path / "mine", "--resume"))
    assert "is not empty: choose a new folder" in complaint(*_command(corpus, tmp_path / "mine", "--prepare"))
    assert list((tmp_path / "mine").rglob("*.*")) == [tmp_path / "mine" / "data" / "text.txt"]


def _sign(checkpoint: Path) -> None:
    """Give a checkpoint the manifest of what it holds now."""
    files = [path for path in checkpoint.rglob("*") if path.is_file() and path.name != "manifest.json"]
    digests = {str(path.relative_to(checkpoint)): sha256_of(path) for path in files}
    (checkpoint / "manifest.json").write_text(json.dumps({"step": 2, "sha256": digests}))


def test_files_that_no_run_has_written(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _succeeded(*_command(corpus, out))
    checkpoint = out / "checkpoints" / "checkpoint-00000002"
    (state,) = (checkpoint / "state").iterdir()
    resume = _command(corpus, out, "--resume")
    for path, content, message in [
        (out / "data" / "index.json", b'{"format": "d2lbert tokens 1"}', "index.json is damaged"),
        (out / "data" / "index.json", b'{"format": "d2lbert tokens 1", "shards": [{"name": "../x"}]}', "is damaged"),
        (out / "log.csv", b"step\xff", "log.csv is not UTF-8 text: move it elsewhere"),
        (out / "log.csv", b"my,notes\n", "log.csv has other columns than the log of this run: move it elsewhere"),
        (checkpoint / "state.json", b"{}", "does not hold the state of this run (KeyError)"),
        (checkpoint / "state.json", b'{"run": 3}', "does not hold the state of this run"),
        (checkpoint / "state.json", b"[]", "holds a list, not a JSON object"),
        (state, b"garbage", "does not hold the state of this run"),
    ]:
        before = path.read_bytes()
        path.write_bytes(content)
        _sign(checkpoint)
        assert message in _refused(*resume), message
        assert path.read_bytes() == content
        path.write_bytes(before)
        _sign(checkpoint)
    (out / ".model.safetensors.abcd1234.unfinished").write_text("of a killed run")
    _succeeded(*resume)
    assert not list(out.glob(".*"))
    with (out / "log.csv").open() as stream:
        assert [row["step"] for row in csv.DictReader(stream)] == ["2"]
