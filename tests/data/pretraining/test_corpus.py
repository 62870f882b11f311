"""Finding and reading a corpus, learning a vocabulary from it, tokenising it word by word."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.data.pretraining.corpus import corpus_files, learn_vocabulary, read_documents
from d2lbert.data.pretraining.tokenizing import CorpusTokenizer
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
    ours = learn_vocabulary(sample, 1000).vocab
    assert tuple(ours[:5]) == SPECIAL_TOKENS
    lines = [paragraph for document in read_documents(sample) for paragraph in document.paragraphs]
    theirs = learn_wordpiece(count_clean_words(lines), 1000)
    # They differ where counts are equal, and in "##x" that no word has.
    assert len(set(ours) & set(theirs)) > 950


def test_vocabularies_that_cannot_be(sample: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a vocabulary of 20 is too small"):
        learn_vocabulary(sample, 20)
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UserError, match="holds no text"):
        learn_vocabulary([tmp_path / "empty.txt"], 100)


def test_ids_equal_the_library_on_the_sample(tokenizer: WordPiece, sample: list[Path]) -> None:
    paragraphs = [paragraph for document in read_documents(sample) for paragraph in document.paragraphs]
    expected = tokenizer.encode_ids(paragraphs)
    fast = CorpusTokenizer(tokenizer)
    for paragraph, ids in zip(paragraphs, expected, strict=True):
        assert fast.encode(paragraph).tolist() == ids
    text = fast.encode_paragraphs(paragraphs)
    assert text.ids.tolist() == [index for ids in expected for index in ids]


def test_ids_equal_the_library_on_wikipedia(tokenizer: WordPiece, real_data: Path) -> None:
    documents = read_documents([real_data / "wikipedia_en" / "wiki_en_03.txt.xz"])
    paragraphs = [next(documents).text for _ in range(1500)]
    expected = [index for ids in tokenizer.encode_ids(paragraphs) for index in ids]
    # The second tokenizer forgets its words over and over.
    for fast in (CorpusTokenizer(tokenizer), CorpusTokenizer(tokenizer, cached_words=100)):
        found = np.concatenate([fast.encode_paragraphs(paragraphs[i : i + 50]).ids for i in range(0, 1500, 50)])
        assert found.tolist() == expected


# Characters at which Python and BERT disagree about spaces, marks, Chinese, special tokens inside words.
HARD = [
    "\x0b",
    "\x1c",
    "\x85",
    "\xa0",
    "\u2028",
    "\u200b",
    "\u0301",
    "\ud800",
    "é",
    "ß",
    "中",
    "[MASK]",
    "[SEP",
    "]",
    "#",
]
PARTS = st.one_of(st.sampled_from([*HARD, " ", " ", ".", "A", "the", "un", "believ", "able"]), st.characters())


@settings(max_examples=300, deadline=None)
@given(texts=st.lists(st.lists(PARTS, max_size=12).map("".join), max_size=5))
def test_ids_equal_both_tokenizers_on_any_text(texts: list[str]) -> None:
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    fast = CorpusTokenizer(tokenizer)
    found = fast.encode_paragraphs(texts)
    assert found.ids.tolist() == [index for text in texts for index in tokenizer.encode(text).ids[1:-1]]
    assert [fast.encode(text).tolist() for text in texts] == tokenizer.encode_ids(texts)
    assert found.paragraph_sentences.sum() == len(found.sentence_lengths)
    assert (found.sentence_lengths > 0).all()
    # The sentences of a paragraph hold exactly its tokens.
    ends = np.concatenate([[0], np.cumsum(found.sentence_lengths)])[np.cumsum(found.paragraph_sentences)]
    assert np.diff(ends, prepend=0).tolist() == [len(tokenizer.encode(text).ids) - 2 for text in texts]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One is here. Two is there! Is three? Yes.", 4),
        ("Mr. Smith met J. K. Rowling in St. Andrews.", 1),
        ('He said "Stop." Then he left.', 2),
        ("It costs 3.50 a piece. 20 cost less.", 2),
        ("no capital. so no new sentence", 1),
        ("\u200b", 0),
        ("", 0),
    ],
)
def test_sentences(tokenizer: WordPiece, text: str, sentences: int) -> None:
    assert CorpusTokenizer(tokenizer).encode_paragraphs([text]).paragraph_sentences.tolist() == [sentences]
