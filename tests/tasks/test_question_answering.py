"""Question answering: windows that lose no answer, one score for every span, empty answers, words as they were."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.data import Answer, Question
from d2lbert.tasks.base import IGNORED, Input, Loss
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.tasks.windows import Window, most_context
from d2lbert.text import WordPiece

WORDS = ["where", "is", "am", "##lc", "held", "in", "seattle", ".", "?", "a", "b", "c", "d", "e", "f", "g"]
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
TEXT = "AMLC is held  in Seattle."
DEMO = Question("Where is AMLC held?", TEXT, (Answer("Seattle", 17), Answer("in Seattle", 14)))
LETTERS = "a b c d e f g"


def _logits(inputs: list[Input], size: float = 9.0) -> list[np.ndarray]:
    """Logits that are sure of the targets, and of nothing where there is none."""
    outputs = []
    for model_input in inputs:
        output = np.zeros((len(model_input.encodings[0]), 2))
        if model_input.target[0] != IGNORED:
            output[model_input.target, [0, 1]] = size
        outputs.append(output)
    return outputs


def test_the_question_comes_first_and_the_target_is_the_first_answer() -> None:
    (model_input,) = QuestionAnswering().inputs([DEMO], TOKENIZER, 32)
    encoding = model_input.encodings[0]
    assert " ".join(encoding.tokens) == "[CLS] where is am ##lc held ? [SEP] am ##lc is held in seattle . [SEP]"
    assert encoding.segment_ids == [0] * 8 + [1] * 8
    assert model_input.target.tolist() == [13, 13]
    assert TEXT[slice(*encoding.offsets[13])] == "Seattle"
    assert QuestionAnswering.loss is Loss.SPAN


def test_the_answer_is_cut_from_the_text_with_its_case_and_spaces() -> None:
    example = Question("where ?", TEXT, (Answer("held  in Seattle", 8),))
    task = QuestionAnswering()
    inputs = task.inputs([example], TOKENIZER, 32)
    (prediction,) = task.predictions([example], inputs, _logits(inputs))
    assert (prediction["answer"], prediction["start"]) == ("held  in Seattle", 8)
    assert task.score([example], inputs, _logits(inputs)) == {"f1": 1.0, "exact_match": 1.0}


def test_accents_of_the_last_letter_belong_to_the_answer() -> None:
    """In decomposed text they are characters of their own, which an uncased tokenizer drops."""
    tokenizer = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "where", "cafe", "jose", "."])
    text = unicodedata.normalize("NFD", "Café José.")
    answer = unicodedata.normalize("NFD", "José")
    example = Question("where", text, (Answer(answer, text.index("J")),))
    task = QuestionAnswering()
    inputs = task.inputs([example], tokenizer, 32)
    assert task.predictions([example], inputs, _logits(inputs))[0]["answer"] == answer


def test_an_answer_counts_where_it_is_whole() -> None:
    example = Question("?", LETTERS, (Answer("c d", 4),))
    inputs = QuestionAnswering(stride=2).inputs([example], TOKENIZER, 7)  # room for three pieces
    texts = [window.encodings[0].tokens[3:-1] for window in inputs]
    assert texts == [["a", "b", "c"], ["c", "d", "e"], ["e", "f", "g"]]
    assert [window.target.tolist() for window in inputs] == [[IGNORED, IGNORED], [3, 4], [0, 0]]
    assert [window.begin for window in inputs] == [0, 2, 4]


@given(st.integers(0, 4), st.integers(1, 3), st.integers(5, 12))
def test_an_answer_is_found_in_whichever_window_it_is(first: int, count: int, max_length: int) -> None:
    letters = LETTERS.split()[first : first + count]
    example = Question("?", LETTERS, (Answer(" ".join(letters), 2 * first),))
    task = QuestionAnswering(stride=1)
    inputs = task.inputs([example], TOKENIZER, max_length)
    prediction = task.predictions([example], inputs, _logits(inputs))[0]
    room = max_length - 4
    assert any(window.target[0] > 0 for window in inputs) == (count <= room)
    if count <= (room + 1) // 2:  # the window that owns the first piece has as many after it
        assert prediction["answer"] == " ".join(letters)


@given(st.integers(5, 12), st.integers(0, 2**32 - 1))
def test_probabilities_are_those_of_all_spans(max_length: int, seed: int) -> None:
    """Counted span by span, each in the window that owns its first piece."""
    example = Question("?", LETTERS)
    task = QuestionAnswering(null_threshold=0.0, longest_answer=2, n_best=100)
    inputs = task.inputs([example], TOKENIZER, max_length)
    assert inputs[0].target is None
    generator = np.random.default_rng(seed)
    outputs = [generator.normal(size=(len(window.encodings[0]), 2)) for window in inputs]
    (prediction,) = task.predictions([example], inputs, outputs)
    windows = [Window(window.begin, window.begin + len(window.encodings[0]) - 4) for window in inputs]
    scores = {"": min(output[0].sum() for output in outputs)}
    for window, owned, output in zip(windows, most_context(windows), outputs, strict=True):
        for first in range(window.begin, window.end):
            for last in range(first, min(first + 2, window.end)):
                if owned[first - window.begin]:
                    text = " ".join(LETTERS.split()[first : last + 1])
                    scores[text] = output[first - window.begin + 3, 0] + output[last - window.begin + 3, 1]
    total = np.log(sum(np.exp(score) for score in scores.values()))
    expected = {text: np.exp(score - total) for text, score in scores.items()}
    assert {entry["answer"]: entry["probability"] for entry in prediction["n_best"]} == pytest.approx(expected)
    assert sum(entry["probability"] for entry in prediction["n_best"]) == pytest.approx(1)
    assert prediction["answer"] == max(expected, key=lambda text: expected[text])


def test_spans_end_after_they_start_and_are_short() -> None:
    example, task = Question("?", LETTERS), QuestionAnswering(longest_answer=3)
    (model_input,) = inputs = task.inputs([example], TOKENIZER, 20)
    output = np.zeros((len(model_input.encodings[0]), 2))
    output[5, 0], output[4, 1], output[8, 1] = 9.0, 8.0, 7.0  # starts at "c"; ends before it, or four later
    assert task.predictions([example], inputs, [output])[0]["answer"].startswith("c")
    assert len(task.predictions([example], inputs, [output])[0]["answer"].split()) <= 3


def test_a_wording_is_listed_once() -> None:
    example, task = Question("?", "a b a"), QuestionAnswering()
    (model_input,) = inputs = task.inputs([example], TOKENIZER, 20)
    output = np.zeros((len(model_input.encodings[0]), 2))
    output[[3, 5]] = [[3.0, 3.0], [4.0, 4.0]]
    (prediction,) = task.predictions([example], inputs, [output])
    assert (prediction["answer"], prediction["start"]) == ("a", 4)
    assert [entry["answer"] for entry in prediction["n_best"]].count("a") == 1


@pytest.mark.parametrize(("first", "last"), [(8, 8), (9, 9), (8, 9)])
def test_half_a_word_is_widened_to_the_whole(first: int, last: int) -> None:
    task = QuestionAnswering()
    (model_input,) = inputs = task.inputs([DEMO], TOKENIZER, 32)
    assert model_input.encodings[0].tokens[8:10] == ["am", "##lc"]
    output = np.zeros((len(model_input.encodings[0]), 2))
    output[first, 0] = output[last, 1] = 9.0
    (prediction,) = task.predictions([DEMO], inputs, [output])
    assert (prediction["answer"], prediction["start"]) == ("AMLC", 0)


def test_a_word_cut_by_a_window_ends_with_the_window() -> None:
    example, task = Question("?", "amlc amlc"), QuestionAnswering(stride=1)
    inputs = task.inputs([example], TOKENIZER, 7)  # room for three of four pieces
    assert [window.encodings[0].tokens[3:-1] for window in inputs] == [["am", "##lc", "am"], ["##lc", "am", "##lc"]]
    outputs = [np.zeros((len(window.encodings[0]), 2)) for window in inputs]
    outputs[1][4, 0], outputs[1][5, 1] = 9.0, 9.0
    assert task.predictions([example], inputs, outputs)[0]["answer"] == "amlc"


IMPOSSIBLE = Question("why ?", TEXT, ())


def test_no_answer_where_it_beats_the_best_span_by_the_threshold() -> None:
    (model_input,) = inputs = QuestionAnswering.of([DEMO, IMPOSSIBLE]).inputs([IMPOSSIBLE], TOKENIZER, 32)
    assert model_input.target.tolist() == [0, 0]
    output = np.zeros((len(model_input.encodings[0]), 2))
    output[0] = 1.5  # "no answer" beats every span by 3
    for threshold, empty in ((2.9, True), (3.1, False), (None, False)):
        (prediction,) = QuestionAnswering(threshold).predictions([IMPOSSIBLE], inputs, [output])
        assert (prediction["answer"] == "") == empty
    (prediction,) = QuestionAnswering(2.9).predictions([IMPOSSIBLE], inputs, [output])
    assert (prediction["start"], prediction["null_margin"]) == (-1, 3.0)
    assert prediction["n_best"][0] == {key: prediction[key] for key in ("answer", "start", "probability")}


def test_one_window_with_an_answer_is_enough() -> None:
    task = QuestionAnswering(null_threshold=0.0)
    example = Question("?", LETTERS, (Answer("g", 12),))
    inputs = task.inputs([example], TOKENIZER, 8)
    assert len(inputs) > 1
    (prediction,) = task.predictions([example], inputs, _logits(inputs))
    assert prediction["answer"] == "g"


def test_scores_of_squad_2() -> None:
    task = QuestionAnswering.of([DEMO, IMPOSSIBLE])
    assert task.null_threshold == 0.0
    assert QuestionAnswering.of([DEMO]).null_threshold is None
    inputs = task.inputs([DEMO, IMPOSSIBLE], TOKENIZER, 32)
    outputs = _logits(inputs)
    assert task.score([DEMO, IMPOSSIBLE], inputs, outputs)["f1"] == 1.0
    outputs[0][0] = 10.0  # sure of nothing: now DEMO is left without an answer
    scores = task.score([DEMO, IMPOSSIBLE], inputs, outputs)
    assert (scores["f1"], scores["exact_match"]) == (0.5, 0.5)
    assert (scores["has_answer_f1"], scores["no_answer_accuracy"]) == (0.0, 1.0)
    # With the threshold between DEMO's margin of 2 and the other's of 18, both are right.
    assert (scores["best_f1"], scores["best_threshold"]) == (1.0, 10.0)
    tuned = QuestionAnswering(scores["best_threshold"])
    assert tuned.score([DEMO, IMPOSSIBLE], inputs, outputs)["f1"] == 1.0


def test_a_long_question_is_cut_and_counted() -> None:
    task = QuestionAnswering(longest_question=2)
    with pytest.warns(UserWarning, match="1 questions cut after 2 pieces"):
        (model_input,) = task.inputs([DEMO], TOKENIZER, 32)
    assert model_input.encodings[0].tokens[:4] == ["[CLS]", "where", "is", "[SEP]"]


@pytest.mark.parametrize(
    ("example", "max_length", "message"),
    [
        (Question("\u200b", "a b"), 20, "the question '\\\\u200b' holds nothing"),
        (Question("a", "\u200b"), 20, "the text '\\\\u200b' holds nothing"),
        (Question("a b c d e", "a b"), 8, "no room is left for the text"),
    ],
)
def test_texts_that_cannot_be_asked(example: Question, max_length: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        QuestionAnswering().inputs([example], TOKENIZER, max_length)


def test_an_answer_that_the_tokenizer_drops_trains_nothing() -> None:
    example = Question("?", "a \u200b b", (Answer("\u200b", 2),))
    (model_input,) = QuestionAnswering().inputs([example], TOKENIZER, 20)
    assert model_input.target.tolist() == [IGNORED, IGNORED]


def test_questions_without_answers_cannot_be_measured() -> None:
    task = QuestionAnswering()
    inputs = task.inputs([Question("where ?", TEXT)], TOKENIZER, 32)
    with pytest.raises(UserError, match=r"question 'where \?' has no answers: it cannot be measured"):
        task.score([Question("where ?", TEXT)], inputs, [np.zeros((len(inputs[0].encodings[0]), 2))])
