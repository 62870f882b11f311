"""The official sets of the slides' tables: their files, readers and settings, and the score that the paper reports.

Digests are those that the library `datasets` of Hugging Face records for these addresses. WNLI is left out, as in the
paper. CoNLL-2003 may not be passed on: its files come from ``$D2LBERT_DATA`` (see ``d2lbert data list``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.archives import Archive, Member, get, unpacked
from d2lbert import UserError, data
from d2lbert.data.readers import pairs
from d2lbert.data.readers.formats import read_file
from d2lbert.data.readers.lines import find_columns, tab_rows

_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
_SWAG = "https://raw.githubusercontent.com/rowanz/swagaf/master/data"

COLA = Archive(f"{_GLUE}/CoLA.zip", "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff")
SST2 = Archive(f"{_GLUE}/SST-2.zip", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa")
STSB = Archive(f"{_GLUE}/STS-B.zip", "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85")
QQP = Archive(f"{_GLUE}/QQP-clean.zip", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0")
MNLI = Archive(f"{_GLUE}/MNLI.zip", "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633")
QNLI = Archive(f"{_GLUE}/QNLIv2.zip", "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5")
RTE = Archive(f"{_GLUE}/RTE.zip", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee")
WNLI = Archive(f"{_GLUE}/WNLI.zip", "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46")
AX = Archive(f"{_GLUE}/AX.tsv", "0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd")
MRPC_TRAIN = Archive(
    f"{_SENTEVAL}/msr_paraphrase_train.txt", "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"
)
MRPC_TEST = Archive(
    f"{_SENTEVAL}/msr_paraphrase_test.txt", "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"
)
MRPC_DEV_IDS = Archive(f"{_GLUE}/mrpc_dev_ids.tsv", "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7")
SQUAD11 = (
    Archive(f"{_SQUAD}/train-v1.1.json", "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955"),
    Archive(f"{_SQUAD}/dev-v1.1.json", "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"),
)
SQUAD20 = (
    Archive(f"{_SQUAD}/train-v2.0.json", "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002"),
    Archive(f"{_SQUAD}/dev-v2.0.json", "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"),
)
SWAG = (
    Archive(f"{_SWAG}/train.csv", "5748b51126ac255c5a6f26e1ba473b51116d6c822aeb25e63ecba282c9d0e610"),
    Archive(f"{_SWAG}/val.csv", "c0497b2cd7f3e6b7df995524b1853f62285d60d110d659b19545ca80b2903234"),
)

Read = Callable[[Path], list[Any]]


@dataclass(frozen=True)
class Official:
    """A published set.

    Fields:
        task: of the command line.
        score: what the paper reports.
        train: reads the training examples, given the folder of the archives.
        scored: name of a part that is scored -> how to read it, and the table and column of its number in
            ``data/published.toml``. Nothing is chosen on any of them. The first is scored after every epoch.
        archives: what the parts are read from.
        epochs, batch_size, learning_rate: the paper's where it names one; see ``benchmarks/finetuning/official.py``.
        cased: whether capital letters are kept.
        columns: of the files of GLUE's server: the texts.
        server: name of a file for GLUE's server -> the file with its texts.
        allow_empty: whether a text may be empty, as two of QQP's are.
    """

    task: str
    score: str
    train: Read
    scored: Mapping[str, tuple[Read, str, str]]
    archives: tuple[Archive, ...]
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 2e-5
    cased: bool = False
    columns: tuple[str, ...] = ("sentence1", "sentence2")
    server: Mapping[str, Member] = field(default_factory=dict)
    allow_empty: bool = False


def _file(member: Member, format: str, task: str, folder: Path) -> list[Any]:
    return read_file(unpacked(member, folder), format, task=task)


def _glue(archive: Archive, folder: str, split: str, format: str = "glue-tsv", task: str = "pair") -> Read:
    return partial(_file, Member(archive, f"{folder}/{split}.tsv"), format, task)


def _qqp(split: str, folder: Path) -> list[Any]:
    return list(pairs.glue_pairs(unpacked(Member(QQP, f"QQP/{split}.tsv", columns=6), folder), allow_empty=True))


def _mrpc(dev: bool, folder: Path) -> list[Any]:
    """Return GLUE's dev pairs, those of the published training file whose two ids are in a list, or the others."""
    path = unpacked(Member(MRPC_TRAIN), folder)
    rows = tab_rows(path)
    columns = find_columns(path, next(rows)[1], ("#1 ID", "#2 ID"))
    ids = [tuple(row[column] for column in columns) for _, row in rows]
    listed = {tuple(row[:2]) for _, row in tab_rows(unpacked(Member(MRPC_DEV_IDS), folder))}
    examples = read_file(path, "mrpc", task="pair")
    return [example for example, pair in zip(examples, ids, strict=True) if (pair in listed) == dev]


def _conll(split: str, folder: Path) -> list[Any]:
    check_conll()
    return data.load("conll2003", split)


