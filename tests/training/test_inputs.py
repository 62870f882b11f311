"""What goes into a model: batches, checks, weights of labels."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data import Sentence
from d2lbert.storage import checkpoints
from d2lbert.tasks.base import IGNORED, Input
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.pair import PairRegression
from d2lbert.tasks.tagging import Tagging
from d2lbert.text import Encoding, WordPiece
from d2lbert.training.inputs import (
    by_input,
    check_examples,
    check_finite,
    check_inputs,
    check_lengths,
    check_outputs,
    collate,
    inputs_to_predict,
    inputs_to_score,
    label_weights,
    text_batches,
    token_positions,
    weight_error,
)

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "plot", "the", "a"])
TEXTS = ["good film", "a", "bad plot the film", "good", "bad the plot", "the"]


def _encodings() -> list[Encoding]:
    return TOKENIZER.encode_batch(TEXTS)


def test_rows_hold_several_texts_or_one() -> None:
    packed, padded = collate(_encodings(), TOKENIZER), collate(_encodings(), TOKENIZER, packed=False)
    assert (packed.packed, padded.packed) == (True, False)
    assert len(padded.token_ids) == 6 > len(packed.token_ids)
    assert packed.num_tokens == padded.num_tokens == sum(len(encoding) for encoding in _encodings())


def test_tokens_are_found_text_after_text() -> None:
    for packed in (True, False):
        batch = collate(_encodings(), TOKENIZER, packed)
        found = batch.token_ids.reshape(-1)[token_positions(batch)]
        assert found.tolist() == [index for encoding in _encodings() for index in encoding.ids]


def _competing() -> list[Input]:
    """Three inputs of two texts, one and three."""
    texts = _encodings()
    return [Input(tuple(texts[:2]), None, 0), Input((texts[2],), None, 1), Input(tuple(texts[3:]), None, 2)]


@pytest.mark.parametrize("packed", [True, False])
def test_texts_of_all_inputs_come_in_batches(packed: bool) -> None:
    batches = list(text_batches(_competing(), TOKENIZER, 4, packed))
    assert [len(batch.lengths) for batch in batches] == [4, 2]
    assert [batch.packed for batch in batches] == [packed] * 2
    assert [length for batch in batches for length in batch.lengths] == [len(encoding) for encoding in _encodings()]
    assert list(text_batches([], TOKENIZER, 4)) == []


def test_outputs_of_texts_go_to_their_inputs() -> None:
    logits = [np.array([float(index)]) for index in range(6)]
    assert [found.tolist() for found in by_input(_competing(), logits)] == [[0, 1], [2], [3, 4, 5]]
    with pytest.raises(UserError, match="outputs for example 1 are NaN or infinite"):
        by_input(_competing(), [*logits[:2], np.array([math.nan]), *logits[3:]])


def test_examples_become_inputs_or_are_refused() -> None:
    task = Classification(["negative", "positive"])
    examples = [Sentence("good film"), Sentence("bad", "negative")]
    model = SimpleNamespace()
    inputs = inputs_to_predict(model, task, TOKENIZER, examples, 8)
    assert [(item.example, item.target) for item in inputs] == [(0, None), (1, 0)]
    (scored,) = inputs_to_score(model, task, TOKENIZER, examples[1:], 8)
    assert (scored.example, scored.target) == (0, 0)
    with pytest.raises(UserError, match="an example has no label"):
        inputs_to_score(model, task, TOKENIZER, [*examples[1:] * 3, examples[0]], 8)
    for make in (inputs_to_predict, inputs_to_score):
        with pytest.raises(UserError, match="'good' is a str, not an example"):
            make(model, task, TOKENIZER, ["good"], 8)
    assert inputs_to_predict(model, task, TOKENIZER, [], 8) == []
    with pytest.raises(UserError, match="no examples to score: give at least one"):
        inputs_to_score(model, task, TOKENIZER, [], 8)


@pytest.mark.filterwarnings("ignore:.*texts cut after")
def test_a_model_reads_as_many_tokens_as_in_its_training() -> None:
    task, examples = Classification(["negative", "positive"]), [Sentence("good " * 300, "positive")]
    for model, asked, length in (
        (SimpleNamespace(), None, 128),
        (SimpleNamespace(trained_length=200), None, 200),
        (SimpleNamespace(trained_length=200), 20, 20),
    ):
        for make in (inputs_to_predict, inputs_to_score):
            (item,) = make(model, task, TOKENIZER, examples, asked)
            assert len(item.encodings[0]) == length


def test_the_longest_of_all_texts_counts_and_as_many_as_positions_are_fine() -> None:
    model = SimpleNamespace(config=BertConfig(max_position_embeddings=16))
    fits, short, long = TOKENIZER.encode_batch(["good film " * 7, "good", "good film " * 7 + "a"])
    check_lengths(model, [Input((short, fits), None, 0)])
    check_lengths(model, [])
    check_lengths(object(), [Input((long,), None, 0)])  # no encoder, no limit
    with pytest.raises(UserError, match="a text of 17 tokens, but the model has 16 positions"):
        check_lengths(model, [Input((short,), None, 0), Input((short, long), None, 1)])


def test_inputs_that_would_stop_a_run_are_refused() -> None:
    model = SimpleNamespace(config=BertConfig(max_position_embeddings=16))
    (encoding,) = TOKENIZER.encode_batch(["good"])
    labelled, bare = Input((encoding,), 1, 0), Input((encoding,), None, 1)
    check_inputs(model, [labelled], [bare])
    for train, dev, complaint in (
        ([], [labelled], "no examples to train on"),
        ([labelled], [], "no examples to choose the epoch on"),
        ([labelled, bare], [labelled], "an example to train on has no label"),
    ):
        with pytest.raises(UserError, match=complaint):
            check_inputs(model, train, dev)


@pytest.mark.parametrize("wrong", ["a good film", ("a", "b"), {"text": "a"}])
def test_what_is_no_example(wrong: object) -> None:
    check_examples([Sentence("good")])
    with pytest.raises(UserError, match=f"is a {type(wrong).__name__}, not an example"):
        check_examples([Sentence("good"), wrong])


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_outputs_that_mean_nothing_name_their_example(number: float) -> None:
    inputs = [Input((), None, 4), Input((), None, 7)]
    check_outputs(inputs, [np.zeros(2), np.zeros(2)])
    with pytest.raises(UserError, match="outputs for example 7 are NaN or infinite"):
        check_outputs(inputs, [np.zeros(2), np.array([0.0, number])])


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_stops_the_run(loss: float) -> None:
    with pytest.raises(UserError, match=f"^the loss became {loss} at step 17: lower the learning rate$"):
        check_finite(loss, 17)


def test_any_other_loss_goes_on() -> None:
    for loss in (0.0, -1.0, 1e300):
        check_finite(loss, 1)


def test_the_last_good_checkpoint_is_named(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 16, lambda folder: (folder / "state").touch(), 2)
    message = rf"at step 17: lower the learning rate; the last good checkpoint is {tmp_path / 'checkpoint-00000016'}$"
    with pytest.raises(UserError, match=message):
        check_finite(math.nan, 17, tmp_path)

    assert str(weight_error("a.bias", 17)) == "a.bias became NaN or infinite at step 17: lower the learning rate"
    assert str(weight_error("a.bias", 17, tmp_path)).endswith(
        f"; the last good checkpoint is {tmp_path}/checkpoint-00000016"
    )


def test_weights_of_labels_by_hand() -> None:
    task = Classification(["negative", "positive"])
    inputs = [Input((), target, 0) for target in (1, 1, 1, 0)]
    assert label_weights(task, inputs).tolist() == pytest.approx([4 / (2 * 1), 4 / (2 * 3)])
    tags = [Input((), np.array([IGNORED, 0, 0, 1, IGNORED]), 0), Input((), np.array([0]), 1)]
    assert label_weights(Tagging(["O", "B-x"]), tags).tolist() == pytest.approx([4 / (2 * 3), 4 / (2 * 1)])
    with pytest.raises(UserError, match="balanced weighs labels, but this task has none"):
        label_weights(PairRegression(), inputs)
