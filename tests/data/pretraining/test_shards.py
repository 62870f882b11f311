"""Shards of tokens: the same bytes from any number of processes, checked when opened, written whole or not at all."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from process_support import with_full_disk

from d2lbert import UserError
from d2lbert.data.pretraining.corpus import learn_vocabulary, read_documents
from d2lbert.data.pretraining.shards import FORMAT, INDEX_FILE, Preparation, TokenShards, prepare
from d2lbert.text import WordPiece

SMALL = Preparation(dev_share=0.2, shard_characters=8_000)


@pytest.fixture(scope="module")
def files(root: Path) -> list[Path]:
    return sorted((root / "data" / "samples" / "wikipedia_en").glob("*.txt"))


@pytest.fixture(scope="module")
def tokenizer(files: list[Path]) -> WordPiece:
    return learn_vocabulary(files, 1200)


@pytest.fixture(scope="module")
def shards(files: list[Path], tokenizer: WordPiece, tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    return prepare(files, tmp_path_factory.mktemp("corpus"), tokenizer, SMALL)


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_whole_text_decides_what_is_held_out(tokenizer: WordPiece, tmp_path: Path) -> None:
    """Documents that begin alike are divided as others are, and a second copy goes the same way."""
    documents = [f"The river and number {number}.\n\n" for number in range(60)]
    (tmp_path / "corpus.txt").write_text("".join(documents + documents))
    shards = prepare([tmp_path / "corpus.txt"], tmp_path / "out", tokenizer, Preparation(dev_share=0.5))
    counts = [shards.count(split, "documents") for split in ("train", "dev")]
    assert sum(counts) == 120
    assert min(counts) >= 30
    assert all(count % 2 == 0 for count in counts)


def test_shards_hold_the_corpus(shards: TokenShards, files: list[Path], tokenizer: WordPiece) -> None:
    """Read back, the documents are those of the corpus: each in one split, in its order within a shard."""
    expected = sorted(tuple(tokenizer.encode(document.text).ids[1:-1]) for document in read_documents(files))
    documents_read = []
    for split in ("train", "dev"):
        assert len(shards.names(split)) > 1
        for name in shards.names(split):
            tokens, sentences, documents = shards.load(name)
            assert tokens.dtype == np.uint16
            assert sentences[-1] == len(tokens)
            assert documents[-1] == len(sentences) - 1
            assert (np.diff(sentences) > 0).all()
            assert (np.diff(documents) > 0).all()
            edges = sentences[documents]
            documents_read += [tuple(tokens[a:b].tolist()) for a, b in itertools.pairwise(edges)]
    assert sorted(documents_read) == expected
    assert shards.count("train", "documents") + shards.count("dev", "documents") == len(expected)
    assert shards.tokenizer().vocab == tokenizer.vocab


def test_bytes_do_not_depend_on_the_number_of_processes(
    shards: TokenShards, files: list[Path], tokenizer: WordPiece, tmp_path: Path
) -> None:
    prepare(files, tmp_path, tokenizer, SMALL, workers=2)
    assert _content(tmp_path) == _content(shards.folder)


def test_a_copy_of_a_document_stays_on_its_side(files: list[Path], tokenizer: WordPiece, tmp_path: Path) -> None:
    text = "".join(path.read_text() + "\n" for path in files)
    (tmp_path / "twice.txt").write_text(text + text)
    twice = prepare([tmp_path / "twice.txt"], tmp_path / "out", tokenizer, SMALL)
    sides = {}
    for split in ("train", "dev"):
        tokens = [twice.load(name) for name in twice.names(split)]
        sides[split] = {
            shard.tokens[shard.sentences[a] : shard.sentences[b]].tobytes()
            for shard in tokens
            for a, b in itertools.pairwise(shard.documents)
        }
    assert sides["dev"]
    assert not sides["train"] & sides["dev"]


@pytest.mark.parametrize("part", ["tokens", "sentences", "documents"])
def test_damage_is_seen(files: list[Path], tokenizer: WordPiece, tmp_path: Path, part: str) -> None:
    name = prepare(files, tmp_path, tokenizer, SMALL).names("train")[1]
    path = tmp_path / f"{name}.{part}.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"{part}.npy is damaged \(wrong sha256\): prepare the corpus again"):
        TokenShards.open(tmp_path)
    path.unlink()
    with pytest.raises(UserError, match="is missing: prepare the corpus again"):
        TokenShards.open(tmp_path)


def test_folders_that_are_no_corpus(tmp_path: Path, files: list[Path], tokenizer: WordPiece) -> None:
    with pytest.raises(UserError, match=r"cannot read .*index\.json"):
        TokenShards.open(tmp_path)
    (tmp_path / INDEX_FILE).write_text(json.dumps({"format": "another"}))
    with pytest.raises(UserError, match="prepare the corpus again"):
        TokenShards.open(tmp_path)
    entry = {"name": "train-00000-00000", "split": "train", "tokens": 1, "sentences": 1, "documents": 1}
    digests = {"tokens": "", "sentences": "", "documents": ""}
    for shards in (
        None,
        3,
        [3],
        [{}],
        [entry],
        [{**entry, "sha256": {}}],
        [{**entry, "sha256": digests, "name": "../x"}],
    ):
        (tmp_path / INDEX_FILE).write_text(json.dumps({"format": FORMAT, "shards": shards}))
        with pytest.raises(UserError, match=r"index\.json is damaged .*: prepare the corpus again"):
            TokenShards.open(tmp_path)
    (tmp_path / INDEX_FILE).write_text(json.dumps({"format": FORMAT, "shards": [{**entry, "sha256": digests}]}))
    with pytest.raises(UserError, match=r"tokens\.npy is missing"):
        TokenShards.open(tmp_path)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(UserError, match="no text to train on"):
        prepare([tmp_path / "empty.txt"], tmp_path / "out", tokenizer)
    with pytest.raises(UserError, match="no text to train on"):
        prepare([tmp_path / "empty.txt"], tmp_path / "out", tokenizer, workers=2)
    with pytest.raises(UserError, match="cannot write to folder"):
        prepare(files, tmp_path / "empty.txt" / "out", tokenizer)


@pytest.mark.parametrize("change", [{"dev_share": 1.0}, {"dev_share": -0.1}, {"shard_characters": 0}])
def test_settings_that_cannot_be(change: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"preparation: {next(iter(change))} is"):
        Preparation(**change)


def test_full_disk_leaves_no_index(files: list[Path], tokenizer: WordPiece, tmp_path: Path) -> None:
    """The old index goes first and the new one comes last, so a half-filled folder is never taken for a corpus."""
    prepare(files, tmp_path, tokenizer, SMALL)
    program = (
        "import sys; from pathlib import Path\n"
        "from d2lbert import UserError\n"
        "from d2lbert.data.pretraining.shards import prepare\n"
        "from d2lbert.text import WordPiece\n"
        "try: prepare([Path(name) for name in sys.argv[2:]], sys.argv[1], WordPiece.from_pretrained(sys.argv[1]))\n"
        "except UserError as error: print(error)"
    )
    command = with_full_disk([sys.executable, "-c", program, str(tmp_path), *map(str, files)], 20_000)
    run = subprocess.run(command, capture_output=True, text=True)
    assert "cannot write" in run.stdout, run.stderr
    assert not (tmp_path / INDEX_FILE).exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
