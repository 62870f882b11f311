"""Extractive question answering: the answer is a span of the text (Devlin et al. 2019, sections 4.2 and 4.3).

The model reads ``[CLS] question [SEP] text [SEP]`` and gives each token two logits: that the answer starts there, and
that it ends there. The score of a span is its start logit plus its end logit. A text that is too long is cut into
overlapping windows.

Where a text may have no answer (SQuAD 2.0), [CLS] stands for the empty span.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from d2lbert import metrics
from d2lbert.data.examples import Question
from d2lbert.errors import UserError
from d2lbert.tasks.base import IGNORED, Input, Loss, Task
from d2lbert.tasks.windows import Window, cut_into_windows, most_context
from d2lbert.text import AnyEncoding, Tokenizer
from d2lbert.text.encoding import Pieces, assemble

_ADDED = 3  # [CLS] and two [SEP]
_EMPTY = "the {} {!r} holds nothing that the tokenizer keeps: give at least one word"


class Span(NamedTuple):
    """Characters ``start`` to ``end`` of the text, and the sum of the two logits."""

    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class BestSpans:
    """The best spans of one question, from the logits of all its windows.

    Fields:
        spans: best first, no two with the same words.
        null: the score of "no answer": the lowest score of [CLS] in any window, since one window with the answer is
            enough.
        total: log of the sum of exp(score) over all spans; every span is counted in one window only.
    """

    spans: tuple[Span, ...]
    null: float
    total: float

    @property
    def margin(self) -> float:
        """By how much "no answer" beats the best span."""
        return self.null - self.spans[0].score


class QuestionAnswering(Task):
    """Find the words of a text that answer a question.

    Args:
        null_threshold: the answer is empty where "no answer" beats the best span by more than this; None where every
            text has an answer (SQuAD 1.1).
        stride: pieces by which the window moves; None for half of what fits into it.
        longest_answer: in pieces.
        longest_question: in pieces; the rest is cut off.
        n_best: how many spans a prediction lists, besides "no answer".
    """

    loss = Loss.SPAN
    labels: tuple[str, ...] = ("start", "end")

    def __init__(
        self,
        null_threshold: float | None = None,
        stride: int | None = None,
        longest_answer: int = 30,
        longest_question: int = 64,
        n_best: int = 5,
    ) -> None:
        self.null_threshold = null_threshold
        self.stride = stride
        self.longest_answer = longest_answer
        self.longest_question = longest_question
        self.n_best = n_best

    @classmethod
    def of(cls, examples: Sequence[Question]) -> QuestionAnswering:
        """Return the task for the examples: it allows empty answers if one of them has no answer in its text."""
        return cls(null_threshold=0.0 if any(example.answers == () for example in examples) else None)

    def settle(self, model: Any, record: Mapping[str, float]) -> None:
        """Store in a trained model the threshold for "no answer" that was best on dev."""
        if self.null_threshold is not None:
            model.null_threshold = record["best_threshold"]

    def inputs(self, examples: Sequence[Question], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input for each window; its target is the position of the answer's first and last token.

        Where a question has several answers, the target is the first. A window that holds no part of the answer has
        [CLS] for both. A window that cuts the answer has no target: neither a part of the answer nor [CLS] is right.

        Raises:
            UserError: a question or a text holds only characters that the tokenizer drops, or ``max_length`` leaves no
                room for the text.
        """
        texts = sorted({example.context for example in examples})  # many questions are about one text
        pieces = dict(zip(texts, _pieces(tokenizer, texts, "text"), strict=True))
        questions = _pieces(tokenizer, [example.question for example in examples], "question")
        inputs, cut = [], 0
        for index, (example, question) in enumerate(zip(examples, questions, strict=True)):
            cut += len(question.ids) > self.longest_question
            truncated, text = question.first(self.longest_question), pieces[example.context]
            answer = _first_answer(example, text)
            room = max_length - _ADDED - len(truncated.ids)
            for window in cut_into_windows(len(text.ids), room, self.stride):
                encoding = assemble(truncated, text.between(*window), None, tokenizer.token_to_id)
                target = _target(example, answer, window, len(truncated.ids) + 2)
                inputs.append(Input((encoding,), target, index, window.begin))
        if cut:
            warnings.warn(f"{cut:,} questions cut after {self.longest_question} pieces", stacklevel=2)
        return inputs

    def score(
        self, examples: Sequence[Question], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return SQuAD's F1 and exact match; where empty answers are allowed, also the scores of SQuAD 2.0.

        These are the F1 of questions with an answer, the fraction of the other questions that rightly get none, and the
        best F1 with the threshold that gives it: choose the threshold on dev, measure on test.

        Raises:
            UserError: the right answers to a question are not known.
        """
        results = self.best_spans(examples, inputs, outputs)
        golds = [_golds(example) for example in examples]
        predictions = [self._text(*pair) for pair in zip(examples, results, strict=True)]
        scores = metrics.squad(golds, predictions)
        if self.null_threshold is None:
            return scores
        for name, group in (("has_answer_f1", True), ("no_answer_accuracy", False)):
            indices = [index for index, gold in enumerate(golds) if (gold != [""]) == group]
            if indices:
                group_scores = metrics.squad(
                    [golds[index] for index in indices], [predictions[index] for index in indices]
                )
                scores[name] = group_scores["f1"]
        span_texts = [_best_text(*pair) for pair in zip(examples, results, strict=True)]
        span_f1 = [metrics.squad_f1(text, gold) for text, gold in zip(span_texts, golds, strict=True)]
        null_f1 = [float(gold == [""]) for gold in golds]
        best = metrics.best_threshold([result.margin for result in results], span_f1, null_f1)
        return {**scores, "best_f1": best[1], "best_threshold": best[0]}

    def predictions(
        self, examples: Sequence[Question], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return the answer to each question, its probability, and the best spans with their probabilities.

        Probabilities are the softmax over all spans of the text, and over "no answer" where that is allowed. Spans of
        WordPiece are widened to whole words. An empty answer means "no answer"; ``start`` is then -1.
        """
        results = self.best_spans(examples, inputs, outputs)
        return [self._describe(*pair) for pair in zip(examples, results, strict=True)]

    def best_spans(
        self, examples: Sequence[Question], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[BestSpans]:
        """Return the best spans of each question, over all of its windows.

        A span is taken only from the window in which its first token has the most context: near the edge of a window
        the model sees only one side, and the logits of two windows for one span cannot be compared. So every span is
        scored once.
        """
        windows: list[list[tuple[Input, np.ndarray]]] = [[] for _ in examples]
        for model_input, output in zip(inputs, outputs, strict=True):
            windows[model_input.example].append((model_input, output))
        return [
            self._merge_windows(example, *zip(*group, strict=True))
            for example, group in zip(examples, windows, strict=True)
        ]

    def _merge_windows(self, example: Question, inputs: Sequence[Input], outputs: Sequence[np.ndarray]) -> BestSpans:
        """Return the best spans of one question, from the logits (length, 2) of its windows."""
        sizes = [len(part.encodings[0].segment_ids) - _text_start(part) - 1 for part in inputs]
        masks = most_context([Window(part.begin, part.begin + size) for part, size in zip(inputs, sizes, strict=True)])
        spans: list[Span] = []
        totals = []
        for part, output, owned in zip(inputs, outputs, masks, strict=True):
            scores = self.span_scores(output[_text_start(part) : -1], owned)  # (C, C)
            totals.append(_log_sum_exp(scores))
            spans += self._best_of_window(example.context, part, scores)
        spans.sort(key=lambda span: -span.score)
        null = min(float(output[0].sum()) for output in outputs)
        return BestSpans(self._distinct(example, spans), null, _log_sum_exp(np.array(totals)))

    def span_scores(self, logits: np.ndarray, owned: np.ndarray) -> np.ndarray:
        """Return the score of each span (first, last) of a window with C pieces; -inf where there is no such span.

        Args:
            logits: (C, 2), start and end of each piece.
            owned: (C,) booleans: the pieces at which spans of this window may start; see :func:`most_context`.

        Returns:
            (C, C): row first, column last.
        """
        positions = np.arange(len(logits))
        length = positions[None, :] - positions[:, None] + 1
        allowed = (length >= 1) & (length <= self.longest_answer) & owned[:, None]
        return np.where(allowed, logits[:, None, 0] + logits[None, :, 1], -np.inf)

    def _best_of_window(self, context: str, model_input: Input, scores: np.ndarray) -> list[Span]:
        """Return the spans with the highest scores: more than a prediction lists, since some have the same words."""
        count = min(4 * self.n_best, scores.size)
        encoding, shift, spans = model_input.encodings[0], _text_start(model_input), []
        for flat_index in np.argpartition(scores.ravel(), -count)[-count:]:
            first, last = divmod(int(flat_index), len(scores))
            if np.isfinite(scores[first, last]):
                begin, end = _whole_words(encoding, first + shift, last + shift)
                start, stop = encoding.offsets[begin][0], _after_marks(context, encoding.offsets[end][1])
                spans.append(Span(start, stop, float(scores[first, last])))
        return spans

    def _distinct(self, example: Question, spans: Sequence[Span]) -> tuple[Span, ...]:
        """Keep the best span of each wording, and of these the ``n_best``."""
        kept: dict[str, Span] = {}
        for span in spans:
            kept.setdefault(example.context[span.start : span.end], span)
        return tuple(kept.values())[: self.n_best]

    def _is_null(self, result: BestSpans) -> bool:
        return self.null_threshold is not None and result.margin > self.null_threshold

    def _text(self, example: Question, result: BestSpans) -> str:
        return "" if self._is_null(result) else _best_text(example, result)

    def _describe(self, example: Question, result: BestSpans) -> dict[str, Any]:
        """Return the prediction for one question, readable and ready for JSON."""
        total = result.total if self.null_threshold is None else float(np.logaddexp(result.total, result.null))
        n_best: list[dict[str, Any]] = [
            {
                "answer": example.context[span.start : span.end],
                "start": span.start,
                "probability": float(np.exp(span.score - total)),
            }
            for span in result.spans
        ]
        if self.null_threshold is None:
            return {**n_best[0], "n_best": n_best}
        empty = {"answer": "", "start": -1, "probability": float(np.exp(result.null - total))}
        prediction = empty if self._is_null(result) else n_best[0]
        n_best = sorted([*n_best, empty], key=lambda entry: -entry["probability"])
        return {**prediction, "n_best": n_best, "null_margin": result.margin}


def _pieces(tokenizer: Tokenizer, texts: Sequence[str], what: str) -> list[Pieces]:
    """Return the pieces of each text; a text without any is an error."""
    pieces = []
    for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True):
        if len(encoding) == 2:
            raise UserError(_EMPTY.format(what, text[:40]))
        pieces.append(Pieces(encoding.ids[1:-1], encoding.tokens[1:-1], encoding.offsets[1:-1]))
    return pieces


def _first_answer(example: Question, text: Pieces) -> Window | None:
    """Return the pieces of the first answer; None where there is no answer, or where the tokenizer drops it."""
    if not example.answers:
        return None
    begin, end = example.answers[0].start, example.answers[0].start + len(example.answers[0].text)
    indices = [index for index, (left, right) in enumerate(text.offsets) if left < end and right > begin]
    return Window(indices[0], indices[-1] + 1) if indices else None


def _target(example: Question, answer: Window | None, window: Window, shift: int) -> np.ndarray | None:
    """Return the positions of the answer's first and last token, (2,).

    Args:
        answer, window: in pieces of the text.
        shift: the position of the window's first piece in its encoding.
    """
    if example.answers is None:
        return None
    if example.answers and answer is None:
        return np.array([IGNORED, IGNORED])
    if answer is None or answer.end <= window.begin or answer.begin >= window.end:
        return np.array([0, 0])
    if answer.begin < window.begin or answer.end > window.end:
        return np.array([IGNORED, IGNORED])
    return np.array([answer.begin, answer.end - 1]) - window.begin + shift


def _text_start(model_input: Input) -> int:
    """Return the position of the first token of the text: after [CLS], the question and [SEP]."""
    return model_input.encodings[0].segment_ids.index(1)


def _whole_words(encoding: AnyEncoding, first: int, last: int) -> tuple[int, int]:
    """Widen a span to whole words: nobody answers with half of one. So does the released code of BERT."""
    while encoding.tokens[first].startswith("##") and not encoding.special[first - 1]:
        first -= 1
    while encoding.tokens[last + 1].startswith("##"):  # the [SEP] at the end does not
        last += 1
    return first, last


def _after_marks(text: str, end: int) -> int:
    """Move the end of a span behind the accents and vowel signs of its last letter: tokenizers drop some."""
    while end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end += 1
    return end


def _golds(example: Question) -> list[str]:
    """Return the right answers: those of several people, or the empty text where there is no answer."""
    if example.answers is None:
        raise UserError(f"question {example.id or example.question[:40]!r} has no answers: it cannot be measured")
    return [answer.text for answer in example.answers] or [""]


def _best_text(example: Question, result: BestSpans) -> str:
    return example.context[result.spans[0].start : result.spans[0].end]


def _log_sum_exp(scores: np.ndarray) -> float:
    highest = scores.max()
    return float(highest + np.log(np.exp(scores - highest).sum())) if np.isfinite(highest) else -np.inf
