"""Finding and reading a corpus, learning a vocabulary from it."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data.pretraining import corpus
from d2lbert.data.pretraining.corpus import corpus_files, learn_vocabulary, read_documents
from d2lbert.text import SPECIAL_TOKENS, WordPiece, learn_wordpiece
from d2lbert.text.wordpiece_learning import count_clean_words
from d2lbert.zoo import locate

TEXT = "One two.\nThree four.\n\nFive six.\n"


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece.from_pretrained(locate("minilm"))


@pytest.fixture(scope="module")
def sample(root: Path) -> list[Path]:
    return corpus_files([root / "data" / "samples" / "wikipedia_en"])


def test_files_folders_and_patterns(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text(TEXT)
    (tmp_path / "one.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "three.txt.xz").write_bytes(lzma.compress(TEXT.encode()))
    (tmp_path / "notes.md").write_text("not of the corpus")
    names = [path.relative_to(tmp_path).as_posix() for path in corpus_files([tmp_path])]
    assert names == ["b/two.txt", "one.txt.gz", "three.txt.xz"]
    assert corpus_files([tmp_path / "*.xz", tmp_path / "three.txt.xz"]) == [tmp_path / "three.txt.xz"]
    assert corpus_files([str(tmp_path / "**" / "two.txt")]) == [tmp_path / "b" / "two.txt"]
    documents = list(read_documents(corpus_files([tmp_path])))
    assert [document.paragraphs for document in documents] == [("One two.", "Three four."), ("Five six.",)] * 3


def test_a_path_to_nothing_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.txt", tmp_path / "*.xz"):
        with pytest.raises(UserError, match=r"^no corpus at .*: give a text file"):
            corpus_files([path])
    (tmp_path / "bad.txt.xz").write_bytes(lzma.compress(TEXT.encode())[:-9])
    with pytest.raises(UserError, match=r"bad\.txt\.xz is damaged"):
        list(read_documents(corpus_files([tmp_path])))


def test_the_vocabulary_is_the_same_on_every_run(sample: list[Path]) -> None:
    """The library alone numbers pieces by a hash table that changes from process to process."""
    program = (
        "import sys; from d2lbert.data.pretraining.corpus import learn_vocabulary\n"
        "print(*learn_vocabulary(sys.argv[1:], 1500).vocab, sep='\\n')"
    )
    command = [sys.executable, "-c", program, *map(str, sample)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(3)]
    assert len(runs[0].splitlines()) == 1500
    assert runs[0] == runs[1] == runs[2]


def test_the_vocabulary_is_nearly_that_of_our_own_trainer(sample: list[Path]) -> None:
    library = learn_vocabulary(sample, 1000).vocab
    assert tuple(library[:5]) == SPECIAL_TOKENS
    lines = [paragraph for document in read_documents(sample) for paragraph in document.paragraphs]
    learned = learn_wordpiece(count_clean_words(lines), 1000)
    # They differ where counts are equal, and in "##x" that no word has.
    assert len(set(library) & set(learned)) > 950


def test_a_large_corpus_is_learned_from_in_part(
    sample: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = list(read_documents(sample))
    (tmp_path / "third.txt").write_text("\n\n".join("\n".join(one.paragraphs) for one in documents[::3]))
    characters = sum(len(paragraph) for one in documents for paragraph in one.paragraphs)
    whole, third = (set(learn_vocabulary(files, 1000).vocab) for files in (sample, [tmp_path / "third.txt"]))
    monkeypatch.setattr(corpus, "_SAMPLE", characters // 3 + 1)
    part = set(learn_vocabulary(sample, 1000).vocab)
    inside = {piece for piece in whole if piece.startswith("##") and len(piece) == 3}
    assert inside == {piece for piece in part if piece.startswith("##") and len(piece) == 3}  # those of all documents
    assert part - inside == third - inside != whole - inside


def test_vocabularies_that_cannot_be(sample: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a vocabulary of 20 is too small"):
        learn_vocabulary(sample, 20)
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UserError, match="holds no text"):
        learn_vocabulary([tmp_path / "empty.txt"], 100)


@pytest.mark.parametrize(("length", "learned"), [(100, True), (101, False)])
def test_words_that_are_too_long_for_the_tokenizer_give_no_pieces(length: int, learned: bool, tmp_path: Path) -> None:
    long = "xy" * (length // 2) + "z" * (length % 2)
    (tmp_path / "long.txt").write_text(f"a bank {long} {long} , bank\n", encoding="utf-8")
    tokenizer = learn_vocabulary([tmp_path / "long.txt"], 60)
    assert "bank" in tokenizer.vocab
    assert any("xy" in piece for piece in tokenizer.vocab) == learned
    assert (tokenizer.tokenize(long) != ["[UNK]"]) == learned
