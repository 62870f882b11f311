"""Archives laid out as the published ones: headers, marks, line ends, broken lines; the texts are invented."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from d2lbert.config.bert import BertConfig
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.torch.bert import BertModel

_WORDS = ("rain", "sun", "snow", "wind", "fog", "storm", "cloud", "frost")


def texts(count: int) -> list[tuple[str, str]]:
    """Pairs of sentences; in every second one both tell the same."""
    return [(f"There was {_WORDS[i % 8]} on day {i}.", f"Day {i} had {_WORDS[(i + i % 2) % 8]}.") for i in range(count)]


def tsv(header: str, rows: Iterable[str], end: str = "\n") -> bytes:
    """A table; an empty header stands for none."""
    return end.join([*([header] if header else []), *rows, ""]).encode()


def _zip(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _splits(folder: str, header: str, labels: tuple[str, str], count: int, single: bool = False) -> dict[str, bytes]:
    """The three files of a set of GLUE: train and dev with labels, test with an index before the texts."""
    columns = ["sentence"] if single else header.split("\t")
    shown = [[one] if single else [one, other] for one, other in texts(count)]
    labelled = ["\t".join([*([] if single else [str(i)]), *row, labels[i % 2]]) for i, row in enumerate(shown)]
    head = "\t".join([*([] if single else ["index"]), *columns, "label"])
    unlabelled = ["\t".join([str(i), *row]) for i, row in enumerate(shown)]
    return {
        f"{folder}/train.tsv": tsv(head, labelled),
        f"{folder}/dev.tsv": tsv(head, labelled[: count // 2]),
        f"{folder}/test.tsv": tsv("\t".join(["index", *columns]), unlabelled),
    }


def _cola(count: int) -> dict[str, bytes]:
    rows = [f"src\t{i % 2}\t{'' if i % 2 else '*'}\t{one}" for i, (one, _) in enumerate(texts(count))]
    test = [f"{i}\t{one}" for i, (one, _) in enumerate(texts(count))]
    return {
        "CoLA/train.tsv": tsv("", rows),
        "CoLA/dev.tsv": tsv("", rows[: count // 2]),
        "CoLA/test.tsv": tsv("index\tsentence", test),
    }


def _stsb(count: int) -> dict[str, bytes]:
    start = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
    shown = [f"{i}\tnews\tx\t2012\t{i}\tnone\tnone\t{one}\t{other}" for i, (one, other) in enumerate(texts(count))]
    scored = [f"{row}\t{i % 6}.{i % 10}00" for i, row in enumerate(shown)]
    return {
        "STS-B/train.tsv": tsv(f"{start}\tscore", scored),
        "STS-B/dev.tsv": tsv(f"{start}\tscore", scored[: count // 2]),
        "STS-B/test.tsv": tsv(start, shown),
    }


def _qqp(count: int) -> dict[str, bytes]:
    """Two questions are empty, and a line is torn, as in the published file."""
    head = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
    rows = [f"{i}\t{2 * i}\t{2 * i + 1}\t{one}\t{other}\t{i % 2}" for i, (one, other) in enumerate(texts(count))]
    rows[3] = "3\t6\t7\tHow can I create an app?\t\t0"
    rows[5] = "5\t10\t11\tHow can I make money?\t\t0"
    torn = [*rows[:7], "7\t14\t15\tIs this line", *rows[7:]]
    test = [f"{i}\t{one}\t{other}" for i, (one, other) in enumerate(texts(count))]
    test[2] = "2\tWhat now?\t"
    return {
        "QQP/train.tsv": tsv(head, torn),
        "QQP/dev.tsv": tsv(head, rows[: count // 2]),
        "QQP/test.tsv": tsv("id\tquestion1\tquestion2", test),
    }


def _mnli(count: int) -> dict[str, bytes]:
    parses = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
    start = f"index\tpromptID\tpairID\tgenre\t{parses}\tsentence1\tsentence2"
    names = ("entailment", "neutral", "contradiction")
    shown = [
        f"{i}\t1\t1e\tfiction\t( a )\t( b )\t(S a)\t(S b)\t{one}\t{other}"
        for i, (one, other) in enumerate(texts(count))
    ]
    train = [f"{row}\t{names[i % 3]}\t{names[i % 3]}" for i, row in enumerate(shown)]
    dev = ["\t".join([row, *6 * [names[i % 3]]]) for i, row in enumerate(shown[: count // 2])]
    members = {"MNLI/train.tsv": tsv(f"{start}\tlabel1\tgold_label", train)}
    for half in ("matched", "mismatched"):
        members[f"MNLI/dev_{half}.tsv"] = tsv(f"{start}\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label", dev)
        members[f"MNLI/test_{half}.tsv"] = tsv(start, shown)
    return members


def _mrpc(folder: Path, count: int) -> None:
    """The published files: mark of byte order, CRLF, ids; GLUE's list of dev pairs has other columns after its ids."""
    rows = [f"{i % 2}\t{100 + i}\t{900 + i}\t{one}\t{other}" for i, (one, other) in enumerate(texts(count))]
    head = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    mark = b"\xef\xbb\xbf"
    (folder / "msr_paraphrase_train.txt").write_bytes(mark + tsv(head, rows, "\r\n"))
    (folder / "msr_paraphrase_test.txt").write_bytes(mark + tsv(head, rows[: count // 2], "\r\n"))
    ids = [f"{100 + i}\t{900 + i}\tx\ty" for i in range(0, count, 3)]
    (folder / "mrpc_dev_ids.tsv").write_bytes(tsv("", ids))


def _squad(count: int, unanswered: bool) -> bytes:
    paragraphs = []
    for i, (one, other) in enumerate(texts(count)):
        word = _WORDS[i % 8]
        answer = {"text": word, "answer_start": one.index(word)}
        entry: dict[str, object] = {"id": f"q{i}", "question": f"What was on day {i}?", "answers": [answer]}
        if unanswered:
            none = i % 3 == 0
            entry |= {"is_impossible": none, "answers": [] if none else [answer]}
        paragraphs.append({"context": f"{one} {other}", "qas": [entry]})
    return json.dumps({"version": "x", "data": [{"title": "Weather", "paragraphs": paragraphs}]}).encode()


def _swag(count: int) -> bytes:
    head = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
    rows = [
        f'{i},v{i},{i},"{one} She",{one},She,gold,"sees {other}",runs away.,"sits, and waits.",sings.,{i % 4}'
        for i, (one, other) in enumerate(texts(count))
    ]
    return tsv(head, rows)


def publish(folder: Path, count: int = 24) -> None:
    """Write stand-ins of all archives into a folder, under their published names."""
    folder.mkdir(parents=True, exist_ok=True)
    entailed = ("entailment", "not_entailment")
    archives = {
        "CoLA.zip": _cola(count),
        "SST-2.zip": _splits("SST-2", "", ("0", "1"), count, single=True),
        "STS-B.zip": _stsb(count),
        "QQP-clean.zip": _qqp(count),
        "MNLI.zip": _mnli(count),
        "QNLIv2.zip": _splits("QNLI", "question\tsentence", entailed, count),
        "RTE.zip": _splits("RTE", "sentence1\tsentence2", entailed, count),
        "WNLI.zip": _splits("WNLI", "sentence1\tsentence2", ("0", "1"), count),
    }
    for name, members in archives.items():
        (folder / name).write_bytes(_zip(members))
    test = [f"{i}\t{one}\t{other}" for i, (one, other) in enumerate(texts(count))]
    (folder / "AX.tsv").write_bytes(tsv("index\tsentence1\tsentence2", test))
    _mrpc(folder, count)
    for version, unanswered in (("v1.1", False), ("v2.0", True)):
        (folder / f"train-{version}.json").write_bytes(_squad(count, unanswered))
        (folder / f"dev-{version}.json").write_bytes(_squad(count // 2, unanswered))
    (folder / "train.csv").write_bytes(_swag(count))
    (folder / "val.csv").write_bytes(_swag(count // 2))


def random_bert(folder: Path, old_names: bool = False, **sizes: int) -> Path:
    """Write a BERT of random weights; ``old_names`` are those of the first files on the hub, with their head."""
    pieces = (
        "there was day had on what ? . , how can i create an app make money she sees runs away sits and waits sings"
    )
    digits = [str(digit) for digit in range(10)]
    vocab = [*SPECIAL_TOKENS, *_WORDS, *pieces.split(), *digits, *(f"##{digit}" for digit in digits)]
    BertModel(BertConfig(vocab_size=len(vocab), **sizes)).save_pretrained(folder)
    WordPiece(vocab).save_pretrained(folder)
    if old_names:
        weights = folder / "model.safetensors"
        tensors = {
            "bert."
            + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for name, tensor in load_file(weights).items()
        }
        tensors["cls.predictions.bias"] = np.zeros(len(vocab), dtype=np.float32)
        tensors["cls.seq_relationship.weight"] = np.zeros((2, sizes["hidden_size"]), dtype=np.float32)
        save_file(tensors, weights, {"format": "pt"})
    return folder
