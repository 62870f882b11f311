"""Figures carry their caption and their alternative text, and draw what they are given."""

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


def test_every_kind_is_drawn() -> None:
    figures = [
        plots.heat_maps([np.eye(9)] * 3, [list("abcdefghi")] * 3, [list("abcdefghi")] * 3, ["1", "2", "3"], **TEXTS),
        plots.curves({"a": [1.0, 2.0], "b": [2.0, 1.0]}, x_label="x", y_label="y", log_y=True, **TEXTS),
        plots.bars({"long name of a bar": 1.0, "b": 2.0}, y_label="y", errors=[0.1, 0.2], **TEXTS),
        plots.points(np.eye(3)[:, :2], ["a", "b", "c"], groups=["x", "y", "x"], arrows=[(0, 1)], **TEXTS),
    ]
    assert all(figure.png.startswith(b"\x89PNG") and len(figure.png) > 5000 for figure in figures)
    assert len({figure.png for figure in figures}) == 4
    assert not plots.plt.get_fignums(), "a figure was left open"


def test_attention_view_holds_every_word_and_weight() -> None:
    weights = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2) / 100
    view = plots.AttentionView(["<s>", "LAYERS"], weights, caption="a & b", layer=1, head=2, asking=1)
    page = view._repr_mimebundle_()["text/html"]
    assert f"weights = [{','.join(map(str, range(24)))}], heads = 3" in page
    assert page.count("&lt;s&gt;") == 2
    assert page.count(">LAYERS<") == 2, "a token that looks like a part of the template stays a token"
    assert page.count("<option selected>") == 2
    assert "<option selected>2</option>" in page
    assert "a &amp; b" in page
    assert view._repr_mimebundle_()["text/plain"] == "[Attention to play with: a & b]"


def test_attention_view_refuses_weights_of_other_tokens() -> None:
    with pytest.raises(ValueError, match="3 tokens need weights of 3 rows"):
        plots.AttentionView(["a", "b", "c"], np.zeros((1, 1, 2, 2)), caption="x")
