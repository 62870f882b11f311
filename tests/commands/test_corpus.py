"""The corpus of ``d2lbert pretrain``: prepared once, taken again for the same command, refused for another."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.commands.corpus import CorpusSource
from d2lbert.data.pretraining import shards as shards_module
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.text import WordPiece


@pytest.fixture
def source(root: Path, tmp_path: Path) -> CorpusSource:
    """A copy of a sample, in two files."""
    lines = (root / "data" / "samples" / "wikipedia_en" / "dev.txt").read_text().split("\n\n")
    for number in range(2):
        (tmp_path / f"{number}.txt").write_text("\n\n".join(lines[number::2]) + "\n")
    return CorpusSource([str(tmp_path / "*.txt")], None, 600, False, Preparation(dev_share=0.2), 1, prepare)


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_corpus_is_prepared_once(source: CorpusSource, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = source.shards(tmp_path / "shards")
    assert "documents" in capsys.readouterr().err
    before = _content(first.folder)

    def never(*_: Any) -> TokenShards:
        raise AssertionError

    again = dataclasses.replace(source, engine=never, workers=7)
    assert again.shards(tmp_path / "shards").index == first.index
    assert _content(first.folder) == before
    assert not source.prepared
    assert dataclasses.replace(source, paths=[str(first.folder)]).prepared


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 700}, "with --vocab-size 600, now it is 700"),
        ({"cased": True}, "with --cased False, now it is True"),
        ({"preparation": Preparation(dev_share=0.1)}, r"with --dev-share 0\.2, now it is 0\.1"),
        ({"preparation": Preparation(dev_share=0.2, shard_characters=9)}, "--shard-characters 16000000, now it is 9"),
        ({"vocab": Path("shards/vocab.txt")}, "with --vocab learned, now it is sha256"),
        ({"paths": ["0.txt"]}, "from 2 files, now there are 1"),
        ({"paths": ["1.txt", "0.txt"]}, "file 1 of the corpus: prepared from 0.txt"),
        ({"vocab": Path("nowhere")}, "cannot read nowhere"),
        ({"paths": ["nowhere"]}, "no corpus at nowhere"),
    ],
)
def test_another_one_is_refused(
    source: CorpusSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = _content(source.shards(tmp_path / "shards").folder)
    with pytest.raises(UserError, match=message) as caught:
        dataclasses.replace(source, **change).shards(tmp_path / "shards")
    assert "\n" not in str(caught.value)
    assert _content(tmp_path / "shards") == before


def test_a_vocabulary_is_known_by_its_content(source: CorpusSource, tmp_path: Path) -> None:
    source.shards(tmp_path / "first")
    mine, copy = tmp_path / "mine.vocab", tmp_path / "copy.vocab"
    for path in (mine, copy):
        path.write_bytes((tmp_path / "first" / "vocab.txt").read_bytes())
    own = dataclasses.replace(source, vocab=mine)
    own.shards(tmp_path / "second")
    dataclasses.replace(own, vocab=copy, vocab_size=12345).shards(tmp_path / "second")
    with copy.open("a") as stream:
        stream.write("zebra\n")
    with pytest.raises(UserError, match=r"with --vocab sha256 .*, now it is sha256"):
        dataclasses.replace(own, vocab=copy).shards(tmp_path / "second")


class _KilledError(BaseException):
    pass


@pytest.mark.parametrize("moment", [0, 1, 2, 3, 4, 20])
def test_a_killed_preparation_is_begun_anew(
    source: CorpusSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Whatever it had written goes, what was being written, too; the result is that of a run that nothing stopped."""
    expected = _content(source.shards(tmp_path / "whole").folder)
    cut = tmp_path / "cut"
    written, save = [], shards_module.np.save

    def killed(stream: Any, array: Any, **options: Any) -> None:
        if len(written) == moment:
            stream.write(b"half")
            stream.flush()
            (cut / ".index.json.abcd1234.unfinished").write_text("half")
            raise _KilledError
        written.append(1)
        save(stream, array, **options)

    monkeypatch.setattr(shards_module.np, "save", killed)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # a process that is no more tidies nothing up
    other = dataclasses.replace(source, preparation=Preparation(dev_share=0.2, shard_characters=1))
    with pytest.raises(_KilledError):
        other.shards(cut)
    monkeypatch.undo()
    left = _content(cut)
    assert "index.json" not in left
    assert [name for name in left if name.endswith(".unfinished")]
    assert _content(source.shards(cut).folder) == expected


def test_other_files_are_not_mixed_with_shards(source: CorpusSource, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train-00000-00000.tokens.npy").write_text("of a killed run")
    (folder / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match=r"holds thesis.txt, which is not of shards of tokens: choose another --out"):
        source.shards(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["thesis.txt", "train-00000-00000.tokens.npy"]
    (folder / "thesis.txt").unlink()
    assert WordPiece.from_pretrained(source.shards(folder).folder).vocab