def check_conll() -> None:
    """Refuse to go on without CoNLL-2003, whose licence forbids to hand it on.

    Raises:
        UserError: it is not here.
    """
    if data.is_sample("conll2003"):
        raise UserError("CoNLL-2003 is not here: put its three files into $D2LBERT_DATA/conll2003_ner, or leave it out")


def _single(archives: tuple[Archive, Archive], part: int, format: str, task: str) -> Read:
    return partial(_file, Member(archives[part]), format, task)


def _server(name: str, archive: Archive, folder: str) -> dict[str, Member]:
    return {name: Member(archive, f"{folder}/test.tsv")}


def _simple(title: str, archive: Archive, folder: str, format: str, board: str = "glue", **rest: Any) -> Official:
    """Return a set of GLUE whose archive has one file for each split."""
    read = partial(_glue, archive, folder, format=format, task=rest["task"])
    scored = {"dev": (read("dev"), board, title)}
    return Official(
        train=read("train"), scored=scored, archives=(archive,), server=_server(title, archive, folder), **rest
    )


SETS = {
    "cola": _simple("CoLA", COLA, "CoLA", "cola", task="classification", score="matthews", columns=("sentence",)),
    "sst2": _simple("SST-2", SST2, "SST-2", "glue-tsv", task="classification", score="accuracy", columns=("sentence",)),
    "mrpc": Official(
        "pair",
        "f1",
        partial(_mrpc, False),
        {
            "dev": (partial(_mrpc, True), "", ""),
            "test": (partial(_file, Member(MRPC_TEST), "mrpc", "pair"), "glue", "MRPC"),
        },
        (MRPC_TRAIN, MRPC_TEST, MRPC_DEV_IDS),
        columns=("#1 String", "#2 String"),
        server={"MRPC": Member(MRPC_TEST)},
    ),
    "stsb": _simple("STS-B", STSB, "STS-B", "glue-tsv", task="pair", score="spearman"),
    "qqp": Official(
        "pair",
        "f1",
        partial(_qqp, "train"),
        {"dev": (partial(_qqp, "dev"), "glue", "QQP")},
        (QQP,),
        columns=("question1", "question2"),
        server=_server("QQP", QQP, "QQP"),
        allow_empty=True,
    ),
    "mnli": Official(
        "pair",
        "accuracy",
        _glue(MNLI, "MNLI", "train", "mnli"),
        {
            "matched": (_glue(MNLI, "MNLI", "dev_matched", "mnli"), "glue", "MNLI-m"),
            "mismatched": (_glue(MNLI, "MNLI", "dev_mismatched", "mnli"), "glue", "MNLI-mm"),
        },
        (MNLI, AX),
        server={
            "MNLI-m": Member(MNLI, "MNLI/test_matched.tsv"),
            "MNLI-mm": Member(MNLI, "MNLI/test_mismatched.tsv"),
            "AX": Member(AX),
        },
    ),
    # The archive is that of 2019, so its number is not in the table of 2018.
    "qnli": _simple(
        "QNLI",
        QNLI,
        "QNLI",
        "qnli",
        board="qnli",
        task="pair",
        score="accuracy",
        columns=("question", "sentence"),
    ),
    "rte": _simple("RTE", RTE, "RTE", "glue-tsv", task="pair", score="accuracy"),
    "swag": Official(
        "multiple_choice",
        "accuracy",
        _single(SWAG, 0, "swag", "multiple_choice"),
        {"dev": (_single(SWAG, 1, "swag", "multiple_choice"), "swag", "dev")},
        SWAG,
        batch_size=16,
    ),
    "squad11": Official(
        "question_answering",
        "f1",
        _single(SQUAD11, 0, "squad", "question_answering"),
        {"dev": (_single(SQUAD11, 1, "squad", "question_answering"), "squad11", "dev, F1")},
        SQUAD11,
        learning_rate=5e-5,
    ),
    "squad20": Official(
        "question_answering",
        "f1",
        _single(SQUAD20, 0, "squad", "question_answering"),
        {"dev": (_single(SQUAD20, 1, "squad", "question_answering"), "", "")},
        SQUAD20,
        epochs=2,
        batch_size=48,
        learning_rate=5e-5,
    ),
    "conll2003": Official(
        "tagging",
        "f1",
        partial(_conll, "train"),
        {
            "dev": (partial(_conll, "dev"), "conll2003", "dev"),
            "test": (partial(_conll, "test"), "conll2003", "test"),
        },
        (),
        learning_rate=5e-5,
        cased=True,
    ),
}


def digests(official: Official, folder: Path) -> tuple[dict[str, str], bool]:
    """Return the sha256 of each archive, and whether all are the published ones."""
    found = {archive.name: get(archive, folder)[1:] for archive in official.archives}
    return {name: digest for name, (digest, _) in found.items()}, all(same for _, same in found.values())
