"""Scores. scikit-learn, SciPy and sacrebleu compute most of them; those of SQuAD are our own."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from d2lbert.errors import UserError


def classification(targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Return accuracy, macro-averaged F1 and Matthews' correlation of class indices, both (N,).

    Raises:
        UserError: scikit-learn is not installed.
    """
    try:
        from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
    except ImportError:
        raise UserError("scores need scikit-learn: run pip install 'd2lbert[eval]'") from None
    return {
        "accuracy": float(accuracy_score(targets, predictions)),
        "f1_macro": float(f1_score(targets, predictions, average="macro")),
        "matthews": float(matthews_corrcoef(targets, predictions)),
    }


def f1_of_second(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Return the F1 of the second of two classes, such as "paraphrase" after "different".

    Args:
        targets, predictions: class indices, 0 or 1, both (N,).
    """
    from sklearn.metrics import f1_score

    return float(f1_score(targets, predictions, pos_label=1, zero_division=0.0))


def regression(targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Return Spearman's and Pearson's correlation and the mean squared error of numbers, both (N,).

    The correlation with constant numbers is not defined; it counts as 0.

    Raises:
        UserError: SciPy is not installed, or there are fewer than two numbers.
    """
    try:
        from scipy.stats import pearsonr, spearmanr
    except ImportError:
        raise UserError("scores need SciPy: run pip install 'd2lbert[eval]'") from None
    if len(targets) < 2:
        raise UserError("a correlation needs at least two pairs: give more examples")
    constant = np.ptp(targets) == 0 or np.ptp(predictions) == 0
    return {
        "spearman": 0.0 if constant else float(spearmanr(targets, predictions).statistic),
        "pearson": 0.0 if constant else float(pearsonr(targets, predictions).statistic),
        "mean_squared_error": float(np.mean((targets - predictions) ** 2)),
    }


class Bleu(NamedTuple):
    """A BLEU score from 0 to 100, and sacrebleu's signature: two scores compare only if their signatures are equal."""

    score: float
    signature: str


def bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """Return the corpus BLEU of translations, with one reference each (Papineni et al. 2002; Post 2018).

    The texts are plain text, not tokenised: sacrebleu splits them into words itself.

    Raises:
        UserError: sacrebleu is not installed, there is nothing to score, or the numbers of texts differ.
    """
    if len(translations) != len(references) or not references:
        raise UserError(
            f"{len(translations)} translations and {len(references)} references: give one reference for each"
        )
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise UserError("BLEU needs sacrebleu: run pip install 'd2lbert[eval]'") from None
    metric = BLEU()
    score = metric.corpus_score(list(translations), [list(references)]).score
    return Bleu(float(score), str(metric.get_signature()))


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Return an answer as SQuAD compares it: lower case, no ASCII punctuation, no articles, single spaces.

    Punctuation goes first and leaves no space behind: "U.S." becomes "us" (Rajpurkar et al. 2016, section 6.1).
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def squad_exact(answer: str, golds: Sequence[str]) -> float:
    """Return 1 if the normalised answer equals one of the right ones, else 0. See :func:`squad`."""
    return float(any(normalize_answer(answer) == normalize_answer(gold) for gold in _scorable(golds)))


def squad_f1(answer: str, golds: Sequence[str]) -> float:
    """Return the F1 between the words of the answer and those of the best-matching right one. See :func:`squad`."""
    return max(_word_f1(normalize_answer(answer).split(), normalize_answer(gold).split()) for gold in _scorable(golds))


def squad(golds: Sequence[Sequence[str]], answers: Sequence[str]) -> dict[str, float]:
    """Return the mean F1 and exact match of answers to questions, from 0 to 1 (Rajpurkar et al. 2016, 2018).

    An empty answer means "no answer". It is right where the right answer is empty, and scores 0 elsewhere.

    Args:
        golds: for each question the answers of several people; the best match counts.
        answers: one for each question.

    Raises:
        UserError: there is nothing to score, the numbers differ, or a question has no right answer at all.
    """
    if len(golds) != len(answers) or not golds:
        raise UserError(f"{len(answers)} answers to {len(golds)} questions: give one answer for each")
    if not all(golds):
        raise UserError("a question has no right answer: give an empty text where the right answer is none")
    pairs = list(zip(answers, golds, strict=True))
    return {
        "f1": float(np.mean([squad_f1(*pair) for pair in pairs])),
        "exact_match": float(np.mean([squad_exact(*pair) for pair in pairs])),
    }


def best_threshold(
    margins: Sequence[float], span_scores: Sequence[float], null_scores: Sequence[float]
) -> tuple[float, float]:
    """Return the best threshold for "no answer", and the mean score with it.

    A question gets no answer where its margin is above the threshold.

    Args:
        margins: for each question, the score of "no answer" minus that of the best span.
        span_scores: the F1 of the best span, from 0 to 1.
        null_scores: the F1 of the empty answer: 1 or 0.

    Raises:
        UserError: there is no question, the numbers differ, or a margin is not a number.
    """
    if not len(margins) == len(span_scores) == len(null_scores) or not len(margins):
        raise UserError(
            f"{len(margins)} margins and {len(span_scores)} scores of spans: give one of each for a question"
        )
    given = np.asarray(margins)
    given = given if given.dtype.kind == "f" else given.astype(np.float64)
    if np.isnan(given).any():
        raise UserError("a margin is not a number: the model gave NaN, use one whose training went well")
    order = np.argsort(given, kind="stable")
    spans, nulls = (np.asarray(scores, np.float64)[order] for scores in (span_scores, null_scores))
    # Entry k: the k questions of lowest margin get their span, the others no answer.
    totals = np.concatenate([[0], spans.cumsum()]) + nulls.sum() - np.concatenate([[0], nulls.cumsum()])
    # No threshold can separate questions with the same margin; ends are infinite, in the type of the margins.
    ends = np.concatenate([[-np.inf], given[order], [np.inf]], dtype=given.dtype)
    best = max((k for k in range(len(order) + 1) if ends[k] < ends[k + 1]), key=lambda k: totals[k])
    return _between(ends[best], ends[best + 1]), float(totals[best] / len(order))


def _between(low: Any, high: Any) -> float:
    """Return a number of ``low <= number < high``, as they compare it: halfway, or 1 beyond the only finite one."""
    one, other = float(low), float(high)
    if np.isinf(one) or np.isinf(other):
        number = one + 1 if np.isfinite(one) else other - 1 if np.isfinite(other) else 0.0
    else:
        number = one / 2 + other / 2  # rounding must not move a question to the other side
    if low <= number < high:
        return number
    return one if np.isfinite(one) else float(np.nextafter(high, low))


def _scorable(golds: Sequence[str]) -> list[str]:
    """Return the right answers that normalisation does not empty, or else the empty text: the official rule."""
    return [gold for gold in golds if normalize_answer(gold)] or [""]


def _word_f1(answer: list[str], gold: list[str]) -> float:
    """Return the F1 of two bags of words; two empty ones are equal."""
    if not answer or not gold:
        return float(answer == gold)
    common = (Counter(answer) & Counter(gold)).total()
    return 2 * common / (len(answer) + len(gold))
