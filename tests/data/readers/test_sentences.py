"""The readers of labelled sentences: each layout by hand, one fault each; and how many examples the real files have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.data import (
    Sentence,
    load,
    read_file,
)
from d2lbert.data.readers.lines import is_visible
from d2lbert.data.readers.sentences import topics, trec, trec_fine

# Split -> number of examples, as counted when the mirror was made.
COUNTS = {
    ("sst2", "train"): 6920,
    ("sst2", "dev"): 872,
    ("sst2_glue", "train"): 60614,
    ("sst2_glue", "dev"): 6735,
    ("sst2_glue", "test"): 872,
    ("trec", "train"): 4907,
    ("trec", "dev"): 545,
    ("trec_fine", "test"): 500,
    ("agnews", "train"): 5700,
    ("agnews", "dev"): 1900,
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


def test_both_layouts_of_sst2_agree_on_the_labels_of_the_same_sentences(real_data: Path) -> None:
    first = Counter(example.label for example in load("sst2", "dev"))
    second = Counter(example.label for example in load("sst2_glue", "test"))
    assert first == second == {"positive": 444, "negative": 428}


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


def test_labels_are_taken_by_name_alone(tmp_path: Path) -> None:
    """A model has its labels in the order of the alphabet, a file in which 1 stands for spam perhaps in another."""
    path = write(tmp_path, "text,label\nx,b\ny,0\n")
    with pytest.raises(UserError, match="line 3: the label '0' is not one of a, b; write these names: a number"):
        read_file(path, "csv", labels=("a", "b"))


@pytest.mark.parametrize(
    ("format", "content", "names"),
    [
        ("sst2", "x\t1\ny\t0\n", ("positive", "negative")),
        ("glue-tsv", "sentence\tlabel\nx\t1\ny\t0\n", ("positive", "negative")),
        ("cola", "gj\t1\t\tx\ngj\t0\t*\ty\n", ("acceptable", "unacceptable")),
        ("glue-tsv", "gj\t1\t\tx\ngj\t0\t*\ty\n", ("acceptable", "unacceptable")),
    ],
)
def test_numbers_of_a_data_set_are_its_names_in_any_order(
    format: str, content: str, names: tuple[str, str], tmp_path: Path
) -> None:
    path = write(tmp_path, content)
    assert [sentence.label for sentence in read_file(path, format, names)] == list(names)
    with pytest.raises(UserError, match=rf"the label '1' \({names[0]}\) is not one of bad, good; write these names"):
        read_file(path, format, ("bad", "good"))


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


def test_questions_of_trec_are_latin_1_with_two_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "LOC:city Where is the caf\xe9 ?\r\nNUM:date When : now ?\n\n".encode("latin-1"))
    assert list(trec(path)) == [Sentence("Where is the caf\xe9 ?", "LOC"), Sentence("When : now ?", "NUM")]
    assert [example.label for example in trec_fine(path)] == ["LOC:city", "NUM:date"]


@given(st.text(st.characters(max_codepoint=255), min_size=1).filter(lambda text: is_visible(text.strip())))
def test_any_question_in_latin_1_comes_back(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    text = text.replace("\n", " ").strip()
    path = write(tmp_path_factory.mktemp("trec"), f"HUM:ind {text}\n".encode("latin-1"))
    assert list(trec(path)) == [Sentence(text, "HUM")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("LOC Where ?", "line 1: 'LOC' where KIND:detail is wanted; get the file again"),
        (":city Where ?", "line 1: ':city' where KIND:detail is wanted"),
        ("\nLOC:city ", "line 2: the question is empty"),
    ],
)
def test_a_line_that_is_no_question_of_trec_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(UserError) as caught:
        list(trec(path))
    assert str(caught.value).startswith(f"{path}, {message}")


def test_real_questions_of_trec(real_data: Path) -> None:
    examples = load("trec", "train") + load("trec", "dev")
    assert len({example.label for example in examples}) == 6
    assert any(ord(character) > 127 for example in examples for character in example.text)
    fine = load("trec_fine", "train") + load("trec_fine", "dev")
    assert len({example.label for example in fine}) == 50
    assert [example.text for example in fine] == [example.text for example in examples]


def test_topics_have_labels_of_any_name(tmp_path: Path) -> None:
    path = write(tmp_path, "Oil rose #36;2\tBusiness\nA probe\tSci/Tech\n")
    assert list(topics(path)) == [Sentence("Oil rose #36;2", "Business"), Sentence("A probe", "Sci/Tech")]
    with pytest.raises(UserError, match="line 1: the label is empty"):
        list(topics(write(tmp_path, "Oil rose\t \n")))


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
    ("csv", "phrase,label\ngood,1\n", 1, "no column 'text' or 'sentence' (found: 'phrase', 'label'); name the column"),
    ("csv", "text,label,text\ngood,1,bad\n", 1, "2 columns are called 'text'"),
    ("csv", "text,label\n\u200b,a\n", 2, "the text is empty"),
    ("sst2", f"good\t{'1' * 5000}\n", 1, "is not one of 0 = negative"),
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
    with pytest.raises(UserError, match="line 2: the label 'c' is not one of a, b; correct the label"):
        read_file(path, "csv", labels=("a", "b"))


def test_colas_label_is_its_second_field(tmp_path: Path) -> None:
    path = write(tmp_path, "gj04\t1\t\tThe ship sank.\nr-67\t0\t*\tThe sank ship.\n")
    assert [(sentence.text, sentence.label) for sentence in read_file(path, "cola")] == [
        ("The ship sank.", "acceptable"),
        ("The sank ship.", "unacceptable"),
    ]
