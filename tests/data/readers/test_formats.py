"""Formats of a user's own files: which a task can read, which an ending tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data import Columns, Pair, Question, ScoredPair, Sentence, TaggedSentence, read_file
from d2lbert.data.readers.formats import READERS, guess_format, open_table


def write(folder: Path, text: str, name: str = "file.tsv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_endings_tell_the_format() -> None:
    assert guess_format("a.csv", "pair") == "csv"
    assert guess_format("rte.xml", "pair") == "rte-xml"
    assert guess_format("a.tsv.gz", "pair") == guess_format("a", "pair") == "glue-tsv"
    assert guess_format("a.csv.xz", "classification") == "csv"
    assert guess_format("a.xml", "classification") == "tsv"


def test_endings_tell_the_format_of_choices() -> None:
    assert guess_format("a.xml", "multiple_choice") == "copa"
    assert guess_format("a.csv.gz", "multiple_choice") == guess_format("a", "multiple_choice") == "swag"


def test_a_table_is_told_by_its_ending_and_its_beginning(tmp_path: Path) -> None:
    for name, format in (("a.jsonl", "jsonl"), ("a.ndjson", "jsonl"), ("a.parquet", "parquet")):
        assert all(guess_format(name, task) == format for task in READERS)
    lists = write(tmp_path, '[\n{"text": "a"}]', "list.json")
    lines = write(tmp_path, '{"text": "a"}\n{"text": "b"}\n', "lines.json")
    squad = write(tmp_path, '{"data": []}', "squad.json")
    spread = write(tmp_path, '{\n"data": []}', "spread.json")
    for task in READERS:
        assert (guess_format(lists, task), guess_format(lines, task)) == ("json", "jsonl")
    assert guess_format(squad, "question_answering") == guess_format(spread, "question_answering") == "squad"
    swag = write(tmp_path, "sent1,sent2,ending0,ending1,label\n", "swag.csv")
    own = write(tmp_path, "premise,choice0,choice1,label\n", "own.csv")
    assert (guess_format(swag, "multiple_choice"), guess_format(own, "multiple_choice")) == ("swag", "csv")


def test_a_tsv_is_told_by_its_first_line(tmp_path: Path) -> None:
    named = write(tmp_path, "Text\tLabel\na\tbilling\n", "named.tsv")
    bare = write(tmp_path, "a\tbilling\nb\tlogin\nc\tbilling\n", "bare.tsv")
    cola = write(tmp_path, "gj04\t1\t\tThe cat sat.\n", "cola.tsv")
    other = write(tmp_path, "17\t1\tAnn\tThe cat sat.\n", "other.tsv")  # where CoLA has a mark, a name
    guesses = [guess_format(path, "classification") for path in (named, bare, cola, other)]
    assert guesses == ["tsv", "tsv", "cola", "tsv"]
    assert read_file(named, "tsv") == [Sentence("a", "billing")]
    assert read_file(bare, "tsv") == [Sentence("a", "billing"), Sentence("b", "login"), Sentence("c", "billing")]
    assert guess_format(bare, "pair", Columns(text_column="a")) == "tsv"
    assert guess_format(tmp_path / "a.txt", "pair", Columns(separator=";")) == "csv"


@pytest.mark.parametrize("labels", [("0", "1"), ("negative", "positive")])
def test_only_its_own_format_makes_a_file_one_of_sst2(labels: tuple[str, str], tmp_path: Path) -> None:
    content = f"good\t{labels[1]}\nbad\t{labels[0]}\n"
    for text in (content, f"sentence\tlabel\n{content}", f"{content}\t\n"):
        path = write(tmp_path, text)
        assert guess_format(path, "classification") == "tsv"
    path = write(tmp_path, content)
    assert [sentence.label for sentence in read_file(path, "sst2")] == ["positive", "negative"]
    if labels == ("0", "1"):
        assert [sentence.label for sentence in read_file(path, "tsv")] == ["1", "0"]


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("labelled", [True, False])
def test_names_that_are_not_known_are_no_example(separator: str, labelled: bool, tmp_path: Path) -> None:
    """A CSV and a TSV are read alike: the first line names the columns, whatever they are called."""
    format = {",": "csv", "\t": "tsv"}[separator]
    rows = [("review", "sentiment"), ("a good film", "pos"), ("a bad plot", "neg"), ("good", "pos")]
    path = write(tmp_path, "".join(separator.join(row) + "\n" for row in rows), f"film.{format}")
    assert guess_format(path, "classification", labelled=labelled) == format
    message = (
        "line 1: no column 'text' or 'sentence' (found: 'review', 'sentiment'); name the column with --text-column, or "
        "put a line of names above this one if it is an example"
    )
    with pytest.raises(UserError) as caught:
        read_file(path, format, labelled=labelled)
    assert str(caught.value) == f"{path}, {message}"
    columns = Columns(text_column="review", label_column="sentiment")
    found = read_file(path, format, columns=columns, labelled=labelled)
    assert [sentence.text for sentence in found] == ["a good film", "a bad plot", "good"]


@pytest.mark.parametrize(
    ("first", "others", "labels", "bare"),
    [
        ("late\tbilling", "hi\tlogin\nso\tbilling\n", None, True),
        ("late\tbilling", "hi\tlogin\nbilling\tlogin\n", None, False),  # a text is no label
        ("late\tbilling", "hi\tlogin\n", ["login", "billing"], True),
        ("late\tbilling", "hi\tlogin\n", ["login", "sales"], False),
        ("late\t5", "hi\t4\n", None, True),
        ("late\t", "hi\t\n", None, True),
        ("late\tbilling\tAnn", "hi\tlogin\tBob\nso\tbilling\tAnn\n", None, False),
        ("Text\tbilling", "hi\tlogin\nso\tbilling\n", None, False),
        ("late\tscore", "hi\tscore\n", None, False),
        ("late", "late\n", None, False),
        ("", "", None, False),
    ],
)
def test_a_first_line_whose_label_is_seen_to_be_one_is_an_example(
    first: str, others: str, labels: list[str] | None, bare: bool, tmp_path: Path
) -> None:
    path = write(tmp_path, f"{first}\n{others}")
    table = open_table(path, "tsv", "classification", labels=labels)
    assert (table.header == ("text", "label")) is bare
    assert len(list(table.rows)) == others.count("\n") + bare
    assert open_table(path, "tsv", "pair", labels=labels).header != ("text", "label")
    named = Columns(text_column="late")  # who names a column says that there is a header
    assert open_table(path, "tsv", "classification", named, labels).header != ("text", "label")


@pytest.mark.parametrize(
    ("task", "header", "format"),
    [
        ("pair", "First\tSecond\tlabel", "tsv"),
        ("pair", "text\tpair\tscore", "tsv"),
        ("pair", "index\tsentence1\tsentence2\tlabel", "glue-tsv"),
        ("tagging", "words\ttags", "tsv"),
        ("tagging", "Oslo\tB-LOC", "conll"),
        ("question_answering", "context\tquestion\tanswer", "tsv"),
        ("multiple_choice", "premise\tchoice0\tchoice1\tlabel", "tsv"),
        ("multiple_choice", "sent1\tsent2\tending0\tending1\tlabel", "swag"),
    ],
)
def test_a_tsv_of_other_tasks_is_told_by_its_columns(task: str, header: str, format: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"{header}\n")
    assert guess_format(path, task) == guess_format(path, task, labelled=False) == format


def test_a_tsv_of_words_and_tags_is_read_as_the_table_that_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, "words\ttags\nOslo lies\tB-LOC O\n")
    examples = read_file(path, guess_format(path, "tagging"), task="tagging")
    assert examples == [TaggedSentence(("Oslo", "lies"), ("B-LOC", "O"))]


def test_a_file_to_predict_needs_no_labels(tmp_path: Path) -> None:
    lines = write(tmp_path, "one text\n\nanother text\n", "lines.txt")
    assert guess_format(lines, "classification", labelled=False) == "lines"
    assert read_file(lines, "lines", labelled=False) == [Sentence("one text"), Sentence("another text")]
    words = read_file(lines, "lines", task="tagging", labelled=False)
    assert words == [TaggedSentence(("one", "text")), TaggedSentence(("another", "text"))]
    with pytest.raises(UserError, match="unknown format 'lines'"):
        read_file(lines, "lines")
    bare = write(tmp_path, "one text\ta\nanother text\ta\n", "bare.tsv")
    assert guess_format(bare, "classification", labelled=False) == "tsv"
    assert read_file(bare, "tsv", labelled=False) == [Sentence("one text"), Sentence("another text")]
    table = write(tmp_path, "id,text\n7,one\n", "table.csv")
    assert read_file(table, "csv", labelled=False) == [Sentence("one")]
    sst2 = write(tmp_path, "one\t1\n", "sst2.tsv")
    assert read_file(sst2, "sst2", labelled=False) == [Sentence("one")]
    conll = write(tmp_path, "Oslo\nlies\n\nhere O\n", "words.conll")
    assert guess_format(conll, "tagging", labelled=False) == "conll"
    assert read_file(conll, "conll", task="tagging", labelled=False) == [
        TaggedSentence(("Oslo", "lies")), TaggedSentence(("here",)),
    ]  # fmt: skip
    squad = write(
        tmp_path, '{"data": [{"paragraphs": [{"context": "In Oslo.", "qas": [{"question": "Where?"}]}]}]}', "q.json"
    )
    assert read_file(squad, "squad", task="question_answering", labelled=False) == [Question("Where?", "In Oslo.")]


def test_every_fault_of_a_table_can_be_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label\n,a\nx,\ny,b,c\nz,d\n", "file.csv")
    faults: list[str] = []
    assert read_file(path, "csv", faults=faults) == [Sentence("z", "d")]
    assert [fault.split(", ", 1)[1] for fault in faults] == [
        "line 2: the text is empty; fill it in or remove the line",
        "line 3: the label is empty; fill it in or remove the line",
        "line 4: 3 columns where the header has 2; mend the line: a text with the separator in it stands in quotes",
    ]
    faults.clear()
    assert read_file(write(tmp_path, "good\t1\nbad\tx\n"), "sst2", faults=faults) == [Sentence("good", "positive")]
    assert len(faults) == 1
    faults.clear()
    assert read_file(write(tmp_path, "good,a\n", "b.csv"), "csv", faults=faults) == []
    assert "no column 'text'" in faults[0]


def test_columns_are_named_of_tables_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a O\n", "file.conll")
    with pytest.raises(UserError, match="read as conll, which has no columns to name: give --format csv"):
        read_file(path, "conll", task="tagging", columns=Columns(text_column="words"))


def test_an_unknown_format_names_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown format 'glue_tsv': did you mean glue-tsv"):
        read_file(write(tmp_path, "x"), "glue_tsv")


def test_an_unknown_task_names_the_near_one(tmp_path: Path) -> None:
    path = write(tmp_path, "good\t1\n")
    with pytest.raises(UserError, match=r"unknown task 'classfication': did you mean classification"):
        read_file(path, "sst2", task="classfication")
    with pytest.raises(UserError, match=r"unknown task 'classfication': did you mean classification"):
        guess_format(path, "classfication")


def test_the_task_chooses_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label,first,second\na,yes,b,c\n", "file.csv")
    assert read_file(path, "csv") == [Sentence("a", "yes")]
    assert read_file(path, "csv", task="pair") == [Pair("b", "c", "yes")]


def test_a_format_is_of_its_task_alone(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown format 'conll'"):
        read_file(write(tmp_path, "a O\n"), "conll")


@pytest.mark.parametrize(("task", "format"), [(task, format) for task in READERS for format in READERS[task]])
def test_an_empty_file_is_one_line_in_every_format(tmp_path: Path, task: str, format: str) -> None:
    path = write(tmp_path, "")
    with pytest.raises(UserError) as caught:
        read_file(path, format, task=task)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_labels_do_not_disturb_a_format_without_labels(tmp_path: Path) -> None:
    (pair,) = read_file(write(tmp_path, "A boat.,A ship.,4.5\n"), "stsb", ["no", "yes"], "pair")
    assert pair == ScoredPair("A boat.", "A ship.", 4.5)


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^{tmp_path} is a folder: give a file in it$"):
        read_file(tmp_path, "csv")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="a FILE is read more than once: write it to a file first"):
        read_file(tmp_path / "pipe", "sst2")
    faults: list[str] = []
    assert read_file(tmp_path, "csv", faults=faults) == []
    assert faults == [f"{tmp_path} is a folder: give a file in it"]
