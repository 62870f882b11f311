"""Files of the other tasks: questions, tags, pairs, choices, and the XML and JSON that they come in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fork_server import Ended

SURFACE = "1c files of other tasks"
Attack, Refused = Callable[..., Ended], Callable[..., None]
DIGITS = "9" * 5000


def _squad(**answer: Any) -> str:
    """A file with one question; the fields of its answer may be others."""
    given = {"text": "the river", "answer_start": 12, **answer}
    question = {"id": "1", "question": "Where?", "answers": [given]}
    context = "They sat at the river in the evening."
    return json.dumps({"data": [{"title": "t", "paragraphs": [{"context": context, "qas": [question]}]}]})


def _with(path: str, value: Any) -> str:
    """The file of one question with another value at a path such as ``data.0.paragraphs``."""
    content = json.loads(_squad())
    *holders, last = path.split(".")
    place = content
    for name in holders:
        place = place[int(name)] if name.isdigit() else place[name]
    place[int(last) if last.isdigit() else last] = value
    return json.dumps(content)


ENTITIES = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "ha"}">' for n in range(10))
COPA = '<copa><item id="1" asks-for="cause" most-plausible-alternative="{}"><p>{}</p><a1>x</a1><a2>y</a2></item></copa>'
RTE = '<set><pair id="1" entailment="{}"><t>It rains.</t><h>{}</h></pair></set>'
SWAG = "sent1,sent2,ending0,ending1,label\n"
QUESTION = "data.0.paragraphs.0.qas.0"

REFUSED = {
    "question_answering": {
        "no JSON": ("json", "{"),
        "nothing": ("json", ""),
        "a list": ("json", "[]"),
        "a number": ("json", "3"),
        "no data": ("json", "{}"),
        "no articles": ("json", '{"data": []}'),
        "brackets 200,000 deep": ("json", "[" * 200_000),
        "not UTF-8": ("json", b"\xff\xfe{}"),
        "an article that is a text": ("json", _with("data.0", "text")),
        "paragraphs that are null": ("json", _with("data.0.paragraphs", None)),
        "a context that is a number": ("json", _with("data.0.paragraphs.0.context", 3)),
        "a blank context": ("json", _with("data.0.paragraphs.0.context", "  ")),
        "a question that is null": ("json", _with(f"{QUESTION}.question", None)),
        "answers that are a text": ("json", _with(f"{QUESTION}.answers", "the river")),
        "an answer elsewhere": ("json", _squad(answer_start=3)),
        "an answer before the text": ("json", _squad(answer_start=-1)),
        "an answer behind the text": ("json", _squad(answer_start=10**9)),
        "an answer at a place of words": ("json", _squad(answer_start="12")),
        "an answer at a place of 5,000 digits": ("json", _squad().replace("12}", DIGITS + "}")),
        "an empty answer": ("json", _squad(text="")),
    },
    "tagging": {
        "a word without a tag": ("conll", "EU B-ORG\nrejects\n"),
        "an unknown letter": ("conll", "EU X-ORG\nrejects O\n"),
        "a tag without a type": ("conll", "EU B-\nrejects O\n"),
        "only O": ("conll", "EU O\nrejects O\n"),
        "blank": ("conll", "\n\n\n"),
        "documents alone": ("conll", "-DOCSTART- -X- O O\n"),
        "a word of spaces": ("conll", "  \tO\n"),
        "not UTF-8": ("conll", b"caf\xe9 O\n"),
        "a word that the tokenizer drops, alone": ("conll", "\u200b B-ORG\n"),
    },
    "pair": {
        "no columns": ("csv", "a,b\nc,d\n"),
        "an empty second text": ("csv", "first,second,label\na,,x\nb,c,y\n"),
        "one label": ("csv", "first,second,label\na,b,x\nb,c,x\n"),
        "XML that is none": ("xml", "<set><pair>"),
        "XML with a bomb of entities": ("xml", f"<!DOCTYPE s [{ENTITIES}]><s><pair>&a9;</pair></s>"),
        "XML with a file as entity": ("xml", '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><s>&x;</s>'),
        "XML of an unknown encoding": ("xml", '<?xml version="1.0" encoding="klingon"?><set/>'),
        "XML without pairs": ("xml", "<set/>"),
        "XML: maybe": ("xml", RTE.format("MAYBE", "Wet.")),
        "XML: an empty text": ("xml", RTE.format("YES", "")),
    },
    "multiple_choice": {
        "no columns": ("csv", "a,b\nc,d\n"),
        "one ending": ("csv", "sent1,sent2,ending0,label\na,b,c,0\n"),
        "endings with a gap": ("csv", "sent1,sent2,ending0,ending2,label\na,b,c,d,0\n"),
        "a label beyond the endings": ("csv", SWAG + "a,b,c,d,2\n"),
        "a negative label": ("csv", SWAG + "a,b,c,d,-1\n"),
        "a label of 5,000 digits": ("csv", SWAG + f"a,b,c,d,{DIGITS}\n"),
        "an empty ending": ("csv", SWAG + "a,b,,d,0\n"),
        "XML: a third answer": ("xml", COPA.format("3", "It rains.")),
        "XML: no premise": ("xml", COPA.format("1", "")),
    },
}
ACCEPTED = {
    "question_answering": ("json", _squad()),
    "tagging": ("conll", "EU B-ORG\nrejects O\n\n\ufeff\nGerman B-MISC\n"),
    "pair": ("csv", "first,second,label\na,b,x\nb,c,y\n"),
    "multiple_choice": ("csv", SWAG + "a,b,c,d,0\na,b,c,d,1\n"),
}
CASES = [(task, name) for task, cases in REFUSED.items() for name in cases]


def _finetune(attack: Attack, folder: Path, task: str, ending: str, content: str | bytes) -> Ended:
    path = folder / f"data.{ending}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    words = ("finetune", task, "--model", "d2lbert-tiny", "--train", path, "--dev", path, "--out", "out")
    formats = {("multiple_choice", "xml"): "copa", ("pair", "xml"): "rte-xml"}
    more = ("--format", formats[task, ending]) if (task, ending) in formats else ()
    return attack(*words, *more, "--epochs", "1")


@pytest.mark.parametrize(("task", "name"), CASES)
def test_wrong(task: str, name: str, attack: Attack, refused: Refused, tmp_path: Path) -> None:
    refused(_finetune(attack, tmp_path, task, *REFUSED[task][name]))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("task", ACCEPTED)
def test_right(task: str, attack: Attack, accepted: Callable[[Ended], None], tmp_path: Path) -> None:
    accepted(_finetune(attack, tmp_path, task, *ACCEPTED[task]))
    assert (tmp_path / "out" / "model.safetensors").is_file()
