"""What a model says of examples: in their order, whatever the batch, with several texts of an input side by side."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data import Sentence
from d2lbert.outputs import Rows
from d2lbert.tasks.base import Input
from d2lbert.tasks.classification import Classification
from d2lbert.text import Encoding, WordPiece
from d2lbert.torch.bert import BertModel, first_positions
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.training.evaluation import (
    compute_logits,
    compute_outputs,
    evaluate,
    predict,
)

WORDS = ["good", "fine", "bad", "poor", "film", "plot", "the", "a"]
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
TASK = Classification(["negative", "positive"])
GOOD, FINE, BAD, POOR, FILM, PLOT, THE, A = range(5, 13)
TEXTS = ["good film", "a", "bad plot the film", "fine", "poor the plot", "the"]
FIRST_WORDS = [GOOD, A, BAD, FINE, POOR, THE]


class FirstWord(nn.Module):
    """Its logits of a text are the id of the first word, and minus that."""

    def forward(self, rows: Rows[torch.Tensor]) -> torch.Tensor:
        word = rows.token_ids.flatten()[first_positions(rows) + 1].float()  # (N,)
        return torch.stack([word, -word], dim=1)


class EveryToken(nn.Module):
    """Its logits of a token are its id, and the double of that."""

    def forward(self, rows: Rows[torch.Tensor]) -> torch.Tensor:
        return torch.stack([rows.token_ids, 2 * rows.token_ids], dim=2).bfloat16()


class GoodIsPositive(nn.Module):
    """Its logits say positive with probability 3/4 where a text begins with "good", else negative."""

    def forward(self, rows: Rows[torch.Tensor]) -> torch.Tensor:
        good = rows.token_ids.flatten()[first_positions(rows) + 1] == GOOD
        return torch.stack([~good, good], dim=1).float() * np.log(3)


def _encodings() -> list[Encoding]:
    return TOKENIZER.encode_batch(TEXTS)


def _small_encoder() -> BertModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(TOKENIZER.vocab), max_position_embeddings=16, initializer_range=0.5, **sizes)
    return BertModel(config)


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_logits_of_texts_come_in_their_order(batch_size: int) -> None:
    logits = compute_logits(FirstWord(), _encodings(), TOKENIZER, batch_size=batch_size)
    assert logits.tolist() == [[word, -word] for word in FIRST_WORDS]


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_logits_of_tokens_come_text_by_text(batch_size: int) -> None:
    inputs = [Input((encoding,), None, place) for place, encoding in enumerate(_encodings())]
    outputs = compute_outputs(EveryToken(), inputs, TOKENIZER, batch_size=batch_size)
    assert [output[:, 0].tolist() for output in outputs] == [encoding.ids for encoding in _encodings()]
    assert all((output[:, 1] == 2 * output[:, 0]).all() for output in outputs)
    assert {output.dtype for output in outputs} == {np.dtype(np.float32)}


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_several_texts_of_an_input_stay_together(batch_size: int) -> None:
    """Even where a batch ends between them."""
    encodings = _encodings()
    inputs = [
        Input(tuple(encodings[:3]), None, 0),
        Input((encodings[3],), None, 1),
        Input(tuple(encodings[4:]), None, 2),
    ]
    outputs = compute_outputs(FirstWord(), inputs, TOKENIZER, batch_size=batch_size)
    assert [output[::2].tolist() for output in outputs] == [[GOOD, A, BAD], [FINE], [POOR, THE]]
    assert [output[1::2].tolist() for output in outputs] == [[-GOOD, -A, -BAD], [-FINE], [-POOR, -THE]]


def test_a_real_encoder_says_the_same_in_any_batch() -> None:
    model = BertForSequenceClassification(_small_encoder(), TASK.labels)
    one = compute_logits(model, _encodings(), TOKENIZER, batch_size=1)
    many = compute_logits(model, _encodings(), TOKENIZER, batch_size=4)
    assert np.abs(one - one[0]).max() > 1e-2
    assert np.abs(one - many).max() < 1e-5


def test_dropout_is_off_and_nothing_is_kept_for_a_gradient() -> None:
    class Looks(FirstWord):
        seen: tuple[bool, bool] | None = None

        def forward(self, rows: Rows[torch.Tensor]) -> torch.Tensor:
            self.seen = self.training, torch.is_grad_enabled()
            return super().forward(rows)

    model = Looks().train()
    compute_logits(model, _encodings(), TOKENIZER)
    assert model.seen == (False, False)


def test_scores_and_answers_by_hand() -> None:
    examples = [
        Sentence("good film", "positive"),
        Sentence("good", "positive"),
        Sentence("bad plot the film", "negative"),
        Sentence("fine", "positive"),
    ]
    scores, answers = evaluate(GoodIsPositive(), TASK, TOKENIZER, examples)
    assert scores["accuracy"] == 0.75
    assert [answer["label"] for answer in answers] == ["positive", "positive", "negative", "negative"]
    assert answers == predict(GoodIsPositive(), TASK, TOKENIZER, [Sentence(one.text) for one in examples])
    assert list(answers[0]["probabilities"].values()) == pytest.approx([0.25, 0.75])


def test_nothing_to_score_and_nothing_to_predict() -> None:
    with pytest.raises(UserError, match=r"^no examples to score: give at least one$"):
        evaluate(FirstWord(), TASK, TOKENIZER, [])
    assert predict(FirstWord(), TASK, TOKENIZER, []) == []


def test_a_package_that_the_scores_need_is_missed_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    model = FirstWord()
    model.register_forward_hook(lambda *_: pytest.fail("it has computed"))
    with pytest.raises(UserError, match=r"^scores need scikit-learn: run pip install 'd2lbert\[eval\]'$"):
        evaluate(model, TASK, TOKENIZER, [Sentence("good film", "positive")])


@pytest.mark.parametrize("wrong", ["a good film", ("a", "b"), {"text": "a"}])
def test_what_is_no_example_is_one_line(wrong: object) -> None:
    kind = type(wrong).__name__
    message = rf"is a {kind}, not an example: write one of d2lbert\.data, such as Sentence\(text\)"
    for use in (predict, evaluate):
        with pytest.raises(UserError, match=message):
            use(FirstWord(), TASK, TOKENIZER, [Sentence("good"), wrong])


def test_a_text_longer_than_the_positions_is_one_line_unless_it_is_cut() -> None:
    model, long = (
        BertForSequenceClassification(_small_encoder(), TASK.labels),
        [Sentence("good film " * 10, "positive")],
    )
    message = "^a text of 22 tokens, but the model has 16 positions: give a smaller max_length$"
    with pytest.raises(UserError, match=message):
        evaluate(model, TASK, TOKENIZER, long)
    with pytest.raises(UserError, match=message):
        predict(model, TASK, TOKENIZER, long)
    with pytest.warns(UserWarning, match="1 of 1 texts cut after 16 tokens"):
        assert len(predict(model, TASK, TOKENIZER, long, max_length=16)) == 1


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_neither_scored_nor_answered(number: float) -> None:
    class Overflows(GoodIsPositive):
        def forward(self, rows: Rows[torch.Tensor]) -> torch.Tensor:
            logits = super().forward(rows)
            film = rows.token_ids.flatten()[first_positions(rows) + 1] == FILM
            return logits.masked_fill(film[:, None] & torch.tensor([False, True]), number)

    examples = [Sentence(text, "positive") for text in ("good", "bad", "film", "film")]
    for run in (evaluate, predict):
        run(Overflows(), TASK, TOKENIZER, examples[:2])
        with pytest.raises(UserError, match=r"^the model's outputs for example 2 are NaN or infinite .* lower"):
            run(Overflows(), TASK, TOKENIZER, examples)
