"""Files of labelled sentences as they come from spreadsheets, other systems, broken disks and jokers."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import Ended

SURFACE = "1b files of sentences"
Attack, Refused = Callable[..., Ended], Callable[..., None]
HEAD = b"text,label\n"
ROWS = HEAD + b"a good film,pos\na bad plot,neg\n"
DIGITS = b"9" * 5000

ACCEPTED = {
    "plain": ROWS,
    "no line feed at the end": ROWS.rstrip(),
    "line ends of Windows": ROWS.replace(b"\n", b"\r\n"),
    "a byte order mark": b"\xef\xbb\xbf" + ROWS,
    "blank lines": ROWS.replace(b"\n", b"\n\n"),
    "quotes": HEAD + b'"a ""good"" film, twice",pos\n"two\nlines",neg\n',
    "spaces around names": b" text , label \na good film, pos \n",
    "other columns, another order": b"id,label,text\n1,pos,a good film\n2,neg,bad\n",
    "emoji and flags": HEAD + "good \U0001f600\u200d\U0001f525 \U0001f1e9\U0001f1ea,pos\n".encode(),
    "right to left": HEAD + "\u202e\u0645\u0631\u062d\u0628\u0627,pos\n".encode(),
    "Chinese": HEAD + "这部电影很好,pos\n".encode(),
    "a heap of accents": HEAD + ("good" + "\u0301" * 2000 + ",pos\n").encode(),
    "other kinds of line ends inside": HEAD + "good\u2028film\x85plot\x0b,pos\n".encode(),
    "special tokens": HEAD + b"[CLS] good [SEP] [MASK],pos\n",
    "one word of 100,000 letters": HEAD + b"a" * 100_000 + b",pos\n",
    "a text of 20,000 words": HEAD + b"good " * 20_000 + b",pos\n",
    "a thousand rows": HEAD + b"a good film,pos\n" * 1000,
    "HTML and formulas": HEAD + b"=cmd|'/C calc'!A0 <script>,pos\n",
}
REFUSED = {
    "empty": b"",
    "a header alone": HEAD,
    "line feeds alone": b"\n" * 100,
    "no header": b"a good film,pos\n",
    "another name": b"text,lable\ngood,pos\n",
    "capital names where others are wanted": b"TEXTS,LABELS\ngood,pos\n",
    "a label too few": HEAD + b"a good film\n",
    "a field too many": HEAD + b"a good film,pos,3\n",
    "an empty text": HEAD + b",pos\n",
    "spaces for a text": HEAD + b"   ,pos\n",
    "a zero-width space for a text": HEAD + "\u200b,pos\n".encode(),
    "an empty label": HEAD + b"good,\n",
    "a label of another set": HEAD + b"good,awful\n",
    "numbers for labels with names": HEAD + b"a good film,1\na bad plot,0\n",
    "a label beyond the last": HEAD + b"good,2\n",
    "a negative label": HEAD + b"good,-1\n",
    "a label of 5,000 digits": HEAD + b"good," + DIGITS + b"\n",
    "a label that looks like a number": HEAD + "good,\u00b2\n".encode(),
    "an open quote": HEAD + b'"good,pos\n',
    "a quote in the middle": HEAD + b'"good" film,pos\n',
    "Latin-1": HEAD + "caf\xe9,pos\n".encode("latin-1"),
    "UTF-16": ROWS.decode().encode("utf-16"),
    "UTF-32": ROWS.decode().encode("utf-32"),
    "half a surrogate": HEAD + b"good \xed\xa0\x80,pos\n",
    "zeros": bytes(1000),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "a program": b"\x7fELF" + bytes(range(256)) * 4,
    "old line ends of a Mac": ROWS.replace(b"\n", b"\r"),
    "JSON": b'[{"text": "good", "label": "pos"}]',
}
PACKED = {
    "gz": ("csv.gz", gzip.compress(ROWS), True),
    "xz": ("csv.xz", lzma.compress(ROWS), True),
    "gz, cut": ("csv.gz", gzip.compress(ROWS * 100)[:-9], False),
    "gz, a wrong digest": ("csv.gz", gzip.compress(ROWS)[:-8] + b"12345678", False),
    "gz that is none": ("csv.gz", ROWS, False),
    "gz of a raw stream": ("csv.gz", zlib.compress(ROWS), False),
    "xz, cut": ("csv.xz", lzma.compress(ROWS * 100)[:-9], False),
    "xz that is none": ("csv.xz", ROWS, False),
    "nothing as gz": ("csv.gz", b"", False),
    "TSV: two columns, no header": ("tsv", b"a good film\tpos\n", True),
    "TSV: three columns": ("tsv", b"a good film\tpos\tx\n", False),
    "TSV: a label of 5,000 digits": ("tsv", b"good\t" + DIGITS + b"\n", False),
    "TSV: quotes are literal": ("tsv", b'"a good\tpos\n', True),
}


@pytest.fixture
def evaluated(tmp_path: Path, classifier: Path, attack: Attack) -> Callable[[str, bytes], Ended]:
    """Write a file, score the model on it."""

    def run(ending: str, content: bytes) -> Ended:
        path = tmp_path / f"data.{ending}"
        path.write_bytes(content)
        return attack("evaluate", "classification", "--model", classifier, "--data", path, "--predictions", "out")

    return run


@pytest.mark.parametrize("name", ACCEPTED)
def test_odd_but_right(name: str, evaluated: Callable[..., Ended], accepted: Callable[[Ended], None]) -> None:
    accepted(evaluated("csv", ACCEPTED[name]))


@pytest.mark.parametrize("name", [*REFUSED, "two columns of one name"])
def test_wrong(name: str, evaluated: Callable[..., Ended], refused: Refused, tmp_path: Path) -> None:
    content = {**REFUSED, "two columns of one name": b"text,text,label\ngood,bad,pos\n"}[name]
    refused(evaluated("csv", content))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", PACKED)
def test_packed_and_separated_otherwise(
    name: str, evaluated: Callable[..., Ended], refused: Refused, accepted: Callable[[Ended], None]
) -> None:
    ending, content, right = PACKED[name]
    (accepted if right else refused)(evaluated(ending, content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD + b"good,pos\nfine,pos\n", "two labels"),
        (HEAD + b"good,pos\n", "two labels"),
    ],
    ids=["one label", "one row"],
)
def test_nothing_to_learn(content: bytes, message: str, tmp_path: Path, attack: Attack, refused: Refused) -> None:
    (tmp_path / "train.csv").write_bytes(content)
    words = ("finetune", "classification", "--model", "d2lbert-tiny", "--train", "train.csv", "--dev", "train.csv")
    refused(attack(*words, "--out", "out"), message)
    assert not (tmp_path / "out").exists()


def test_ten_thousand_labels(tmp_path: Path, attack: Attack, accepted: Callable[[Ended], None]) -> None:
    rows = "".join(f"word {number},label {number}\n" for number in range(2000))
    (tmp_path / "train.csv").write_bytes(HEAD + rows.encode())
    words = ("finetune", "classification", "--model", "d2lbert-tiny", "--train", "train.csv", "--dev", "train.csv")
    accepted(attack(*words, "--out", "out", "--epochs", "1", "--batch-size", "500"))
