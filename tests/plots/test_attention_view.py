"""The view holds every word and every weight."""

from __future__ import annotations

import numpy as np
import pytest

from d2lbert import plots


def test_attention_view_holds_every_word_and_weight() -> None:
    weights = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2) / 100
    view = plots.AttentionView(["<s>", "LAYERS"], weights, caption="a & b", layer=1, head=2, asking=1)
    page = view._repr_mimebundle_()["text/html"]
    assert f"weights = [{','.join(map(str, range(24)))}], heads = 3" in page
    assert page.count("&lt;s&gt;") == 3
    assert page.count(">LAYERS<") == 2, "a token that looks like a part of the template stays a token"
    assert page.count(" selected>") == 2
    assert '<option value="2" selected>3</option>' in page, "the script counts from 0, the reader from 1"
    assert "a &amp; b" in page
    assert ">LAYERS looks at LAYERS (23 %), &lt;s&gt; (22 %)</p>" in page, "without a script, too"
    assert view._repr_mimebundle_()["text/plain"] == "[Attention to play with: a & b]"


def test_attention_view_refuses_weights_of_other_tokens() -> None:
    with pytest.raises(ValueError, match="3 tokens need weights of 3 rows"):
        plots.AttentionView(["a", "b", "c"], np.zeros((1, 1, 2, 2)), caption="x")
