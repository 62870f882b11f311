"""Model folders that would load as a wrong model or fill the memory (torch/folder): one line, and nothing is built."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from safetensors_support import needs_complex_numbers

from d2lbert import UserError
from d2lbert.config import (
    AlbertConfig,
    BertConfig,
    DistilBertConfig,
    ElmoConfig,
    GptConfig,
    Seq2SeqConfig,
    TransformerConfig,
)
from d2lbert.torch.bert import BertModel
from d2lbert.torch.elmo import Elmo
from d2lbert.torch.gpt import Gpt
from d2lbert.torch.heads import BertForSequenceClassification, BertForTokenClassification
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.relatives import AlbertModel, DistilBertModel
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer

BLOCK = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 20}
BERT = {**BLOCK, "vocab_size": 31, "num_hidden_layers": 2, "max_position_embeddings": 9}
GPT = {"vocab_size": 31, "bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 1}


def models() -> dict[str, Callable[[], Any]]:
    """A small model of each kind, by name."""
    elmo = ElmoConfig(filters=((1, 4), (3, 6)), projection_size=7, hidden_size=11, char_embedding_size=5)
    return {
        "bert": lambda: BertModel(BertConfig(**BERT)),
        "albert": lambda: AlbertModel(AlbertConfig(**BERT, embedding_size=5)),
        "distilbert": lambda: DistilBertModel(DistilBertConfig(**BERT)),
        "texts": lambda: BertForSequenceClassification(BertModel(BertConfig(**BERT)), ["no", "yes"]),
        "tokens": lambda: BertForTokenClassification(AlbertModel(AlbertConfig(**BERT)), ["no", "yes"]),
        "pretraining": lambda: BertForPretraining(BertConfig(**BERT)),
        "gpt": lambda: Gpt(GptConfig(**GPT, n_positions=9, n_embd=12, n_layer=2, n_head=3, n_inner=20)),
        "elmo": lambda: Elmo(elmo),
        "transformer": lambda: Transformer(TransformerConfig(31, 31, **BLOCK)),
        "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(31, 31, 12, embedding_size=7)),
    }


KINDS = list(models())


@pytest.fixture(params=KINDS)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A small model, saved in the test's folder."""
    torch.manual_seed(0)
    model = models()[request.param]().eval()
    model.save_pretrained(tmp_path)
    return model


