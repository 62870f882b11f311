"""Every reader, on small files with one fault each, on the samples, and on the real files."""

from __future__ import annotations

import gzip
import lzma
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data import (
    Analogy,
    Document,
    Sentence,
    Translation,
    WordInContext,
    WordPair,
    load,
    read,
    read_file,
)
from d2lbert.data.readers import corpora, words
from d2lbert.data.readers.formats import guess_format

# Split -> number of examples, as counted when the mirror was made.
COUNTS = {
    ("sst2", "train"): 6920,
    ("sst2", "dev"): 872,
    ("sst2_glue", "train"): 60614,
    ("sst2_glue", "dev"): 6735,
    ("sst2_glue", "test"): 872,
    ("google_analogies", "test"): 19544,
    ("word_similarity", "test"): 353 + 203 + 252 + 999 + 3000 + 65 + 2034 + 3500,
    ("wic", "train"): 5428,
    ("wic", "dev"): 638,
    ("multi30k", "train"): 29000,
    ("multi30k", "dev"): 1014,
    ("multi30k", "test"): 1000,
}


def write(folder: Path, text: str | bytes, name: str = "file.tsv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(("name", "split"), sorted(COUNTS))
def test_counts_of_the_real_files(real_data: Path, name: str, split: str) -> None:
    assert len(load(name, split)) == COUNTS[name, split]


def test_real_wikipedia_has_the_documents_and_paragraphs_of_its_readme(real_data: Path) -> None:
    documents = paragraphs = 0
    for split in ("train", "dev"):
        for document in read("wikipedia_en", split):
            documents += 1
            paragraphs += len(document.paragraphs)
    assert (documents, paragraphs) == (25_623, 146_620)


def test_both_layouts_of_sst2_agree_on_the_labels_of_the_same_sentences(real_data: Path) -> None:
    first = Counter(example.label for example in load("sst2", "dev"))
    second = Counter(example.label for example in load("sst2_glue", "test"))
    assert first == second == {"positive": 444, "negative": 428}


def test_real_analogies_have_14_sections(real_data: Path) -> None:
    assert len({question.section for question in read("google_analogies", "test")}) == 14


def test_real_wic_places_point_at_a_form_of_the_word(real_data: Path) -> None:
    examples = load("wic", "dev")
    assert sum(example.label for example in examples) == 319
    # Irregular forms (went, mice) share no letters at the start; most do.
    alike = [example.first.split(" ")[example.first_index][:2].lower() == example.word[:2] for example in examples]
    assert sum(alike) / len(alike) > 0.95


def test_sst2_reads_numbers_and_names_of_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "a fine film\t1\nbad , bad\tnegative\r\n\n")
    assert read_file(path, "sst2") == [Sentence("a fine film", "positive"), Sentence("bad , bad", "negative")]


def test_sst2_keeps_the_line_and_paragraph_separators_of_unicode(tmp_path: Path) -> None:
    path = write(tmp_path, "one\u2028two\x85three\t1\n")
    assert read_file(path, "sst2") == [Sentence("one\u2028two\x85three", "positive")]


def test_glue_finds_its_columns_by_name_and_takes_quotes_literally(tmp_path: Path) -> None:
    path = write(tmp_path, '\ufefflabel\tindex\tsentence\n0\t7\t"so so\n1\t8\tgood " film\n')
    assert read_file(path, "glue-tsv") == [Sentence('"so so', "negative"), Sentence('good " film', "positive")]


def test_csv_reads_quoted_fields_with_commas_and_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path, 'id,label,text\n1,cooking,"salt, then\npepper"\n2,sports,"he said ""go"""\n')
    expected = [Sentence("salt, then\npepper", "cooking"), Sentence('he said "go"', "sports")]
    assert read_file(path, "csv") == expected


