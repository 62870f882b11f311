"""A figure to play with holds its data, and a table for those who have no script."""

from __future__ import annotations

import html.parser
import json

import numpy as np
import pytest

from d2lbert import plots
from d2lbert.plots.interactive import MOST_BYTES

ROWS = [{"key": "<k1>", "score": 2, "weight": np.float32(0.25)}, {"key": "k2", "score": -1, "weight": 0.75}]


class _Page(html.parser.HTMLParser):
    """Collects the text inside each kind of element."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.attributes: dict[str, dict[str, str | None]] = {}
        self.feed(markup)
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.attributes[tag] = dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1], []).append(data)


def test_the_output_holds_data_table_and_caption() -> None:
    data = {"keys": np.eye(2), "count": np.int64(3), "text": "</script><b>&"}
    figure = plots.Interactive("some-name", data, caption='a < b & "c"', table=ROWS, digits=2)
    bundle = figure._repr_mimebundle_()
    page = _Page(bundle["text/html"])
    (stored,) = page.texts["script"]
    assert json.loads(stored) == {"keys": [[1.0, 0.0], [0.0, 1.0]], "count": 3, "text": "</script><b>&"}
    assert page.attributes["script"] == {"type": "application/json"}
    assert page.texts["th"] == ["key", "score", "weight"]
    assert page.texts["td"] == ["<k1>", "2", "0.25", "k2", "-1", "0.75"]
    assert page.texts["figcaption"] == ['a < b & "c"']
    assert "d2l-some-name" in page.attributes
    assert bundle["text/plain"] == '[Figure to play with: a < b & "c"]'


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "Some name"}, "no name for a figure"),
        ({"name": "x><script"}, "no name for a figure"),
        ({"caption": ""}, "needs a caption and a table"),
        ({"table": []}, "needs a caption and a table"),
        ({"data": {"x": float("nan")}}, "not JSON compliant"),
        ({"data": {"x": np.array([np.inf])}}, "not JSON compliant"),
        ({"data": {"x": "a" * MOST_BYTES}}, "bytes of data"),
    ],
)
def test_what_cannot_be_shown_is_refused(change: dict[str, object], problem: str) -> None:
    given = {"name": "x", "data": {}, "caption": "c", "table": ROWS} | change
    with pytest.raises(ValueError, match=problem):
        plots.Interactive(given.pop("name"), given.pop("data"), **given)


def test_what_is_no_number_or_text_is_refused() -> None:
    with pytest.raises(TypeError, match="set cannot be written as JSON"):
        plots.Interactive("x", {"x": {1}}, caption="c", table=ROWS)
