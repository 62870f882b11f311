"""Both editions train the Transformer and Seq2Seq alike, loss by loss; what one has learned the other uses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformer_sizes import transformer_config

from d2lbert.config import Seq2SeqConfig, TransformerConfig
from d2lbert.data import Translation
from d2lbert.data.translation import EncodedPair, encode_pairs, learn_vocabulary
from d2lbert.torch import seq2seq as torch_seq2seq
from d2lbert.torch import transformer as torch_transformer
from d2lbert.torch import translation as torch_translation
from d2lbert.training.translation import SequenceTraining

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from edition_support import same_random_parameters
from mxnet import nd

from d2lbert.mxnet import seq2seq, transformer, translation

V = 23
STEPS = 50
SETTINGS = SequenceTraining(STEPS, tokens=40, learning_rate=2e-3, warmup_steps=10, evaluate_every=1, seed=3)
# Each case: what of the configuration differs, what of the settings.
TRANSFORMERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"norm_first": True}, {"label_smoothing": 0.0, "clip": 0.3}),
    ({"share_embeddings": False, "tie_word_embeddings": False}, {"decay": "linear", "label_smoothing": 0.3}),
]
RECURRENT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"attention": "additive"}, {}),
    ({"attention": "dot", "cell": "lstm", "num_hidden_layers": 2, "bidirectional": True}, {"clip": 0.3}),
    ({"attention": "none", "share_embeddings": False, "tie_word_embeddings": False}, {"decay": "linear"}),
]


def _pairs(count: int, seed: int) -> list[EncodedPair]:
    """The target is the source turned round, so there is something to learn, and to look for."""
    generator = np.random.default_rng(seed)
    texts = [generator.integers(3, V, generator.integers(1, 8)).tolist() for _ in range(count)]
    return [EncodedPair([*text, 2], [1, *text[::-1], 2]) for text in texts]


def _transformers(changes: dict[str, Any]) -> tuple[Any, Any]:
    config = replace(
        transformer_config((V, V, 12, 2, 3, 4, 20, 30), **changes),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return torch_transformer.Transformer(config), transformer.Transformer(config)


def _recurrent(changes: dict[str, Any]) -> tuple[Any, Any]:
    config = Seq2SeqConfig(V, V, 14, embedding_size=10, hidden_dropout_prob=0.0, **changes)
    return torch_seq2seq.Seq2Seq(config), seq2seq.Seq2Seq(config)


def _follows(one: Any, two: Any, settings: SequenceTraining) -> None:
    same_random_parameters(one, two)
    options: dict[str, Any] = {"progress": False}
    expected = torch_translation.train_sequences(one, _pairs(60, 0), _pairs(9, 1), settings, "cpu", **options)
    found = translation.train_sequences(two, _pairs(60, 0), _pairs(9, 1), settings, **options)
    assert len(found) == STEPS
    for record, other in zip(expected, found, strict=True):
        assert other.keys() == record.keys()
        assert [other["step"], other["tokens"]] == [record["step"], record["tokens"]]
        assert abs(other["loss"] - record["loss"]) < 1e-3, record["step"]
        assert abs(other["dev_loss"] - record["dev_loss"]) < 1e-3, record["step"]
    # Losses that hardly move would agree whatever the steps were.
    assert expected[0]["dev_loss"] - expected[-1]["dev_loss"] > 0.05


@pytest.mark.parametrize(("changes", "settings"), TRANSFORMERS)
def test_transformers_follow_each_other(changes: dict[str, Any], settings: dict[str, Any]) -> None:
    _follows(*_transformers(changes), replace(SETTINGS, **settings))


@pytest.mark.parametrize(("changes", "settings"), RECURRENT)
def test_recurrent_models_follow_each_other(changes: dict[str, Any], settings: dict[str, Any]) -> None:
    _follows(*_recurrent(changes), replace(SETTINGS, **settings))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_smoothed_loss_and_its_gradient(smoothing: float) -> None:
    generator = np.random.default_rng(2)
    logits, ids = generator.standard_normal((3, 5, 7)).astype(np.float32), generator.integers(0, 7, (3, 5))
    mask = (np.arange(5) < [[5], [2], [4]]).astype(np.int64)
    theirs = torch.from_numpy(logits).requires_grad_()
    expected = torch_translation.label_smoothing_loss(theirs, torch.from_numpy(ids), torch.from_numpy(mask), smoothing)
    expected.backward()
    ours = nd.array(logits)
    ours.attach_grad()
    with translation.autograd.record():
        loss = translation.label_smoothing_loss(ours, nd.array(ids), nd.array(mask), smoothing)
    loss.backward()
    assert loss.asscalar() == pytest.approx(expected.item(), abs=1e-6)
    assert theirs.grad is not None
    assert np.abs(ours.grad.asnumpy() - theirs.grad.numpy()).max() < 1e-6
    assert np.abs(theirs.grad.numpy()).max() > 1e-2


def _learners(kind: str, vocabulary: int) -> tuple[Any, Any]:
    sizes: dict[str, Any] = {"num_encoder_layers": 1, "num_decoder_layers": 1, "num_attention_heads": 2}
    if kind == "seq2seq":
        recurrent = Seq2SeqConfig(vocabulary, vocabulary, 32, embedding_size=16, hidden_dropout_prob=0.0)
        return torch_seq2seq.Seq2Seq(recurrent), seq2seq.Seq2Seq(recurrent)
    config = TransformerConfig(vocabulary, vocabulary, 32, intermediate_size=64, hidden_dropout_prob=0.0, **sizes)
    return torch_transformer.Transformer(config), transformer.Transformer(config)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
def test_what_both_have_learned_translates_alike(kind: str, tmp_path: Path) -> None:
    """Greedy search in PyTorch, with the weights of either edition: folders go both ways."""
    words = {"one": "eins", "two": "zwei", "dog": "Hund", "red": "rot"}
    generator = np.random.default_rng(0)
    drawn = [generator.choice(list(words), generator.integers(1, 4)).tolist() for _ in range(150)]
    examples = [Translation(" ".join(text), " ".join(words[word] for word in text)) for text in drawn]
    tokenizer = learn_vocabulary(examples, 60)
    pairs = encode_pairs(examples, tokenizer)
    torch.manual_seed(0)
    one, two = _learners(kind, len(tokenizer))
    one.save_pretrained(tmp_path / "start")
    two = type(two).from_pretrained(tmp_path / "start")
    # The rate ends at zero, so that both runs know the texts. Processors round in different ways, and what is only half
    # learned may be translated in two ways.
    settings = SequenceTraining(
        300, tokens=300, learning_rate=0.01, warmup_steps=30, label_smoothing=0.0, decay="linear"
    )
    torch_translation.train_sequences(
        one, pairs[:130], pairs[130:], settings, "cpu", tmp_path / "torch", progress=False
    )
    translation.train_sequences(two, pairs[:130], pairs[130:], settings, None, tmp_path / "mxnet", progress=False)
    theirs, ours = (type(one).from_pretrained(tmp_path / name).eval() for name in ("torch", "mxnet"))
    texts = sorted({example.source for example in examples[:130]})
    translated = torch_translation.translate(ours, tokenizer, texts, beam_size=1)
    assert translated == torch_translation.translate(theirs, tokenizer, texts, beam_size=1)
    right = [" ".join(words[word] for word in text.split()) for text in texts]
    assert np.mean([a == b for a, b in zip(translated, right, strict=True)]) > 0.9, "it must have learned something"
    back = type(two).from_pretrained(tmp_path / "torch")
    expected = torch_translation.evaluate_sequences(theirs, pairs)
    assert translation.evaluate_sequences(back, pairs) == pytest.approx(expected, abs=1e-5)
