"""Tokenising a corpus word by word: the ids of both tokenizers, and where sentences end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert.data.pretraining.corpus import corpus_files, read_documents
from d2lbert.data.pretraining.tokenizing import CorpusTokenizer
from d2lbert.text import WordPiece
from d2lbert.zoo import locate


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece.from_pretrained(locate("minilm"))


@pytest.fixture(scope="module")
def sample(root: Path) -> list[Path]:
    return corpus_files([root / "data" / "samples" / "wikipedia_en"])


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
    expected = [index for text_ids in tokenizer.encode_ids(paragraphs) for index in text_ids]
    # The second tokenizer forgets its words over and over.
    for fast in (CorpusTokenizer(tokenizer), CorpusTokenizer(tokenizer, cached_words=100)):
        ids = np.concatenate([fast.encode_paragraphs(paragraphs[i : i + 50]).ids for i in range(0, 1500, 50)])
        assert ids.tolist() == expected


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


@given(texts=st.lists(st.lists(PARTS, max_size=12).map("".join), max_size=5))
def test_ids_equal_both_tokenizers_on_any_text(tokenizer: WordPiece, texts: list[str]) -> None:
    fast = CorpusTokenizer(tokenizer)
    encoded = fast.encode_paragraphs(texts)
    assert encoded.ids.tolist() == [index for text in texts for index in tokenizer.encode(text).ids[1:-1]]
    assert [fast.encode(text).tolist() for text in texts] == tokenizer.encode_ids(texts)
    assert encoded.paragraph_sentences.sum() == len(encoded.sentence_lengths)
    assert (encoded.sentence_lengths > 0).all()
    # The sentences of a paragraph hold exactly its tokens.
    ends = np.concatenate([[0], np.cumsum(encoded.sentence_lengths)])[np.cumsum(encoded.paragraph_sentences)]
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


def test_tokens_of_each_sentence(tokenizer: WordPiece) -> None:
    """Two paragraphs of two sentences and one; "embeddings" has more than one piece."""
    text = CorpusTokenizer(tokenizer).encode_paragraphs(["One is here. Two embeddings.", "", "No end"])
    pieces = len(tokenizer.tokenize("Two embeddings."))
    assert pieces > 3
    assert text.sentence_lengths.tolist() == [4, pieces, 2]
    assert text.paragraph_sentences.tolist() == [2, 0, 1]
    assert len(text.ids) == 4 + pieces + 2
