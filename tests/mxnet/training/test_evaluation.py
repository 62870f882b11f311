"""Logits in the order of the inputs, scores and answers by hand, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data import Sentence
from d2lbert.outputs import Rows
from d2lbert.tasks.base import Input
from d2lbert.tasks.classification import Classification
from d2lbert.text import WordPiece

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from mxnet import gluon, nd

from d2lbert.mxnet.bert import BertModel, first_positions
from d2lbert.mxnet.heads import BertForSequenceClassification
from d2lbert.mxnet.training.evaluation import compute_logits, compute_outputs, evaluate, predict

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"])
TASK = Classification(["negative", "positive"])
TEXTS = ["good film", "bad", "film film film", "good"]
GOOD = 5


class _FirstWord(gluon.Block):
    """Its logits of a text are the id of the first word, and minus that."""

    def forward(self, rows: Rows[Any]) -> Any:
        word = rows.token_ids.reshape((-1,)).take(first_positions(rows) + 1).astype("float32")
        return nd.stack(word, -word, axis=1)


class _EveryToken(gluon.Block):
    """Its logits of a token are its id, and the double of that."""

    def forward(self, rows: Rows[Any]) -> Any:
        ids = rows.token_ids.astype("float32")
        return nd.stack(ids, 2 * ids, axis=2)


class _GoodIsPositive(gluon.Block):
    """Positive with probability 3/4 where a text begins with "good", else negative."""

    def forward(self, rows: Rows[Any]) -> Any:
        good = rows.token_ids.reshape((-1,)).take(first_positions(rows) + 1).astype("float32") == GOOD
        return nd.stack(1 - good, good, axis=1) * math.log(3)


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_logits_come_in_their_order(batch_size: int) -> None:
    encodings = TOKENIZER.encode_batch(TEXTS)
    logits = compute_logits(_FirstWord(), encodings, TOKENIZER, batch_size=batch_size)
    assert logits[:, 0].tolist() == [5, 6, 7, 5]
    inputs = [Input((one,), None, index) for index, one in enumerate(encodings)]
    for encoding, found in zip(
        encodings, compute_outputs(_EveryToken(), inputs, TOKENIZER, None, batch_size), strict=True
    ):
        assert found.tolist() == [[index, 2 * index] for index in encoding.ids]
    several = [Input(tuple(encodings[:3]), None, 0), Input(tuple(encodings[3:]), None, 1)]
    found = compute_outputs(_FirstWord(), several, TOKENIZER, None, batch_size)
    assert [part[::2].tolist() for part in found] == [[5, 6, 7], [5]]


def test_scores_and_answers_by_hand() -> None:
    examples = [Sentence(text, label) for text, label in zip(TEXTS, ["positive", "negative"] * 2, strict=True)]
    scores, answers = evaluate(_GoodIsPositive(), TASK, TOKENIZER, examples)
    assert scores["accuracy"] == 0.5
    assert [answer["label"] for answer in answers] == ["positive", "negative", "negative", "positive"]
    assert answers[0]["probabilities"]["positive"] == pytest.approx(0.75)
    bare = [Sentence(text) for text in TEXTS]
    assert predict(_GoodIsPositive(), TASK, TOKENIZER, bare) == answers


def test_dropout_is_off() -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=8, max_position_embeddings=16, hidden_dropout_prob=0.5, **sizes)
    model = BertForSequenceClassification(BertModel(config), TASK.labels)
    encodings = TOKENIZER.encode_batch(TEXTS)
    assert np.array_equal(compute_logits(model, encodings, TOKENIZER), compute_logits(model, encodings, TOKENIZER))
    long = [Sentence("good film " * 10, "positive")]
    with pytest.raises(UserError, match="a text of 22 tokens, but the model has 16 positions"):
        evaluate(model, TASK, TOKENIZER, long)


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match=r"^no examples to score"):
        evaluate(_FirstWord(), TASK, TOKENIZER, [])
    with pytest.raises(UserError, match="is a str, not an example"):
        predict(_FirstWord(), TASK, TOKENIZER, ["good"])

    class Overflows(_GoodIsPositive):
        def forward(self, rows: Rows[Any]) -> Any:
            return super().forward(rows) / 0

    with pytest.raises(UserError, match="outputs for example 0 are NaN or infinite"):
        predict(Overflows(), TASK, TOKENIZER, [Sentence("good")])
