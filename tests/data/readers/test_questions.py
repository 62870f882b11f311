"""The reader of SQuAD: answers stand where they say, mistakes are one line, articles are not parted."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError, data
from d2lbert.data import Answer, Question
from d2lbert.data.readers.questions import squad

TEXT = "  Oslo  lies\nin Norway. "


def _file(folder: Path, *entries: Any, context: Any = TEXT) -> Path:
    paragraph = {"context": context, "qas": list(entries)}
    path = folder / "questions.json"
    path.write_text(json.dumps({"data": [{"title": "Oslo", "paragraphs": [paragraph]}]}), encoding="utf-8")
    return path


def _entry(start: Any, text: Any = "Norway", **more: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "Where?", "answers": [{"text": text, "answer_start": start}], **more}


def test_answered_and_impossible_questions(tmp_path: Path) -> None:
    impossible = _entry(16, is_impossible=True)  # SQuAD 2.0 gives a plausible answer beside it; it is not one
    unanswered = {"id": 2, "question": "Why?", "answers": []}
    path = _file(tmp_path, _entry(16), impossible, unanswered, {"question": "Who?", "is_impossible": True})
    assert list(squad(path)) == [
        Question("Where?", TEXT, (Answer("Norway", 16),), "q1", "Oslo"),
        Question("Where?", TEXT, (), "q1", "Oslo"),
        Question("Why?", TEXT, (), "2", "Oslo"),
        Question("Who?", TEXT, (), "", "Oslo"),
    ]


def test_a_packed_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "questions.json.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + _file(tmp_path, _entry(16)).read_bytes()))
    assert [question.answers for question in squad(path)] == [(Answer("Norway", 16),)]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (_entry(15), "question q1: the answer 'Norway' is not at character 15; set answer_start to 16"),
        (_entry(-9), "is not at character -9; set answer_start to 16"),
        (_entry("16"), "is not at character 16; set"),
        (_entry(True, "x"), "mend the answer"),
        (_entry(16, is_impossible="false"), "question q1: is_impossible is 'false'; write true or false"),
        (_entry(3, "\u200b"), "has no 'text', or it is empty"),
        (_entry(3, "Sweden"), "its text has no such words, mend the answer"),
        (_entry(3, ""), "an answer to question q1 has no 'text', or it is empty"),
        (_entry(3, None), "has no 'text'"),
        ({"id": "q1", "question": " "}, "question q1 has no 'question', or it is empty"),
        ({"id": "q1", "question": "Where?"}, "question q1 has no list 'answers'"),
        ({"question": "Where?", "answers": "Norway"}, "question without an id has no list 'answers'"),
        ("Where?", "question without an id has no 'question'"),
    ],
)
def test_a_wrong_question_is_one_line(tmp_path: Path, entry: Any, message: str) -> None:
    path = _file(tmp_path, entry)
    with pytest.raises(UserError) as caught:
        list(squad(path))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not valid JSON"),
        (b"[1]", "the file has no list 'data'"),
        (b'{"data": [3]}', "article '' has no list 'paragraphs'"),
        (b'{"data": [{"title": "T", "paragraphs": [{"qas": []}]}]}', "a paragraph of 'T' has no 'context'"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"wrong\.json") as caught:
        list(squad(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_damaged_or_empty(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        list(squad(tmp_path / "nothing.json"))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"{}" * 1000)[:20])
    with pytest.raises(UserError, match="is damaged"):
        list(squad(tmp_path / "cut.json.gz"))
    # The reserved kind of block stands where the packed bytes begin.
    (tmp_path / "start.json.gz").write_bytes(gzip.compress(b"{}")[:10] + b"\xff" * 9)
    with pytest.raises(UserError, match=r"start.json.gz is damaged \(.*invalid block type\); get the file again"):
        list(squad(tmp_path / "start.json.gz"))
    empty = _file(tmp_path)
    with pytest.raises(UserError, match="holds no examples"):
        data.read_file(empty, "squad", task="question_answering")


def test_a_user_file_needs_no_labels(tmp_path: Path) -> None:
    path = _file(tmp_path, _entry(16))
    (question,) = data.read_file(path, "squad", ("start", "end"), "question_answering")
    assert question.id == "q1"


def test_samples_hold_questions_with_and_without_answer(no_data: None) -> None:
    sizes = {}
    for name, splits in {"squadshifts": "train dev", "squad2_cs224n_dev": "train dev", "xquad": "test"}.items():
        questions = {}
        for split in splits.split():
            with pytest.warns(data.SampleDataWarning):
                questions[split] = data.load(name, split)
            sizes[name, split] = len(questions[split]), sum(question.answers == () for question in questions[split])
        assert len({question.id for part in questions.values() for question in part}) == sum(
            map(len, questions.values())
        )
        if len(questions) == 2:  # the cut parts no article
            assert not {q.title for q in questions["train"]} & {q.title for q in questions["dev"]}
    assert sizes == {
        ("squadshifts", "train"): (55, 0),
        ("squadshifts", "dev"): (10, 0),
        ("squad2_cs224n_dev", "train"): (78, 28),
        ("squad2_cs224n_dev", "dev"): (24, 9),
        ("xquad", "test"): (18, 0),
    }


def test_real_files(real_data: Path) -> None:
    wiki = list(squad(real_data / "squadshifts" / "new_wiki_v1.0.json.gz"))
    assert (len(wiki), len({question.context for question in wiki})) == (7938, 1581)
    assert all(question.answers for question in wiki)
    squad2 = list(squad(real_data / "squad2_cs224n_dev" / "dev-v2.0.json"))
    assert Counter(question.answers == () for question in squad2) == {True: 3168, False: 2910}
    languages = [list(squad(real_data / "xquad" / f"xquad.{name}.shared.json")) for name in ("en", "de", "es")]
    assert {len(questions) for questions in languages} == {833}
    assert len({tuple(question.id for question in questions) for questions in languages}) == 1


def test_the_cut_of_real_articles(real_data: Path) -> None:
    for name, sizes in {"squadshifts": (7444, 494), "squad2_cs224n_dev": (4611, 1467)}.items():
        train, dev = data.load(name, "train"), data.load(name, "dev")
        assert (len(train), len(dev)) == sizes
        assert not {question.title for question in train} & {question.title for question in dev}
