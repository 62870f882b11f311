"""Published numbers: every row is whole, sources are in the bibliography, and averages are those of their columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data.published import _boards, published

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(_boards()))
def test_a_board_is_whole(name: str) -> None:
    board = published(name)
    assert all(len(values) == len(board.columns) for values in board.systems.values())
    bibliography = (ROOT / "references.bib").read_text(encoding="utf-8")
    assert board.citation
    assert all(f"{{{key}," in bibliography for key in board.citation)
    assert [row["system"] for row in board.rows()] == list(board.systems)


@pytest.mark.parametrize("system", published("glue").systems)
def test_the_slides_average_is_that_of_the_nine_columns(system: str) -> None:
    *scores, average = map(float, published("glue").systems[system])
    assert sum(scores) / len(scores) == pytest.approx(average, abs=0.051)


@pytest.mark.parametrize("system", published("qnli").systems)
def test_the_later_average_is_that_of_the_columns_with_the_later_qnli(system: str) -> None:
    old, later = published("glue"), published("qnli")
    scores = [float(later.value(system, "QNLI") if name == "QNLI" else old.value(system, name)) for name in old.columns]
    assert sum(scores[:-1]) / 9 == pytest.approx(float(later.value(system, "average")), abs=0.06)


def test_gluonnlp_repeats_the_scores_of_google() -> None:
    theirs, glue, squad = published("gluonnlp"), published("glue"), published("squad11")
    for size in ("base", "large"):
        for column in ("SST-2", "RTE", "QQP", "STS-B", "MNLI-mm"):
            assert theirs.value(f"BERT-{size}, Google", column) == glue.value(f"BERT-{size}", column)
        assert theirs.value(f"BERT-{size}, Google", "SQuAD 1.1") == squad.value(f"BERT-{size}", "dev, F1")


def test_unknown_names_are_one_line() -> None:
    with pytest.raises(UserError, match="unknown published table 'gleu': did you mean glue"):
        published("gleu")
    with pytest.raises(UserError, match="unknown system 'BERT-bsae': did you mean BERT-base"):
        published("glue").value("BERT-bsae", "RTE")
    with pytest.raises(UserError, match="unknown column 'RET': did you mean RTE"):
        published("glue").value("BERT-base", "RET")
