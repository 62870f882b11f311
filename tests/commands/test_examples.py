"""From what a user names to examples: data sets, files, a share for dev; and what is odd about two sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.commands.examples import oddities, read_examples, train_and_dev
from d2lbert.data import Pair, Sentence, TaggedSentence
from d2lbert.data.readers.tables import UNNAMED

LABELS = ("billing", "login", "shipping")


@pytest.fixture
def tickets(tmp_path: Path) -> str:
    path = tmp_path / "tickets.csv"
    rows = [f"{label} number {number},{label}\n" for number in range(20) for label in LABELS]
    path.write_text("text,label\n" + "".join(rows))
    return str(path)


@pytest.fixture(autouse=True)
def samples_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("D2LBERT_DATA", raising=False)
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")


@pytest.mark.parametrize(("dev", "count"), [(None, 6), ("0.1", 6), ("0.5", 30)])
def test_a_share_of_a_file_becomes_dev(
    tickets: str, dev: str | None, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    task, train, found = train_and_dev("classification", tickets, dev, None, UNNAMED)
    assert task.labels == LABELS
    assert (len(train), len(found)) == (60 - count, count)
    said = f"note: {count} of 60 examples are cut off for --dev; {60 - count} are trained on\n"
    assert capsys.readouterr().err == said
    assert train_and_dev("classification", tickets, dev, None, UNNAMED)[1:] == (train, found)


@pytest.mark.filterwarnings("ignore:.*SAMPLE")
def test_a_data_set_has_a_dev_split(capsys: pytest.CaptureFixture[str]) -> None:
    given = train_and_dev("classification", "sst2", "sst2", None, UNNAMED)
    assert train_and_dev("classification", "sst2", None, None, UNNAMED)[1:] == given[1:]
    assert "cut off" not in capsys.readouterr().err


def test_the_labels_of_dev_are_those_of_train(tickets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.csv"
    other.write_text("text,label\na,refund\n")
    with pytest.raises(UserError, match="line 2: the label 'refund' is not one of billing, login, shipping"):
        train_and_dev("classification", tickets, str(other), None, UNNAMED)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "0.1").write_text("late\tbilling\n")  # a file is a file, whatever it is called
    assert train_and_dev("classification", tickets, "0.1", None, UNNAMED)[2][0].text == "late"


@pytest.mark.parametrize("share", ["0", "1", "-0.5", "nan", "7"])
def test_a_share_that_cannot_be(tickets: str, share: str) -> None:
    with pytest.raises(UserError, match="is not between 0 and 1"):
        train_and_dev("classification", tickets, share, None, UNNAMED)


def test_what_is_not_there(tickets: str) -> None:
    with pytest.raises(UserError, match=r"no file nowhere/x\.csv: check the path"):
        read_examples("classification", "nowhere/x.csv", "dev", None, UNNAMED, None)
    with pytest.raises(UserError, match="unknown data set 'sst3': did you mean sst2"):
        read_examples("classification", "sst3", "dev", None, UNNAMED, None)
    with pytest.raises(UserError, match=r"is a folder: give a file in it"):
        read_examples("classification", str(Path(tickets).parent), "dev", None, UNNAMED, None)
    unlabelled = read_examples("classification", tickets, "dev", None, UNNAMED, None, labelled=False)
    assert {one.label for one in unlabelled} == {None}


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/null"])
def test_a_pipe_is_refused_for_what_it_is(name: str) -> None:
    reading, writing = os.pipe()
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        with pytest.raises(UserError, match="^" + name + " is a pipe, standard input or a device, and a FILE is read"):
            read_examples("classification", name, "dev", "csv", UNNAMED, None)
    finally:
        os.dup2(before, 0)
        for one in (reading, writing, before):
            os.close(one)


@pytest.mark.filterwarnings("ignore:.*SAMPLE")
def test_labels_of_a_data_set_are_left_out_where_they_are_to_be_predicted() -> None:
    found = read_examples("classification", "sst2", "dev", None, UNNAMED, None, labelled=False)
    assert {one.label for one in found} == {None}


def test_oddities() -> None:
    train = [Sentence(f"{n}", "often") for n in range(9)] + [Sentence("x", "rare"), Sentence("y", "rarer")] * 2
    assert oddities(train[:9], [Sentence("z", "often")]) == []
    found = oddities(train, [Sentence("x", "rare"), Sentence("1", "often"), Sentence("z", "often")])
    assert found == [
        "2 of 3 dev examples have a text that is also trained on: they say nothing about new texts",
        "fewer than 5 training examples of the label rare (2), rarer (2): it will hardly be learned",
    ]
    many = [Sentence(f"{n}", f"label {n}") for n in range(8)]
    assert "label 4 (1) and 3 more: it will hardly" in oddities(many, [])[0]
    tagged = [TaggedSentence(("a",), ("O",))]
    assert oddities(tagged, tagged) == [
        "1 of 1 dev examples have a text that is also trained on: they say nothing about new texts"
    ]
    assert oddities([Pair("a", "b", "x")] * 5, [Pair("b", "a", "x")]) == []