def refusal(model: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return why a folder is refused, without a single layer being built."""
    with monkeypatch.context() as patch:
        for layer in ("Linear", "Embedding", "LayerNorm"):
            patch.setattr(torch.nn, layer, lambda *sizes, **more: pytest.fail("a layer was built"))
        with pytest.raises(UserError) as caught:
            type(model).from_pretrained(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Field -> values. None of them is what the small models have, and each is allowed or too large by itself.
SIZES = {
    "hidden_size": (24, 999_999, 10**12),
    "dim": (24, 999_999),
    "n_embd": (24, 999_999),
    "embedding_size": (6, 10**6, 2**63),
    "vocab_size": (30, 32, 10**7, 10**12, 2**63),
    "source_vocab_size": (30, 10**7, 10**12),
    "max_position_embeddings": (8, 10**5, 10**11),
    "n_positions": (8, 10**5, 10**11),
    "intermediate_size": (19, 10**6, 10**12),
    "hidden_dim": (19, 10**6),
    "n_inner": (19, 10**6),
    "type_vocab_size": (1, 10**7, 10**12),
    "num_hidden_layers": (1, 3, 999, 10**9),
    "n_layers": (1, 3, 999, 10**9),
    "n_layer": (1, 3, 999, 10**9),
    "num_encoder_layers": (5, 7, 999, 10**9),
    "num_decoder_layers": (5, 7, 10**9),
    "num_hidden_groups": (2,),
}
NEVER = (0, -1, -5, 2.5, "2", None, True, [], {"a": 1})


def has_that_many_blocks(field: str, model: Any) -> bool:
    """Whether a field is no size of a tensor: the layers of an ALBERT share their weights."""
    shares = isinstance(getattr(model, "bert", model), AlbertModel)
    sinusoids = isinstance(model, Transformer) and field == "max_position_embeddings"
    return (shares and field == "num_hidden_layers") or sinusoids


def test_sizes_that_are_not_those_of_the_weights(saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ("options.json" if isinstance(saved, Elmo) else "config.json")
    values = json.loads(path.read_text())
    groups = [values] if not isinstance(saved, Elmo) else [values["lstm"], values["char_cnn"]]
    tried = 0
    for group in groups:
        for field, sizes in SIZES.items():
            for size in sizes if field in group else ():
                if size == group[field] or (has_that_many_blocks(field, saved) and size < 10**6):
                    continue
                before, group[field] = group[field], size
                path.write_text(json.dumps(values))
                refusal(saved, tmp_path, monkeypatch)
                group[field], tried = before, tried + 1
    assert tried >= 1 if isinstance(saved, Elmo) else tried >= 8


def test_sizes_that_no_model_has(saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ("options.json" if isinstance(saved, Elmo) else "config.json")
    values = json.loads(path.read_text())
    groups = [values] if not isinstance(saved, Elmo) else [values["lstm"], values["char_cnn"]]
    for group in groups:
        for field in [name for name in group if name in SIZES or name.endswith(("eps", "epsilon", "dim", "n_layers"))]:
            for size in NEVER:
                null_is_a_default = isinstance(saved, Gpt) and size is None
                may_be_none = field == "type_vocab_size" and size == 0
                a_real_number = field.endswith(("eps", "epsilon")) and size == 2.5
                if null_is_a_default or may_be_none or a_real_number:
                    continue
                before, group[field] = group[field], size
                path.write_text(json.dumps(values))
                refusal(saved, tmp_path, monkeypatch)
                group[field] = before


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_numbers_of_another_kind(
    saved: Any, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = load_file(tmp_path / "model.safetensors")
    if dtype.is_complex:
        needs_complex_numbers()
    save_file({name: tensor.to(dtype) for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    message = refusal(saved, tmp_path, monkeypatch)
    assert "holds numbers of type" in message
    assert "give weights in float32, float16 or bfloat16" in message


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_real_numbers_of_any_length_become_float32(saved: Any, dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name: tensor.to(dtype) for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    loaded = type(saved).from_pretrained(tmp_path)
    for name, parameter in saved.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter.to(dtype).float()), name


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_neither_read_nor_written(saved: Any, number: float, tmp_path: Path) -> None:
    tensors = load_file(tmp_path / "model.safetensors")
    for name in (min(tensors), max(tensors)):
        damaged = tensors[name].clone()
        damaged.view(-1)[-1] = number
        save_file({**tensors, name: damaged}, tmp_path / "model.safetensors")
        with pytest.raises(UserError, match=r" holds NaN or infinity: the training went wrong, use other weights$"):
            type(saved).from_pretrained(tmp_path)
    with torch.no_grad():
        next(saved.parameters()).view(-1)[0] = number
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match=r" holds NaN or infinity, so nothing was written to .*lower the learning rate"):
        saved.save_pretrained(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_parameter_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, prefix in (("bert", "bert."), ("texts", "albert."), ("gpt", "transformer.")):
        model = models()[kind]()
        model.save_pretrained(tmp_path)
        tensors = load_file(tmp_path / "model.safetensors")
        name = max(tensors).split(".", 1)[1] if kind != "bert" else max(tensors)
        extra = {f"{prefix}{name}": torch.zeros(1), name: torch.ones(1)}
        save_file({**tensors, **extra}, tmp_path / "model.safetensors")
        message = refusal(model, tmp_path, monkeypatch)
        assert "two tensors for one parameter" in message or "twice, with and without 'transformer.'" in message


def test_buffers_of_whole_numbers_do_no_harm(tmp_path: Path) -> None:
    model = models()["bert"]()
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    buffers = {"embeddings.position_ids": torch.arange(9), "cls.scale": torch.full((2,), float("nan"))}
    save_file({**tensors, **buffers}, tmp_path / "model.safetensors")
    loaded = BertModel.from_pretrained(tmp_path)
    assert torch.equal(loaded.pooler.weight, model.pooler.weight)


@pytest.mark.parametrize("architectures", [{"a": 1}, "BertModel", [1], [["x"]], 7])
def test_names_of_classes_that_are_no_list(architectures: Any, tmp_path: Path) -> None:
    model = models()["texts"]()
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "architectures": architectures}))
    with pytest.raises(UserError, match=r"config\.json: architectures is .*; give a list with one name"):
        BertForSequenceClassification.from_pretrained(tmp_path)


def test_brackets_without_end(saved: Any, tmp_path: Path) -> None:
    for name in ("config.json", "options.json"):
        if (tmp_path / name).is_file():
            (tmp_path / name).write_text("[" * 200_000)
            with pytest.raises(UserError, match=rf"{name} is not valid JSON: .*; restore the file"):
                type(saved).from_pretrained(tmp_path)


def test_half_precision_that_overflows_is_not_written(tmp_path: Path) -> None:
    model = models()["elmo"]()
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] = 1e6  # finite in 32 bits, infinite in 16
    with pytest.raises(UserError, match="holds NaN or infinity, so nothing was written"):
        model.save_pretrained(tmp_path, half=True)
    assert not list(tmp_path.iterdir())
    model.save_pretrained(tmp_path)
    assert np.isfinite(load_file(tmp_path / "model.safetensors")["words.characters.weight"].numpy()).all()
