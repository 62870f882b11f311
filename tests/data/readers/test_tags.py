"""The readers of tagged words: CoNLL-2003, WNUT-17 and Brown, by hand, one fault each, and the real files."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data import TaggedSentence, load
from d2lbert.data.readers.tag_schemes import entities
from d2lbert.data.readers.tags import brown, brown_universal, conll


def _file(folder: Path, text: str) -> Path:
    path = folder / "file.conll"
    path.write_bytes(text.encode("utf-8"))
    return path


def test_conll_is_read_into_iob2(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\nOslo NNP I-NP I-LOC\nBergen NNP I-NP B-LOC\n, , O O\n\n\nAda NNP I-NP I-PER"
    assert list(conll(_file(tmp_path, text))) == [
        TaggedSentence(("Oslo", "Bergen", ","), ("B-LOC", "B-LOC", "O")),
        TaggedSentence(("Ada",), ("B-PER",)),
    ]


def test_wnut_is_read_with_its_odd_blank_lines(tmp_path: Path) -> None:
    text = "@ada\tO\nOslo\tB-location\n\t\nat\tO\n\ufeff\nnoon\tO\n"
    sentences = list(conll(_file(tmp_path, text)))
    assert [sentence.words for sentence in sentences] == [("@ada", "Oslo"), ("at",), ("noon",)]


@pytest.mark.parametrize("space", ["\u202f", "\xa0", "\u3000", "\u2028", "\x0b"])
@pytest.mark.parametrize("separator", [" ", "  ", "\t"])
def test_only_spaces_and_tabs_part_the_columns(space: str, separator: str, tmp_path: Path) -> None:
    word = f"10{space}000"
    for labelled, tags in ((True, ("B-X",)), (False, None)):
        found = list(conll(_file(tmp_path, f"{word}{separator}B-X\r\n\n"), labelled=labelled))
        assert found == [TaggedSentence((word,), tags)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Oslo B-PER\rAda O\r\r", "line 1: a carriage return within the line; save the file with line feeds (LF)"),
        ("Oslo\n", "line 1: 'Oslo' where a word and its tag are wanted"),
        ("Oslo LOC\n\n", "sentence before line 2: the tag 'LOC' is not O"),
        ("Oslo B-LOC\n\n", "line 2: the tag 'B-LOC' is not one of O, B-PER"),
    ],
)
def test_faults_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        list(conll(_file(tmp_path, text), ("O", "B-PER")))
    assert message in str(caught.value)


def test_real_files(real_data: Path) -> None:
    sentences = list(conll(real_data / "conll2003_ner" / "eng.testb"))
    assert (len(sentences), sum(len(sentence.words) for sentence in sentences)) == (3453, 46666 - 231)
    kinds = Counter(entity.type for sentence in sentences for entity in entities(sentence.tags))
    assert kinds == {"LOC": 1668, "ORG": 1661, "PER": 1617, "MISC": 702}
    for name, size, tokens in (
        ("wnut17train.conll", 3394, 62730),
        ("emerging.dev.conll", 1009, 15733),
        ("emerging.test.annotated.first_half", 643, 12196),
    ):
        sentences = list(conll(real_data / "wnut17" / name))
        assert (len(sentences), sum(len(sentence.words) for sentence in sentences)) == (size, tokens)


def _brown(folder: Path, text: str) -> Path:
    with zipfile.ZipFile(folder / "brown.zip", "w") as archive:
        archive.writestr("brown/ca01", text)
        archive.writestr("brown/README", "not/a text")
    return folder / "brown.zip"


def test_brown_is_read_with_parts_of_speech(tmp_path: Path) -> None:
    text = "\n\tThe/at Fulton/np-tl Jury's/nn$ 1/2/cd --/--\n\n\tIt/pps isn't/bez* ./.\n"
    assert list(brown(_brown(tmp_path, text))) == [
        TaggedSentence(("The", "Fulton", "Jury's", "1/2", "--"), ("at", "np", "nn", "cd", "--")),
        TaggedSentence(("It", "isn't", "."), ("pps", "bez", ".")),
    ]


def test_brown_is_read_with_universal_parts_of_speech(tmp_path: Path) -> None:
    text = "\n\tThe/at Fulton/np-tl Jury's/nn$ 1/2/cd --/--\n\n\tIt's/pps+bez not/* so/ql ./.\n"
    assert list(brown_universal(_brown(tmp_path, text) / "brown" / "ca*")) == [
        TaggedSentence(("The", "Fulton", "Jury's", "1/2", "--"), ("DET", "NOUN", "NOUN", "NUM", ".")),
        TaggedSentence(("It's", "not", "so", "."), ("PRON", "ADV", "ADV", ".")),
    ]
    with pytest.raises(UserError, match="brown/ca01: 'xx' is no tag of the Brown corpus: correct it"):
        list(brown_universal(_brown(tmp_path, "a/xx") / "brown" / "ca*"))


def test_files_of_brown_are_split_and_none_is_lost(real_data: Path) -> None:
    parts = {split: load("brown_universal", split) for split in ("train", "dev", "test")}
    sizes = {split: sum(len(sentence.words) for sentence in part) for split, part in parts.items()}
    assert sizes == {"train": 961698, "dev": 104720, "test": 94774}
    assert sum(sizes.values()) == 1161192


def test_faults_of_brown_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"brown/ca01, line 1: a word without its tag"):
        list(brown(_brown(tmp_path, "The Jury/nn\n")))
    (tmp_path / "torn.zip").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"torn\.zip is damaged"):
        list(brown(tmp_path / "torn.zip"))
    with pytest.raises(UserError, match=r"cannot read .*none\.zip"):
        list(brown(tmp_path / "none.zip"))


def test_the_real_brown_corpus(real_data: Path) -> None:
    sentences = list(brown(real_data / "brown" / "brown.zip"))
    assert (len(sentences), sum(len(sentence.words) for sentence in sentences)) == (57340, 1161192)
    kinds = Counter(tag for sentence in sentences for tag in sentence.tags)
    assert [kind for kind, _ in kinds.most_common(4)] == ["nn", "in", "at", "jj"]
    assert {"", "np$", "nn-tl"}.isdisjoint(kinds)


def test_an_archive_with_a_file_that_is_not_utf8_is_one_line(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "brown.zip", "w") as archive:
        archive.writestr("brown/ca01", b"\xff\xfe")
    with pytest.raises(UserError, match=r"brown\.zip holds a file that is not UTF-8; get the archive again"):
        list(brown(tmp_path / "brown.zip"))
