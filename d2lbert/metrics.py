"""Scores. scikit-learn does the sums."""

from __future__ import annotations

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
