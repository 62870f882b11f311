"""Text and vocabulary for the tokenizer tests: real where there is any, else the samples and the sentences below."""

from __future__ import annotations

import gzip
import lzma
import os
from itertools import islice
from pathlib import Path

import pytest
from transformers import BertTokenizerFast

from d2lbert import zoo
from d2lbert.text import WordPiece

# Each line has something that a tokenizer can get wrong.
HARD_LINES = (
    "",
    "   \t  ",
    "Buy 5000m3 Dec CFT, WTI -9.25, Equinor US…",
    "environment, mentally; unaffable re-evaluated",
    "Crème brûlée à la façon d'Élodie, coûtée 3,50 €",
    "Cre\u0300me bru\u0302le\u0301e in decomposed letters",
    "ÅNGSTRÖM Straße ΑΒΓΣ Σίσυφος İstanbul ǅ ﬁne",
    "我爱北京天安门, 東京タワー と 서울 타워",
    "mixed中文and English中without spaces",
    "zero\u200bwidth\u200djoiner soft\u00adhyphen byte\ufeffmark fault\ufffdsign nul\x00byte bell\x07",
    "👩\u200d👩\u200d👧 family 🇳🇴 flag 👍🏽 thumb ☃\ufe0f",
    "no\u00a0break\u2003em\u3000wide\u2028line\u0085next\rreturn",
    "##prefix ## ###x a##b",
    "[MASK] in [SEP]text[CLS] [PAD][UNK] [mask] [MASK",
    "!@#$%^&*()_+-=[]{}|;':\",./<>?`~ “quotes” «guillemets» — – ‹x› ¿qué? ¡sí!",
    "x" * 100 + " " + "x" * 101 + " " + "ab" * 300,
    "e\u0301" * 101,
    "≠ ≮ \u037e \u1fef half ½ ² № ℡ ①",
    "नमस्ते दुनिया، مرحبا بالعالم שלום עולם สวัสดี",
    "a\u0334\u0321b \u302ad\u0488 c\u1734d e\u166df g\U000111c9h i\u2e52j k\u0898l",
)


@pytest.fixture(scope="session")
def hard_lines() -> list[str]:
    return list(HARD_LINES)


@pytest.fixture(scope="session")
def vocabulary_file() -> Path:
    """The vocabulary of bert-base-uncased, 30,522 pieces; both places hold the same."""
    folder = os.environ.get("D2LBERT_DATA")
    if folder and (Path(folder) / "bert_vocab" / "vocab.txt").is_file():
        return Path(folder) / "bert_vocab" / "vocab.txt"
    return zoo.locate("minilm") / "vocab.txt"


@pytest.fixture(scope="session")
def wordpiece(vocabulary_file: Path) -> WordPiece:
    return WordPiece.from_file(vocabulary_file)


@pytest.fixture(scope="session")
def cased_wordpiece(vocabulary_file: Path) -> WordPiece:
    return WordPiece.from_file(vocabulary_file, lowercase=False)


@pytest.fixture(scope="session")
def reference(vocabulary_file: Path) -> BertTokenizerFast:
    return BertTokenizerFast.from_pretrained(vocabulary_file.parent)


@pytest.fixture(scope="session")
def cased_reference(vocabulary_file: Path) -> BertTokenizerFast:
    return BertTokenizerFast.from_pretrained(vocabulary_file.parent, do_lower_case=False)


@pytest.fixture(scope="session")
def lines(root: Path) -> list[str]:
    """Hard lines, then 20,000 lines of real text, or all lines of the samples where there is no real text."""
    folder = os.environ.get("D2LBERT_DATA")
    text_lines = _real_lines(Path(folder)) if folder else _sample_lines(root / "data" / "samples")
    return [*HARD_LINES, *text_lines]


def _real_lines(folder: Path) -> list[str]:
    selected = [
        *_first(folder / "wikipedia_en" / "wiki_en_03.txt.xz", 6000),
        *_first(folder / "wikipedia_zh" / "wiki_zh_00.txt.xz", 5000),
        *_first(folder / "wnut17" / "wnut17train.conll", 3000),
        *_first(folder / "multi30k" / "train.de.gz", 3000),
        *_first(folder / "multi30k" / "train.fr.gz", 3000),
    ]
    assert len(selected) == 20_000
    return selected


def _first(path: Path, count: int) -> list[str]:
    """The first lines of a file that are not blank."""
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8") as file:
        return list(islice((line.rstrip("\n") for line in file if line.strip()), count))


def _sample_lines(folder: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.suffix in (".txt", ".tsv")]
    return [line for text in texts for line in text.split("\n")]
