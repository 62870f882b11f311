"""The official sets: downloaded from a server on this machine, taken out of archives, read, trained on for a moment."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_support import Hub

from benchmarks.finetuning import official
from d2lbert import UserError
from d2lbert.storage.download import forget_failures

RTE = "index\tsentence1\tsentence2\tlabel\n" + "".join(
    f"{number}\tIt rained {word}.\tIt was {word}.\t{label}\n"
    for number, (word, label) in enumerate([("wet", "entailment"), ("dry", "not_entailment")] * 4)
)


@pytest.fixture
def hub() -> Iterator[Hub]:
    forget_failures()
    with Hub().serving() as server:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("RTE/train.tsv", RTE)
            archive.writestr("RTE/dev.tsv", RTE)
        server.files |= {
            "/RTE.zip": packed.getvalue(),
            "/torn.zip": packed.getvalue()[:50],
            "/plain.txt": b"1\t2\n3\n4\t5\n",
        }
        yield server


def test_a_file_comes_out_of_its_archive_and_is_downloaded_once(hub: Hub, tmp_path: Path) -> None:
    for member in ("RTE/train.tsv", "RTE/dev.tsv"):
        path, digest = official.provide(f"{hub.url}/RTE.zip#{member}", tmp_path / "new")
        assert path.read_text() == RTE
        assert path.parent == tmp_path / "new"
        assert len(digest) == 64
    assert hub.downloaded == ["RTE.zip"]


def test_broken_lines_of_a_published_file_are_left_out_and_counted(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = official.provide(f"{hub.url}/plain.txt", tmp_path, columns=2)
    assert path.read_text() == "1\t2\n4\t5\n"
    assert "1 lines without 2 columns left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/torn.zip#RTE/train.tsv", r"torn\.zip is damaged or has no RTE/train\.tsv"),
        ("/RTE.zip#RTE/other.tsv", r"RTE\.zip is damaged or has no RTE/other\.tsv"),
        ("/none.zip#a", r"none\.zip cannot be had: .* answered 404 .*; put .* into"),
    ],
)
def test_faults_are_one_line(hub: Hub, tmp_path: Path, address: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        official.provide(hub.url + address, tmp_path)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("*.tsv"))


def test_a_set_is_measured_and_kept(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {part: f"{hub.url}/RTE.zip#RTE/{part}.tsv" for part in ("train", "dev")}
    monkeypatch.setitem(official.SETS, "rte", dataclasses.replace(official.SETS["rte"], **addresses))
    monkeypatch.setattr(official, "RATES", (1e-4, 1e-5))
    options = Namespace(model="minilm", seed=0, limit=6, data=tmp_path / "data", runs=tmp_path / "runs")
    found = official.measure("rte", options)
    assert set(found["tried"]) == {"0.0001", "1e-05"}
    assert found["best"] == max(record["accuracy"] for record in found["tried"].values())
    assert found["set"]["paper"] == 66.4
    kept = tmp_path / "runs" / "rte-0.0001.json"
    content = json.loads(kept.read_text())
    content["found"]["accuracy"] = 2.0
    kept.write_text(json.dumps(content))
    assert official.measure("rte", options)["best"] == 2.0  # read, not trained again
