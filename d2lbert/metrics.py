"""Scores. scikit-learn, SciPy and sacrebleu do the sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    """Return the F1 of the second of two classes, such as "paraphrase" after "different"; indices, both (N,)."""
    from sklearn.metrics import f1_score

    return float(f1_score(targets, predictions, pos_label=1, zero_division=0.0))


def regression(targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Return Spearman's and Pearson's correlation and the mean squared error of numbers, both (N,).

    A correlation with constant numbers is not defined; it is given as 0.

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
    """A BLEU score from 0 to 100, and sacrebleu's signature: everything that another must set alike to compare."""

    score: float
    signature: str


def bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """Return the corpus BLEU of translations, with one reference each (Papineni et al. 2002; Post 2018).

    The texts are plain, as a person writes them: sacrebleu cuts them into words itself.

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
