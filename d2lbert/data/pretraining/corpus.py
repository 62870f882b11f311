"""A corpus of plain text: find its files, read its documents, learn a vocabulary from it.

The text has one paragraph per line and a blank line between documents. A file may be compressed (``.gz``, ``.xz``). One
document is in memory at a time.
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from d2lbert.data.examples import Document
from d2lbert.data.readers.corpora import paragraphs
from d2lbert.errors import UserError
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.text.normalization import clean_character, is_chinese, is_punctuation
from d2lbert.text.tokenizer_json import LONGEST_WORD

_ENDINGS = (".txt", ".txt.gz", ".txt.xz")
_ALPHABET = 1000  # only the most frequent characters become pieces; see text/wordpiece_learning.py
# Counting takes memory for every word that differs, so of a larger corpus a sample is counted.
_SAMPLE = 100_000_000  # characters


def corpus_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the files of a corpus, each once.

    Args:
        paths: files of any name, folders (all ``.txt``, ``.txt.gz`` and ``.txt.xz`` below them, in alphabetical order)
            or patterns such as ``"wiki/*.xz"``.

    Raises:
        UserError: a path leads to no file.
    """
    unique: dict[Path, None] = {}  # a dictionary keeps the order and drops duplicates
    for path in paths:
        files = _files_of(Path(path).expanduser())
        if not files:
            raise UserError(f"no corpus at {path}: give a text file, a folder with .txt files (.gz, .xz) or a pattern")
        unique |= dict.fromkeys(files)
    return list(unique)


def _files_of(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.name.endswith(_ENDINGS) and file.is_file())
    return sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())


def read_documents(files: Iterable[str | Path]) -> Iterator[Document]:
    """Yield the documents of all files, in order. A document ends at the end of its file.

    Raises:
        UserError: a file is missing, damaged or not UTF-8.
    """
    for file in files:
        yield from paragraphs(file)


def learn_vocabulary(files: Sequence[str | Path], size: int, lowercase: bool = True) -> WordPiece:
    """Learn a tokenizer from a corpus with the `tokenizers` library. The result is the same on every run.

    The algorithm is that of :func:`d2lbert.text.learn_wordpiece`, but in Rust, for large texts. From a corpus of more
    than 100 million characters it learns from every second document, or every third, and so on, so that memory does not
    grow with the corpus. The alphabet is that of all documents.

    Args:
        files: of the corpus.
        size: the number of pieces, special tokens included. A small corpus may give fewer.
        lowercase: fold case and strip accents.

    Raises:
        UserError: the corpus is empty, or ``size`` has no room for its characters.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

    letters, characters = _letters(files, lowercase)
    step = -(-characters // _SAMPLE)
    # The library numbers the pieces "##a", "##b", ... in the order of a hash table, which changes from run to run, and
    # the numbers decide between pairs of equal count. Pieces that it gets as special tokens keep their order.
    inside = [f"##{letter}" for letter in letters if not is_punctuation(letter) and not is_chinese(letter)]
    first = len(SPECIAL_TOKENS) + len(inside) + len(letters)
    if size < first:
        raise UserError(f"a vocabulary of {size:,} is too small: {first:,} special tokens and characters come first")
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=lowercase)
    # A longer word is [UNK] to the tokenizer, whatever pieces it has.
    too_long = Regex(rf"\A.{{{LONGEST_WORD + 1},}}\z")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(too_long, "removed")]
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,  # a pair seen once is no pattern
        special_tokens=[*SPECIAL_TOKENS, *inside],
        limit_alphabet=_ALPHABET,
        show_progress=False,
    )
    sample = islice(read_documents(files), 0, None, step)
    texts = (paragraph for document in sample for paragraph in document.paragraphs)
    tokenizer.train_from_iterator(texts, trainer)
    ids = tokenizer.get_vocab()
    return WordPiece(sorted(ids, key=lambda piece: ids[piece]), lowercase)


def _letters(files: Sequence[str | Path], lowercase: bool) -> tuple[list[str], int]:
    """Return the most frequent characters of the cleaned text, in alphabetical order, and the number of all."""
    raw: Counter[str] = Counter()
    for document in read_documents(files):
        for paragraph in document.paragraphs:
            raw.update(paragraph)
    counts: Counter[str] = Counter()
    for character, count in raw.items():
        for letter in clean_character(character, lowercase, lowercase).replace(" ", ""):
            counts[letter] += count
    if not counts:
        raise UserError("the corpus holds no text: give files with one paragraph a line")
    ranked = sorted(counts, key=lambda letter: (-counts[letter], letter))
    return sorted(ranked[:_ALPHABET]), raw.total()
