"""Vectors of words by layer, linear probes with a control, attention rollout: by hand on small models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.probing import attention_rollout, control_labels, probe_accuracy, word_vectors

TOKENIZER = WordPiece([*SPECIAL_TOKENS, "dream", "##t", "the", "cat", "##s", "."])


@pytest.fixture
def model() -> BertModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    return BertModel(BertConfig(vocab_size=len(TOKENIZER.vocab), initializer_range=0.5, **sizes)).eval()


def test_word_vectors_are_means_over_pieces(model: BertModel) -> None:
    sentences = [("the", "cats", "dreamt", "."), ("dreamt",), ("the", "cat")]
    vectors = word_vectors(model, TOKENIZER, sentences, batch_size=2)
    assert [array.shape for array in vectors] == [(4, 4, 16), (4, 1, 16), (4, 2, 16)]
    ids = torch.tensor([TOKENIZER.encode("the cats dreamt .").ids])  # [CLS] the cat ##s dream ##t . [SEP]
    with torch.no_grad():
        states = torch.stack(model(ids, output_hidden_states=True).hidden_states)[:, 0]  # (4, L, D)
    pieces = [[1], [2, 3], [4, 5], [6]]
    by_hand = np.stack([states[:, positions].mean(1).numpy() for positions in pieces], axis=1)
    np.testing.assert_allclose(vectors[0], by_hand, atol=1e-5)


def test_a_word_without_pieces_has_no_vector(model: BertModel) -> None:
    vectors = word_vectors(model, TOKENIZER, [("the", "\u200b", "cat")])[0]
    assert np.isnan(vectors).all(axis=(0, 2)).tolist() == [False, True, False]
    np.testing.assert_allclose(vectors[:, 2], word_vectors(model, TOKENIZER, [("the", "cat")])[0][:, 1], atol=1e-5)


def test_word_vectors_of_bad_input(model: BertModel) -> None:
    short = BertModel(model.config.replace(max_position_embeddings=4))
    with pytest.raises(UserError, match="a sentence has 5 tokens, but the model takes 4: split it"):
        word_vectors(short, TOKENIZER, [("the", "cats")])


def test_a_probe_finds_what_is_linear_and_nothing_else() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(600, 8))
    line = np.where(vectors[:, 3] > 0, "right", "left")
    noise = generator.choice(["right", "left"], size=600)
    for labels, low, high in ((line, 0.9, 1.0), (noise, 0.4, 0.6)):
        accuracy = probe_accuracy((vectors[:400] * 100, labels[:400]), (vectors[400:] * 100, labels[400:]))
        assert low <= accuracy <= high


def test_control_labels_belong_to_words_and_keep_the_frequencies() -> None:
    words = [f"word{number}" for number in range(3000)] * 2
    labels = ["noun"] * 4500 + ["verb"] * 1500
    control = control_labels(words, labels)
    assert set(control) == set(words)
    assert np.mean([label == "noun" for label in control.values()]) == pytest.approx(0.75, abs=0.03)
    assert control == control_labels(words[::-1], labels)  # the order of the words means nothing
    assert control != control_labels(words, labels, seed=1)


def test_rollout_by_hand() -> None:
    first = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])  # (B, H, L, L): both look at token 0
    second = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])
    # Half stays: [[1, 0], [.5, .5]] after the first block; the second mixes with [[.5, .5], [0, 1]].
    torch.testing.assert_close(attention_rollout([first, second]), torch.tensor([[[0.75, 0.25], [0.5, 0.5]]]))
    heads = torch.rand(2, 3, 5, 5).softmax(-1)
    flow = attention_rollout([heads, heads.flip(1), heads])
    torch.testing.assert_close(flow.sum(-1), torch.ones(2, 5))
