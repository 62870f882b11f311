"""Extractive question answering: the answer is words of the text (Devlin et al. 2019, sections 4.2 and 4.3).

The model reads ``[CLS] question [SEP] text [SEP]`` and gives each token two logits: that the answer starts there, and
that it ends there. A span's score is the sum of its two. A text that is too long comes in windows that overlap.

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
from d2lbert.text import Encoding, Tokenizer
from d2lbert.text.encoding import Pieces, assemble

_ADDED = 3  # [CLS] and two [SEP]
_EMPTY = "the {} {!r} holds nothing that the tokenizer keeps: give at least one word"


class Span(NamedTuple):
    """Characters ``start`` to ``end`` of the text, and the sum of the two logits."""

    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """What the logits of all windows of one question say.

    Fields:
        spans: the best ones, best first, no two with the same words.
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
        stride: how far a window moves, in pieces; None for half of what fits into it.
        longest_answer: in pieces.
        longest_question: in pieces; the rest is cut off.
        n_best: how many spans an answer lists, beside "no answer".
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
        """Return the task of the examples: with empty answers if one of them has no answer in its text."""
        return cls(null_threshold=0.0 if any(example.answers == () for example in examples) else None)

    def settle(self, model: Any, record: Mapping[str, float]) -> None:
        """Give a trained model the threshold for "no answer" that was best on dev."""
        if self.null_threshold is not None:
            model.null_threshold = record["best_threshold"]

    def inputs(self, examples: Sequence[Question], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input a window, with the first answer as target: the places of its first and its last token.

        A window without any of the answer has [CLS] for both. One that cuts the answer is told nothing: its place would
        be wrong and [CLS] would be wrong.

        Raises:
            UserError: nothing of a question or a text is left, because it holds only signs that the tokenizer drops, or
                ``max_length`` leaves no room for the text.
        """
        texts = sorted({example.context for example in examples})  # many questions are about one text
        pieces = dict(zip(texts, _pieces(tokenizer, texts, "text"), strict=True))
        questions = _pieces(tokenizer, [example.question for example in examples], "question")
        inputs, cut = [], 0
        for place, (example, question) in enumerate(zip(examples, questions, strict=True)):
            cut += len(question.ids) > self.longest_question
            asked, text = question.first(self.longest_question), pieces[example.context]
            answer = _first_answer(example, text)
            room = max_length - _ADDED - len(asked.ids)
            for window in cut_into_windows(len(text.ids), room, self.stride):
                encoding = assemble(asked, text.between(*window), None, tokenizer.token_to_id)
                target = _target(example, answer, window, len(asked.ids) + 2)
                inputs.append(Input((encoding,), target, place, window.begin))
        if cut:
            warnings.warn(f"{cut:,} questions cut after {self.longest_question} pieces", stacklevel=2)
        return inputs

    def score(
        self, examples: Sequence[Question], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return SQuAD's F1 and exact match; where empty answers are allowed, also what SQuAD 2.0 asks for.

        That is the F1 of questions with an answer, the share of the others that were left without one, and the best F1
        with the threshold that gives it: choose the threshold on dev, measure on test.
        """
        found = self.find(examples, inputs, outputs)
        golds = [_golds(example) for example in examples]
        given = [self._text(*both) for both in zip(examples, found, strict=True)]
        scores = metrics.squad(golds, given)
        if self.null_threshold is None:
            return scores
        for name, group in (("has_answer_f1", True), ("no_answer_accuracy", False)):
            chosen = [place for place, gold in enumerate(golds) if (gold != [""]) == group]
            if chosen:
                some = metrics.squad([golds[place] for place in chosen], [given[place] for place in chosen])
                scores[name] = some["f1"]
        spans = [_best_text(*both) for both in zip(examples, found, strict=True)]
        span_f1 = [metrics.squad_f1(span, gold) for span, gold in zip(spans, golds, strict=True)]
        null_f1 = [float(gold == [""]) for gold in golds]
        best = metrics.best_threshold([one.margin for one in found], span_f1, null_f1)
        return {**scores, "best_f1": best[1], "best_threshold": best[0]}

    def answers(
        self, examples: Sequence[Question], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return the answer to each question, its probability, and the best spans with theirs.

        Probabilities are the softmax over all spans of the text, and over "no answer" where that is allowed. Spans of
        WordPiece are widened to whole words. An empty answer means "no answer"; ``start`` is then -1.
        """
        found = self.find(examples, inputs, outputs)
        return [self._describe(*both) for both in zip(examples, found, strict=True)]

    def find(self, examples: Sequence[Question], inputs: Sequence[Input], outputs: Sequence[np.ndarray]) -> list[Found]:
        """Put the windows of each question together.

        A span is taken from the window in which its first token has the most context, and from no other: near a
        window's edge the model sees only one side, and logits of two windows for one span cannot be compared. So every
        span is scored once.
        """
        windows: list[list[tuple[Input, np.ndarray]]] = [[] for _ in examples]
        for one, output in zip(inputs, outputs, strict=True):
            windows[one.example].append((one, output))
        return [
            self._find(example, *zip(*parts, strict=True)) for example, parts in zip(examples, windows, strict=True)
        ]

    def _find(self, example: Question, inputs: Sequence[Input], outputs: Sequence[np.ndarray]) -> Found:
        """Find the spans of one question in the logits (length, 2) of its windows."""
        sizes = [len(one.encodings[0].segment_ids) - _first_of_text(one) - 1 for one in inputs]
        owned = most_context([Window(one.begin, one.begin + size) for one, size in zip(inputs, sizes, strict=True)])
        spans: list[Span] = []
        totals = []
        for one, output, mine in zip(inputs, outputs, owned, strict=True):
            scores = self.span_scores(output[_first_of_text(one) : -1], mine)  # (C, C)
            totals.append(_log_sum_exp(scores))
            spans += self._best_of_window(example.context, one, scores)
        spans.sort(key=lambda span: -span.score)
        null = min(float(output[0].sum()) for output in outputs)
        return Found(self._distinct(example, spans), null, _log_sum_exp(np.array(totals)))

    def span_scores(self, logits: np.ndarray, mine: np.ndarray) -> np.ndarray:
        """Return the score of each span (first, last), (C, C) for the C pieces of a window; -inf for no span."""
        places = np.arange(len(logits))
        length = places[None, :] - places[:, None] + 1
        allowed = (length >= 1) & (length <= self.longest_answer) & mine[:, None]
        return np.where(allowed, logits[:, None, 0] + logits[None, :, 1], -np.inf)

    def _best_of_window(self, context: str, one: Input, scores: np.ndarray) -> list[Span]:
        """Return the spans with the highest scores: more than are listed, since some have the same words."""
        count = min(4 * self.n_best, scores.size)
        encoding, shift, spans = one.encodings[0], _first_of_text(one), []
        for place in np.argpartition(scores.ravel(), -count)[-count:]:
            first, last = divmod(int(place), len(scores))
            if np.isfinite(scores[first, last]):
                begin, end = _whole_words(encoding, first + shift, last + shift)
                start, stop = encoding.offsets[begin][0], _after_marks(context, encoding.offsets[end][1])
                spans.append(Span(start, stop, float(scores[first, last])))
        return spans

    def _distinct(self, example: Question, spans: Sequence[Span]) -> tuple[Span, ...]:
        """Keep the best span of each wording, as many as are listed."""
        kept: dict[str, Span] = {}
        for span in spans:
            kept.setdefault(example.context[span.start : span.end], span)
        return tuple(kept.values())[: self.n_best]

    def _is_null(self, found: Found) -> bool:
        return self.null_threshold is not None and found.margin > self.null_threshold

    def _text(self, example: Question, found: Found) -> str:
        return "" if self._is_null(found) else _best_text(example, found)

    def _describe(self, example: Question, found: Found) -> dict[str, Any]:
        """Return one answer for a reader and for JSON."""
        total = found.total if self.null_threshold is None else float(np.logaddexp(found.total, found.null))
        listed: list[dict[str, Any]] = [
            {
                "answer": example.context[span.start : span.end],
                "start": span.start,
                "probability": float(np.exp(span.score - total)),
            }
            for span in found.spans
        ]
        if self.null_threshold is None:
            return {**listed[0], "n_best": listed}
        empty = {"answer": "", "start": -1, "probability": float(np.exp(found.null - total))}
        chosen = empty if self._is_null(found) else listed[0]
        listed = sorted([*listed, empty], key=lambda one: -one["probability"])
        return {**chosen, "n_best": listed, "null_margin": found.margin}


def _pieces(tokenizer: Tokenizer, texts: Sequence[str], what: str) -> list[Pieces]:
    """Return the pieces of each text; refuse one of which nothing is left."""
    found = []
    for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True):
        if len(encoding) == 2:
            raise UserError(_EMPTY.format(what, text[:40]))
        found.append(Pieces(encoding.ids[1:-1], encoding.tokens[1:-1], encoding.offsets[1:-1]))
    return found


def _first_answer(example: Question, text: Pieces) -> Window | None:
    """Return the pieces of the first answer; None where there is none, or where the tokenizer drops it."""
    if not example.answers:
        return None
    begin, end = example.answers[0].start, example.answers[0].start + len(example.answers[0].text)
    places = [place for place, (left, right) in enumerate(text.offsets) if left < end and right > begin]
    return Window(places[0], places[-1] + 1) if places else None


def _target(example: Question, answer: Window | None, window: Window, shift: int) -> np.ndarray | None:
    """Return the places of the answer's first and last token in a window, (2,); its first piece is at ``shift``."""
    if example.answers is None:
        return None
    if example.answers and answer is None:
        return np.array([IGNORED, IGNORED])
    if answer is None or answer.end <= window.begin or answer.begin >= window.end:
        return np.array([0, 0])
    if answer.begin < window.begin or answer.end > window.end:
        return np.array([IGNORED, IGNORED])
    return np.array([answer.begin, answer.end - 1]) - window.begin + shift


def _first_of_text(one: Input) -> int:
    """Return the place of the first token of the text: after [CLS], the question and [SEP]."""
    return one.encodings[0].segment_ids.index(1)


def _whole_words(encoding: Encoding, first: int, last: int) -> tuple[int, int]:
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
    """Return what is right: the words of several people, or the empty text where there is no answer."""
    if example.answers is None:
        raise UserError(f"question {example.id or example.question[:40]!r} has no answers: it cannot be measured")
    return [answer.text for answer in example.answers] or [""]


def _best_text(example: Question, found: Found) -> str:
    return example.context[found.spans[0].start : found.spans[0].end]


def _log_sum_exp(scores: np.ndarray) -> float:
    highest = scores.max()
    return float(highest + np.log(np.exp(scores - highest).sum())) if np.isfinite(highest) else -np.inf
