"""BertModel: folders that do not fit, inputs that are too long, what comes on request."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.outputs import Rows
from d2lbert.torch.bert import BertModel

SMALL = BertConfig(
    vocab_size=31,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    BertModel(SMALL).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def _edit_config(folder: Path, **changes: object) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, **changes}))


def test_round_trip_is_exact_and_ready_to_predict(folder: Path) -> None:
    model = BertModel.from_pretrained(folder)
    assert not model.training
    assert model.config == SMALL
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    torch.manual_seed(0)
    for expected, loaded in zip(BertModel(SMALL).parameters(), model.parameters(), strict=True):
        assert torch.equal(expected, loaded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 32}, r"word_embeddings.weight has shape \(31, 8\) but the configuration asks for \(32, 8\)"),
        ({"num_hidden_layers": 3}, "lacks 16 of 53 tensors, first 'encoder.layer.2"),
        ({"num_hidden_layers": 1}, "weights hold 'encoder.layer.1"),
        ({"model_type": "t5"}, "model_type is 't5', which d2lbert does not compute"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"num_attention_heads": 3}, "3 heads do not divide hidden_size 8"),
        ({"hidden_act": "swish"}, "configuration: unknown hidden_act 'swish'"),
        ({"hidden_size": "wide"}, "hidden_size is 'wide'; it must be of type int"),
    ],
)
def test_configuration_that_does_not_fit(folder: Path, change: dict[str, object], message: str) -> None:
    _edit_config(folder, **change)
    with pytest.raises(UserError, match=message) as caught:
        BertModel.from_pretrained(folder)
    assert "\n" not in str(caught.value)


def test_missing_and_damaged_files(folder: Path, tmp_path: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(UserError, match="damaged"):
        BertModel.from_pretrained(folder)
    weights.unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors in"):
        BertModel.from_pretrained(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match="not valid JSON"):
        BertModel.from_pretrained(folder)
    shutil.rmtree(folder)
    with pytest.raises(UserError, match="not a model folder"):
        BertModel.from_pretrained(folder)
    with pytest.raises(UserError, match="did you mean minilm"):
        BertModel.from_pretrained("minillm")


def test_weights_of_another_kind_of_model(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    save_file({f"roberta.{name}": array for name, array in tensors.items()}, folder / "model.safetensors")
    with pytest.raises(UserError, match="another kind of model"):
        BertModel.from_pretrained(folder)


def test_half_precision_weights_load(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    exact = BertModel.from_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({name: array.astype("float16") for name, array in tensors.items()}, folder / "model.safetensors")
    loaded = BertModel.from_pretrained(folder)
    ids = torch.tensor([[1, 2, 3]])
    assert loaded(ids).sequence.dtype == torch.float32
    assert (loaded(ids).sequence - exact(ids).sequence).abs().max() < 1e-2


def test_too_long_input_is_one_line(folder: Path) -> None:
    model = BertModel.from_pretrained(folder)
    with pytest.raises(UserError, match="input of 11 tokens, but the model has 10 positions"):
        model(torch.ones(1, 11, dtype=torch.long))


def test_packed_row_may_be_longer_than_the_positions(folder: Path) -> None:
    model = BertModel.from_pretrained(folder)
    ids = torch.arange(1, 16).view(1, 15)
    positions = torch.tensor([[*range(8), *range(7)]])
    sequences = torch.tensor([[1] * 8 + [2] * 7])
    starts = torch.tensor([[0, 0], [0, 8]])
    packed = model(Rows(ids, position_ids=positions, sequence_ids=sequences, starts=starts))
    assert packed.pooled.shape == (2, 8)
    assert torch.allclose(packed.pooled[1], model(ids[:, 8:]).pooled[0], atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"token_ids": [[1, 31]]}, r"^token id 31 is not from 0 to 30, .*: encode the text with the tokenizer of this"),
        ({"token_ids": [[1, -1]]}, r"^token id -1 is not from 0 to 30"),
        ({"token_ids": [[1, 2]], "segment_ids": [[0, 2]]}, r"^segment 2 is not from 0 to 1, .* pair 0 and 1$"),
        ({"token_ids": [[1, 2]], "position_ids": [[0, 10]]}, r"^position 10 is not from 0 to 9, .*: truncate the text"),
        ({"token_ids": [[], []]}, r"^the batch has no tokens: give at least one text"),
    ],
)
def test_ids_outside_the_tables_are_one_line(rows: dict[str, list[list[int]]], message: str) -> None:
    tensors = {name: torch.tensor(ids, dtype=torch.long) for name, ids in rows.items()}
    model = BertModel(SMALL)
    for run in (model, model.forward_pooled):
        with pytest.raises(UserError, match=message):
            run(Rows(**tensors))


def test_an_index_that_no_id_explains_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*ids: torch.Tensor) -> torch.Tensor:
        raise IndexError("our own mistake")

    model = BertModel(SMALL)
    monkeypatch.setattr(model.embeddings, "forward", broken)
    with pytest.raises(IndexError, match="our own mistake"):
        model(torch.tensor([[1, 2]]))


def test_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match="cannot write"):
        BertModel(SMALL).save_pretrained(tmp_path / "file")
