"""The readers of questions about words: each layout by hand, one fault each, and the real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data import Analogy, WordInContext, WordPair, load, read
from d2lbert.data.readers import words


def write(folder: Path, text: str | bytes, name: str = "file.tsv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_real_analogies_have_14_sections(real_data: Path) -> None:
    assert len({question.section for question in read("google_analogies", "test")}) == 14


def test_real_wic_places_point_at_a_form_of_the_word(real_data: Path) -> None:
    examples = load("wic", "dev")
    assert sum(example.label for example in examples) == 319
    # Irregular forms (went, mice) share no letters at the start; most do.
    alike = [example.first.split(" ")[example.first_index][:2].lower() == example.word[:2] for example in examples]
    assert sum(alike) / len(alike) > 0.95


def test_analogies(tmp_path: Path) -> None:
    path = write(tmp_path, ": capital-common-countries\nAthens Greece Oslo Norway\n: gram1\na b c d\n")
    first, second = words.analogies(path)
    assert first == Analogy("capital-common-countries", "Athens", "Greece", "Oslo", "Norway")
    assert second.section == "gram1"


def test_word_pairs_with_spaces_or_tabs(tmp_path: Path) -> None:
    path = write(tmp_path, "sun\tmoon\t7.5\nsun stone 1\n", "EN-SMALL.txt")
    assert list(words.word_pairs(path)) == [
        WordPair("sun", "moon", 7.5, "SMALL"),
        WordPair("sun", "stone", 1.0, "SMALL"),
    ]


def test_words_in_context(tmp_path: Path) -> None:
    data = write(tmp_path, "run\tV\t1-0\tHe ran .\tRun !\r\n", "d")
    gold = write(tmp_path, "T\r\n", "g")
    assert list(words.words_in_context(data, gold)) == [WordInContext("run", "V", "He ran .", "Run !", 1, 0, True)]


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        (words.analogies, "a b c d\n", "line 1: a question before the first section"),
        (words.analogies, ": s\na b c\n", "line 2: 3 words"),
        (words.word_pairs, "a b\n", "line 1: 2 columns"),
        (words.word_pairs, "a b 1\na b high\n", "line 2: the score 'high' is not a number"),
    ],
)
def test_faults_of_word_files(tmp_path: Path, reader, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(reader(write(tmp_path, content)))


@pytest.mark.parametrize(
    ("data", "gold", "message"),
    [
        ("w\tN\t0-0\ta\n", "T\n", "line 1: 4 columns"),
        ("w\tN\t0,0\ta\tb\n", "T\n", "line 1: the places '0,0'"),
        ("w\tN\t0-1\ta\tb\n", "T\n", "line 1: the places 0-1 lie outside"),
        ("w\tN\t1-0\ta\tb\n", "T\n", "line 1: the places 1-0 lie outside"),
        ("w\tN\t0-0\ta\tb\n", "yes\n", "line 1: 'yes' where T or F"),
        ("w\tN\t0-0\ta\tb\n", "T\nF\n", "data has fewer lines than .*gold"),
        ("w\tN\t0-0\ta\tb\nw\tN\t0-0\ta\tb\n", "T\n", "gold has fewer lines than .*data"),
    ],
)
def test_faults_of_word_in_context_files(tmp_path: Path, data: str, gold: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(words.words_in_context(write(tmp_path, data, "data"), write(tmp_path, gold, "gold")))