def test_csv_takes_labels_by_name_or_by_place(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label\nx,b\ny,0\n")
    assert read_file(path, "csv", labels=("a", "b")) == [Sentence("x", "b"), Sentence("y", "a")]


def test_numbers_that_are_names_are_no_places(tmp_path: Path) -> None:
    train = read_file(write(tmp_path, "text,label\nx,1\ny,3\nz,5\n"), "csv")
    labels = sorted({example.label for example in train})
    assert read_file(write(tmp_path, "text,label\nx,3\n"), "csv", labels) == [Sentence("x", "3")]
    with pytest.raises(UserError, match="line 2: the label '2' is not one of 1, 3, 5; correct the label"):
        read_file(write(tmp_path, "text,label\nx,2\n"), "csv", labels)


@pytest.mark.parametrize("labels", [("1.0", "2.0"), ("-1", "+1"), ("7", "other")])
def test_one_name_that_is_a_number_is_enough(tmp_path: Path, labels: tuple[str, str]) -> None:
    with pytest.raises(UserError, match="the label '0' is not one of"):
        read_file(write(tmp_path, "text,label\nx,0\n"), "csv", labels)


def test_csv_reads_a_text_longer_than_the_limit_of_the_csv_module(tmp_path: Path) -> None:
    path = write(tmp_path, f"text,label\n{'word ' * 40_000},a\n")
    assert len(read_file(path, "csv")[0].text) == 199_999


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_paragraphs_of_documents_plain_and_packed(tmp_path: Path, ending: str) -> None:
    text = b"\n\nfirst\nsecond\n\n \n\nthird\n"
    packed = {"": lambda data: data, ".gz": gzip.compress, ".xz": lzma.compress}[ending](text)
    path = write(tmp_path, packed, "text.txt" + ending)
    assert list(corpora.paragraphs(path)) == [Document(("first", "second")), Document(("third",))]


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


FAULTS = [
    # format, content, line, part of the message
    ("sst2", "good\t1\nno label here\n", 2, "1 column where text TAB label"),
    ("sst2", "a\tb\t1\n", 1, "3 columns"),
    ("sst2", "good\t1\n\t0\n", 2, "the text is empty"),
    ("sst2", "good\t2\n", 1, "the label '2' is not one of 0 = negative, 1 = positive"),
    ("sst2", "good\tneutral\n", 1, "'neutral' is not one of"),
    ("sst2", "good\t-1\n", 1, "'-1' is not one of"),
    ("sst2", "good\t\n", 1, "the label '' is not one of"),
    ("sst2", b"good\t1\nsch\xf6n\t1\n", 2, "not UTF-8"),
    ("glue-tsv", "text\tlabel\ngood\t1\n", 1, "no column 'sentence' (found: 'text', 'label')"),
    ("glue-tsv", "sentence\tgold\ngood\t1\n", 1, "no column 'label'"),
    ("glue-tsv", "sentence\tlabel\ngood\n", 2, "1 column where the header has 2"),
    ("glue-tsv", "", 1, "no column 'sentence' (found: none)"),
    ("csv", "sentence,label\ngood,1\n", 1, "no column 'text'"),
    ("csv", "text,label\n,a\n", 2, "the text is empty"),
    ("csv", "text,label\ngood,\n", 2, "the label is empty"),
    ("csv", 'text,label\n"good,a\n', 2, "not valid CSV"),
    ("csv", "text,label\na,b,c\n", 2, "3 columns where the header has 2"),
    ("csv", b"text,label\n\xff\xfe,b\n", 2, "not UTF-8"),
]


@pytest.mark.parametrize(("format", "content", "line", "message"), FAULTS)
def test_a_fault_is_one_line_with_file_line_and_remedy(
    tmp_path: Path, format: str, content: str | bytes, line: int, message: str
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(UserError) as caught:
        read_file(path, format)
    text = str(caught.value)
    assert text.startswith(f"{path}, line {line}: ")
    assert message in text
    assert ";" in text.removeprefix(str(path))
    assert "\n" not in text


def test_a_label_outside_the_given_set_is_a_fault(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label\nx,c\n")
    with pytest.raises(UserError, match="line 2: the label 'c' is not one of 0 = a, 1 = b"):
        read_file(path, "csv", labels=("a", "b"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.tsv", b"", "holds no examples"),
        ("missing.tsv", None, "cannot read .*missing.tsv: No such file"),
        ("folder", "folder", "cannot read .*folder: Is a directory"),
        ("broken.xz", lzma.compress(b"good\t1\n" * 1000)[:40], "broken.xz is damaged"),
        ("broken.gz", gzip.compress(b"good\t1\n" * 1000)[:30], "broken.gz is damaged"),
        ("not.gz", b"good\t1\n", "not.gz is damaged"),
        # The reserved kind of block stands where the packed bytes begin.
        ("start.gz", gzip.compress(b"good\t1\n")[:10] + b"\xff" * 9, "start.gz is damaged .*invalid block type"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | str | None, message: str) -> None:
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_file(path, "sst2")
    assert "\n" not in str(caught.value)


def test_an_unknown_format_names_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown format 'glue_tsv': did you mean glue-tsv"):
        read_file(write(tmp_path, "x"), "glue_tsv")


def test_an_unknown_task_names_the_near_one(tmp_path: Path) -> None:
    path = write(tmp_path, "good\t1\n")
    with pytest.raises(UserError, match=r"unknown task 'classfication': did you mean classification"):
        read_file(path, "sst2", task="classfication")
    with pytest.raises(UserError, match=r"unknown task 'classfication': did you mean classification"):
        guess_format(path, "classfication")


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


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (30 + len("data/a.jsonl"), 0xFF, "invalid block type"),  # the first packed byte, below a header of 30 bytes
        (6, 0x01, "is encrypted"),
        (6, 0x40, "strong encryption"),
        (0, 0x00, "Bad magic number"),
    ],
)
def test_a_damaged_archive_is_one_line(tmp_path: Path, place: int, value: int, reason: str) -> None:
    path = tmp_path / "pairs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/a.jsonl", "a line\n" * 9)
    content = bytearray(path.read_bytes())
    content[place] = value
    if place == 6:  # the list at the end of the archive repeats the flags of a file, 8 bytes into its entry
        content[content.index(b"PK\x01\x02") + 8] = value
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"pairs.zip is damaged \(.*{reason}.*\); get the file again") as caught:
        list(corpora.minimal_pairs(path))
    assert "\n" not in str(caught.value)


def test_translations_are_read_line_to_line(tmp_path: Path) -> None:
    source, target = write(tmp_path, "One.\n Two. \n", "a.en"), write(tmp_path, "Eins.\nZwei.\n", "a.de")
    assert list(corpora.translations(source, target)) == [
        Translation("One.", "Eins."),
        Translation("Two.", "Zwei."),
    ]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\n", "x\n", r"a.de ends after line 1, but \S+a.en goes on; the two belong line to line"),
        ("a\n", "x\ny\n", r"a.en ends after line 1, but \S+a.de goes on"),
        ("a\n\nc\n", "x\ny\nz\n", "a.en, line 2: the line is empty; fill it in, or remove it from both"),
        ("a\nb\n", "x\n \t\n", "a.de, line 2: the line is empty"),
    ],
)
def test_faults_of_translations(tmp_path: Path, source: str, target: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        list(corpora.translations(write(tmp_path, source, "a.en"), write(tmp_path, target, "a.de")))
    assert "\n" not in str(caught.value)
