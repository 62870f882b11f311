"""A figure carries its caption and its alternative text."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from d2lbert import plots

TEXTS = {"caption": "What to see <here>.", "alt": 'A "grid" of numbers.'}


def test_figure_shows_its_texts_escaped() -> None:
    bundle = plots.heat_map(np.eye(2), ["a", "b"], ["c", "d"], **TEXTS)._repr_mimebundle_()
    assert 'alt="A &quot;grid&quot; of numbers."' in bundle["text/html"]
    assert "<figcaption>What to see &lt;here&gt;.</figcaption>" in bundle["text/html"]
    assert bundle["text/plain"] == "[Figure: What to see <here>.]"


@pytest.mark.parametrize("missing", ["caption", "alt"])
def test_figure_without_texts_is_refused(missing: str) -> None:
    with pytest.raises(ValueError, match="needs a caption and an alternative text"):
        plots.curves({"loss": [1.0, 0.5]}, x_label="step", y_label="loss", **{**TEXTS, missing: ""})
