"""Numbers that overflow, corpora with next to nothing in them, and values that the Python interface must refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fork_server import Ended
from safetensors.numpy import load_file, save_file

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.config.training import Pretraining, Training

SURFACE = "5 numerics"
Attack, Refused = Callable[..., Ended], Callable[..., None]
FINETUNE = ("finetune", "classification", "--model", "d2lbert-tiny", "--train", "train.csv", "--dev", "train.csv")
PRETRAIN = ("pretrain", "--corpus", "corpus.txt", "--out", "out", "--steps", "2", "--vocab-size", "300")
SMALL = ("--max-length", "24", "--batch-size", "4")
SENTENCE = "The river runs to the sea. A boat lies at the bank. They waited for the tide.\n"


@pytest.mark.parametrize("rate", ["1e20", "1e38", "1e300"])
def test_a_rate_that_ruins_the_last_step(
    rate: str, train: Path, attack: Attack, refused: Refused, tmp_path: Path
) -> None:
    """One batch an epoch: the last step follows the last loss. What is saved, is finite."""
    ended = attack(*FINETUNE, "--out", "out", "--lr", rate, "--epochs", "1", "--warmup", "0")
    if ended.status == 0:
        tensors = load_file(tmp_path / "out" / "model.safetensors")
        assert all(np.isfinite(array).all() for array in tensors.values())
        return
    refused(ended)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rate", ["1e20", "1e38"])
def test_a_rate_that_ends_in_nan_over_many_steps(
    rate: str, train: Path, attack: Attack, refused: Refused, tmp_path: Path
) -> None:
    refused(attack(*FINETUNE, "--out", "out", "--lr", rate, "--batch-size", "4"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", [1e10, 1e18])
def test_weights_that_overflow_on_the_way(
    size: float, classifier: Path, tmp_path: Path, attack: Attack, refused: Refused
) -> None:
    """Finite weights, but their products are not."""
    shutil.copytree(classifier, tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    tensors = load_file(path)
    tensors["classifier.weight"] = np.full_like(tensors["classifier.weight"], np.float32(size) * np.float32(1e20))
    save_file(tensors, path)
    ended = attack("predict", "classification", "--model", "model", "--text", "good")
    if ended.status == 0:  # the overflow may not be reached
        assert "NaN" not in ended.stdout
        json.loads(ended.stdout)
    else:
        refused(ended)


CORPORA = {
    "nothing": ("", ()),
    "blank lines": ("\n \n\t\n", ()),
    "one word": ("river\n", ()),
    "one long line": (SENTENCE.strip() * 500, ("--dev-share", "0")),
    "one document": (SENTENCE * 50, ("--dev-share", "0")),
    "two documents of one sentence": ("The river.\n\nThe sea.\n" * 1, ("--dev-share", "0")),
    "one character again and again": ("a" * 20_000, ("--dev-share", "0")),
    "control characters": ("\x01\x02\x03\n\n\x04\n", ()),
    "not UTF-8": ("\udcff\udcfe", ()),
    "a pair longer than the positions": (SENTENCE, ("--max-length", "513")),
    "no room for its characters": ((SENTENCE + "\n") * 20, ("--vocab-size", "10")),
    "held-out documents too few": ((SENTENCE + "\n") * 2 + "Some other text.\n", ("--dev-share", "0.999999")),
}


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_that_gives_nothing(name: str, attack: Attack, refused: Refused, tmp_path: Path) -> None:
    text, more = CORPORA[name]
    (tmp_path / "corpus.txt").write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(attack(*PRETRAIN, *SMALL, *more))
    assert not (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.parametrize(
    "more",
    [
        *((), ("--model", "gpt"), ("--no-next-sentence",), ("--static-copies", "1"), ("--whole-words",), ("--cased",)),
        *(("--masking-share", "0"), ("--masking-share", "1"), ("--dropout", "0.99"), ("--accumulation", "3")),
    ],
    ids=" ".join,
)
def test_a_corpus_that_is_just_enough(
    more: tuple[str, ...], attack: Attack, accepted: Callable[[Ended], None], tmp_path: Path
) -> None:
    documents = [SENTENCE.replace("river", word) for word in ("river", "road", "wind", "path", "train", "stream")]
    (tmp_path / "corpus.txt").write_text("\n".join(documents))
    accepted(attack(*PRETRAIN, *SMALL, "--dev-share", "0", *more))
    assert (tmp_path / "out" / "model.safetensors").is_file()


WRONG = [
    (Training, {"weight_decay": float("nan")}),
    (Training, {"weight_decay": -1}),
    (Training, {"epochs": True}),
    (Training, {"epochs": 1.5}),
    (Training, {"batch_size": 2.5}),
    (Training, {"patience": float("nan")}),
    (Training, {"learning_rate": float("inf")}),
    (Training, {"learning_rate": "1e-4"}),
    (Training, {"seed": -1}),
    (Training, {"max_length": None}),
    (Training, {"best_by": 3}),
    (Pretraining, {"steps": 10.5}),
    (Pretraining, {"seed": -1}),
    (Pretraining, {"weight_decay": float("nan")}),
    (Pretraining, {"warmup": float("nan")}),
    (BertConfig, {"hidden_size": 128.0}),
    (BertConfig, {"layer_norm_eps": float("nan")}),
    (BertConfig, {"num_hidden_layers": -1}),
    (BertConfig, {"pad_token_id": 10**9}),
]


@pytest.mark.parametrize(("kind", "change"), WRONG, ids=[f"{kind.__name__} {change}" for kind, change in WRONG])
def test_settings_of_the_python_interface(kind: Any, change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(change))) as caught:
        kind(**change)
    assert "\n" not in str(caught.value)


def _encoder(ids: Any, **more: Any) -> Any:
    import torch

    from d2lbert.torch.bert import BertModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertModel(BertConfig(vocab_size=10, max_position_embeddings=12, **sizes)).eval()
    return model(torch.tensor(ids), **{name: torch.tensor(value) for name, value in more.items()})


INPUTS = {
    "an id beyond the vocabulary": ([[1, 10]], {}),
    "a negative id": ([[1, -1]], {}),
    "a third segment": ([[1, 2]], {"segment_ids": [[0, 2]]}),
    "no token": ([[]], {}),
    "a row too long": ([[1] * 13], {}),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_of_the_python_interface(name: str) -> None:
    ids, more = INPUTS[name]
    if not ids[0]:
        import torch

        ids = torch.zeros(1, 0, dtype=torch.long).tolist()
    with pytest.raises(UserError):
        _encoder(ids, **more)
