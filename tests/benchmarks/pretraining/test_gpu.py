"""What the benchmark of a GPU states: the share of the measured peak, and that of the nominal one where it is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.pretraining import gpu
from benchmarks.pretraining.gpu import Peaks, earlier, race, with_rows_that_fit
from benchmarks.pretraining_sides import our_loss
from benchmarks.random_texts import RandomTexts
from d2lbert.config import BertConfig
from d2lbert.data.batching import pack
from d2lbert.torch.pretraining import BertForPretraining


@pytest.mark.parametrize(
    ("name", "nominal"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", None),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", None),
        ("Tesla V100-SXM2-16GB", None),
        ("Tesla T4", None),
    ],
)
def test_the_nominal_peak_is_that_of_this_very_device(
    name: str, nominal: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    monkeypatch.setattr(gpu, "measured_peak", lambda device, size: 7e13)
    assert Peaks.of(torch.device("cuda")) == Peaks(7e13, nominal)


def test_a_processor_has_no_nominal_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "measured_peak", lambda device, size: 7e10)
    assert Peaks.of(torch.device("cpu")) == Peaks(7e10, None)


def test_both_shares_by_hand() -> None:
    done = {"ours": 100.0, "transformers": 50.0}
    assert Peaks(measured=200.0, nominal=400.0).shares(done) == {
        "utilisation_of_measured": {"ours": 0.5, "transformers": 0.25},
        "utilisation_of_nominal": {"ours": 0.25, "transformers": 0.125},
    }
    assert Peaks(200.0, None).shares(done)["utilisation_of_nominal"] is None


@pytest.mark.parametrize("nominal", [4e9, None])
def test_a_race_stores_both_shares(nominal: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_DEVICE", "cpu")
    texts = RandomTexts.draw(40, 11, np.random.default_rng(3))
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}
    model = BertForPretraining(BertConfig(**sizes, max_position_embeddings=16))
    sides = {"ours": (model, our_loss, [texts.batch(pack(texts.encodings, 11))])}
    found = race(sides, (), needed=1e6, peaks=Peaks(2e9, nominal), blocks=1)
    tokens_per_second = found["tokens_per_second"]["ours"]["median"]
    assert found["utilisation_of_measured"] == {"ours": pytest.approx(tokens_per_second * 1e6 / 2e9)}
    expected = None if nominal is None else {"ours": pytest.approx(tokens_per_second * 1e6 / nominal)}
    assert found["utilisation_of_nominal"] == expected


def test_a_batch_that_does_not_fit_is_halved(capsys: pytest.CaptureFixture[str]) -> None:
    tried = []

    def work(rows: int) -> dict[str, int]:
        tried.append(rows)
        if rows > 7:
            raise torch.OutOfMemoryError
        return {"rows": rows}

    assert with_rows_that_fit(work, 26) == {"rows": 6}
    assert tried == [26, 13, 6]
    assert "again, with 13 rows" in capsys.readouterr().out


def test_one_row_that_does_not_fit_is_an_error() -> None:
    def work(rows: int) -> dict[str, int]:
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        with_rows_that_fit(work, 2)


def test_what_the_same_device_measured_before_stays_and_another_has_a_file_of_its_own(tmp_path: Path) -> None:
    stored, other = tmp_path / "gpu.json", tmp_path / "other.json"
    assert earlier(stored, other, "NVIDIA L4") == (stored, {})
    stored.write_text(json.dumps({"device": {"accelerator": "NVIDIA L4"}, "metrics": {"base, 128 tokens": 1}}))
    assert earlier(stored, other, "NVIDIA L4") == (stored, {"base, 128 tokens": 1})
    assert earlier(stored, other, "NVIDIA H200") == (other, {})
    other.write_text(json.dumps({"device": {"accelerator": "NVIDIA H200"}, "metrics": {"base, 512 tokens": 2}}))
    assert earlier(stored, other, "NVIDIA H200") == (other, {"base, 512 tokens": 2})
    assert earlier(stored, other, "NVIDIA A10") == (other, {})
