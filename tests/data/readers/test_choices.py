"""The readers of questions with choices: each layout by hand, one fault each, the sample, and the real file."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from d2lbert import UserError, data
from d2lbert.data import ChoiceQuestion, read_file
from d2lbert.data.readers.choices import QUESTIONS, swap_question

ITEM = (
    '<item id="7" asks-for="{asks}" most-plausible-alternative="{answer}"><p>{premise}</p><a1>b</a1><a2>c</a2></item>'
)


def copa_file(folder: Path, asks: str = "cause", answer: str = "2", premise: str = "A\n man ran.") -> Path:
    path = folder / "copa.xml"
    path.write_text(f"<c>{ITEM.format(asks=asks, answer=answer, premise=premise)}</c>")
    return path


def swag_file(folder: Path, content: str) -> Path:
    path = folder / "swag.csv"
    path.write_text(content)
    return path


def test_copa_by_hand(tmp_path: Path) -> None:
    cause = read_file(copa_file(tmp_path), "copa", task="multiple_choice")
    assert cause == [ChoiceQuestion("A man ran. What was the cause?", ("b", "c"), 1)]
    effect = read_file(copa_file(tmp_path, "effect", "1"), "copa", task="multiple_choice")
    assert effect == [ChoiceQuestion("A man ran. What happened as a result?", ("b", "c"), 0)]


def test_swag_by_hand(tmp_path: Path) -> None:
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    row = '0,v,17,"He sits, then. He","He sits, then.",He,gold,stands up.,"sings, too.",flies.,is.,1\n'
    expected = ChoiceQuestion("He sits, then.", ("He stands up.", "He sings, too.", "He flies.", "He is."), 1)
    assert read_file(swag_file(tmp_path, header + row), "swag", task="multiple_choice") == [expected]
    few = swag_file(tmp_path, "sent1,sent2,label,ending1,ending0,0\na,,1,c,b,x\n")
    assert read_file(few, "swag", task="multiple_choice") == [ChoiceQuestion("a", ("b", "c"), 1)]


def test_a_header_with_spaces_loses_no_ending(tmp_path: Path) -> None:
    content = "sent1, sent2, ending0, ending1, ending2, ending3, label\na, b, c, d, e, f, 3\n"
    (question,) = read_file(swag_file(tmp_path, content), "swag", task="multiple_choice")
    assert question == ChoiceQuestion("a", ("b c", "b d", "b e", "b f"), 3)


def test_more_than_ten_endings_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    numbers = range(11)
    header = ",".join(["sent1", "sent2", *(f"ending{number}" for number in numbers), "label"])
    row = ",".join(["a", "", *(f"e{number}" for number in numbers), "2"])
    (question,) = read_file(swag_file(tmp_path, f"{header}\n{row}\n"), "swag", task="multiple_choice")
    assert question == ChoiceQuestion("a", tuple(f"e{number}" for number in numbers), 2)


@pytest.mark.parametrize(
    "endings",
    ["ending0,ending2", "ending1,ending2", "ending0,ending1,ending1", "ending0,ending1,ending 2", "ending00,ending01"],
)
def test_endings_that_are_not_numbered_from_0_are_refused(tmp_path: Path, endings: str) -> None:
    path = swag_file(tmp_path, f"sent1,sent2,{endings},label\n")
    with pytest.raises(UserError) as caught:
        read_file(path, "swag", task="multiple_choice")
    expected = "ending0, ending1" + (", ending2" if endings.count(",") == 2 else "")
    actual = endings.replace(",", ", ")
    assert str(caught.value) == f"{path}, line 1: the endings are called {actual}; call them {expected}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"asks": "reason"}, "item 7: asks-for is 'reason', not cause or effect"),
        ({"answer": "3"}, "item 7: most-plausible-alternative is '3', not 1 or 2"),
        ({"premise": " "}, "item 7: <p>, <a1> or <a2> is empty"),
        ({"premise": "<p>"}, "is not valid XML"),
    ],
)
def test_faults_of_copa(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_file(copa_file(tmp_path, **changes), "copa", task="multiple_choice")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sent1,sent2,ending0,ending1\na,b,c,d\n", "line 1: no column 'label'"),
        ("sent1,sent2,ending0,label\na,b,c,0\n", "line 1: no column 'ending1'"),
        ("sent1,sent2,ending0,ending1,label\na,b,c,0\n", "line 2: 4 columns where the header has 5"),
        (
            "sent1,sent2,ending0,ending1,label\na,b,c,d,2\n",
            "line 2: the label '2' is not the place of an ending, 0 to 1",
        ),
        ("sent1,sent2,ending0,ending1,label\na,b, ,d,1\n", "line 2: the ending is empty"),
        ("sent1,sent2,ending0,ending1,label\n,b,c,d,1\n", "line 2: the text is empty"),
    ],
)
def test_faults_of_swag(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_file(swag_file(tmp_path, content), "swag", task="multiple_choice")
    assert message in str(caught.value)


def test_swapping_the_question() -> None:
    question = ChoiceQuestion("It rained. What was the cause?", ("a", "b"), 1)
    swapped = swap_question(question)
    assert swapped == ChoiceQuestion("It rained. What happened as a result?", ("a", "b"), 1)
    assert swap_question(swapped) == question
    with pytest.raises(UserError, match="does not end with"):
        swap_question(ChoiceQuestion("It rained.", ("a", "b")))


def numbered_premises() -> dict[str, set[int]]:
    """Return the item numbers of every premise with its question, from the file itself."""
    root = ElementTree.parse(data.fetch("copa") / "balanced-copa-dev-all.xml").getroot()
    numbers: dict[str, set[int]] = {}
    for item in root.iter("item"):
        text = f"{' '.join(item.findtext('p', '').split())} {QUESTIONS[item.get('asks-for', '')]}"
        numbers.setdefault(text, set()).add(int(item.get("id", "")))
    return numbers


def test_split_of_the_real_file(real_data: Path) -> None:
    numbers = numbered_premises()
    train, dev = data.load("copa", "train"), data.load("copa", "dev")
    assert (len(train), len(dev)) == (800, 200)
    assert all(min(numbers[example.premise]) % 1000 <= 400 for example in train)
    assert all(400 < max(numbers[example.premise]) % 1000 <= 500 for example in dev)
    # An item and its mirror stand side by side: the same alternatives, and the other one is right.
    for examples in (train, dev):
        for item, mirror in zip(examples[::2], examples[1::2], strict=True):
            assert set(item.choices) == set(mirror.choices)
            assert item.choices[item.answer] != mirror.choices[mirror.answer]


def test_sample_is_balanced_and_keeps_mirrors_together(no_data: None) -> None:
    splits = {}
    for split in ("train", "dev"):
        with pytest.warns(data.SampleDataWarning):
            splits[split] = data.load("copa", split)
    assert {split: len(examples) for split, examples in splits.items()} == {"train": 48, "dev": 12}
    everything = splits["train"] + splits["dev"]
    assert len({example.premise for example in everything}) == 60
    assert sum(example.answer for example in everything) == 30
    for examples in splits.values():
        assert 0.25 < sum(example.answer for example in examples) / len(examples) < 0.75
        for item, mirror in zip(examples[::2], examples[1::2], strict=True):
            assert set(item.choices) == set(mirror.choices)
            assert item.choices[item.answer] != mirror.choices[mirror.answer]
