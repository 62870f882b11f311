"""The map of word vectors, in headless Chromium: neighbours by cosine and in the plane are those that NumPy finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from figure_page import FigurePage, call, figure_page, written_in
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser

WORDS = [f"{kind}{number}" for kind in ("dog", "bread", "army") for number in range(20)]
COUNT = 5


def unit_vectors() -> np.ndarray:
    """Three groups of twenty vectors of length 1 in ten dimensions."""
    random = np.random.default_rng(0)
    vectors = np.repeat(random.normal(size=(3, 10)), 20, axis=0) + 0.7 * random.normal(size=(60, 10))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    vectors = unit_vectors()
    near = written_in("representations/word_vectors", "nearest_inside")["nearest_inside"](vectors, COUNT)
    views = [
        {"name": f"{a + 1} and {b + 1}", "x": vectors[:, a].round(3), "y": vectors[:, b].round(3)}
        for a, b in ((0, 1), (2, 3))
    ]
    groups = [number // 20 for number in range(60)]
    names = ["dog", "bread", "army"]
    return {"names": WORDS, "groups": groups, "groupNames": names, "near": near, "views": views, "what": "words"}


@pytest.fixture
def word_map(driver: webdriver.Chrome, tmp_path: Path, data: dict[str, Any]) -> Iterator[FigurePage]:
    with figure_page(driver, tmp_path, "word-map", data) as page:
        yield page


def by_cosine(word: str) -> list[str]:
    vectors = unit_vectors()
    cosines = vectors @ vectors[WORDS.index(word)]
    cosines[WORDS.index(word)] = -1
    return [WORDS[place] for place in np.argsort(-cosines)[:COUNT]]


def on_the_map(view: dict[str, Any], word: str) -> list[str]:
    points = np.stack([view["x"], view["y"]], axis=1)
    far = np.linalg.norm(points - points[WORDS.index(word)], axis=1)
    far[WORDS.index(word)] = np.inf
    return [WORDS[place] for place in np.argsort(far, kind="stable")[:COUNT]]


def check(page: FigurePage, view: dict[str, Any], word: str) -> None:
    """The table and the line that is read tell the neighbours of a word."""
    real, flat = by_cosine(word), on_the_map(view, word)
    rows = page.rows()
    assert [row[0] for row in rows] == real
    assert [row[2] for row in rows] == flat
    vectors = unit_vectors()
    right = [float(vectors[WORDS.index(word)] @ vectors[WORDS.index(other)]) for other in real]
    assert [float(row[1]) for row in rows] == pytest.approx(right, abs=6e-3)
    both = len(set(real) & set(flat))
    assert [row[3] for row in rows].count("yes") == both
    assert page.said.startswith(f"{word}: nearest by cosine {real[0]} ")
    assert f"Of its {COUNT} nearest, {both} " in page.said


def typed(page: FigurePage, word: str) -> None:
    search = page.labelled("word")
    page.keys(search, Keys.CONTROL + "a" + Keys.NULL, word, Keys.ENTER)


def shown_names(page: FigurePage) -> list[str]:
    return [text.text for text in page.all("svg text")]


def test_the_map_is_whole(word_map: FigurePage) -> None:
    assert word_map.problems() == []


def test_a_typed_word_shows_its_neighbours_on_both_maps(word_map: FigurePage, data: dict[str, Any]) -> None:
    check(word_map, data["views"][0], "dog0")
    for word in ("bread3", "army19"):
        typed(word_map, word)
        check(word_map, data["views"][0], word)
    word_map.choose("map", "3 and 4")
    check(word_map, data["views"][1], "army19")
    typed(word_map, "zirp")
    assert word_map.said == "“zirp” is not on this map."


def test_the_map_is_zoomed_and_moved_by_keys(word_map: FigurePage) -> None:
    picture = word_map.all("svg")[0]
    before = len(shown_names(word_map))
    points = len(word_map.all("svg[role=application] path[style]"))
    assert points == len(WORDS)
    word_map.keys(picture, "+++++")
    assert "Zoom 7.6." in word_map.said
    assert "dog0" in shown_names(word_map)
    assert len(word_map.all("svg[role=application] path[style]")) < points
    ring = float(word_map.one("svg circle").get_attribute("cx"))
    word_map.keys(picture, Keys.ARROW_RIGHT)
    assert float(word_map.one("svg circle").get_attribute("cx")) == pytest.approx(ring - 40, abs=0.5)
    word_map.keys(picture, Keys.ARROW_UP)
    word_map.keys(picture, "0")
    assert "Zoom 1.0." in word_map.said
    assert len(shown_names(word_map)) == before
    word_map.press("Zoom in")
    assert "Zoom 1.5." in word_map.said
    word_map.press("Zoom out")
    assert "Zoom 1.0." in word_map.said


def test_a_point_is_chosen_by_mouse_and_the_map_is_dragged(word_map: FigurePage, data: dict[str, Any]) -> None:
    typed(word_map, "army4")
    word_map.press("Zoom in")
    word_map.press("Zoom in")
    ring = float(word_map.one("svg circle").get_attribute("cx"))
    picture = word_map.all("svg")[0]
    ActionChains(word_map.driver).drag_and_drop_by_offset(picture, 60, 0).perform()
    assert float(word_map.one("svg circle").get_attribute("cx")) > ring + 30
    points = word_map.all("svg[role=application] path[style]")
    word_map.driver.execute_script("arguments[0].dispatchEvent(new MouseEvent('click'))", points[0])
    chosen = word_map.said.split(":")[0]
    assert chosen != "army4"
    check(word_map, data["views"][0], chosen)


def test_nearest_points_are_numpys(word_map: FigurePage, data: dict[str, Any]) -> None:
    view = data["views"][1]
    points = np.stack([view["x"], view["y"]], axis=1)
    for place in (0, 7, 59):
        found = call(word_map, "nearestPoints", points.tolist(), place, COUNT)
        assert [WORDS[number] for number in found] == on_the_map(view, WORDS[place])


def test_uses_of_a_word_have_neighbours_of_their_own_in_each_layer(driver: webdriver.Chrome, tmp_path: Path) -> None:
    functions = written_in("bert/bert", "cosines", "map_of_uses")
    functions["cosines"].__globals__["functional"] = torch.nn.functional
    layers = torch.randn(3, 8, 16, generator=torch.Generator().manual_seed(0))
    names = [f"{kind} {number}" for kind in ("river", "money") for number in range(1, 5)]
    texts = [f"A sentence with {name}." for name in names]
    views = [{"name": f"layer {number}"} | functions["map_of_uses"](layer) for number, layer in enumerate(layers)]
    groups = {"groups": [0] * 4 + [1] * 4, "groupNames": ["river", "money"]}
    data = {"names": names, "texts": texts, "views": views, "what": "uses", **groups}
    with figure_page(driver, tmp_path, "word-map", data) as page:
        assert page.problems() == []
        page.keys(page.labelled("use"), Keys.CONTROL + "a" + Keys.NULL, "money 2", Keys.ENTER)
        for number, layer in enumerate(layers):
            page.choose("map", f"layer {number}")
            right = torch.nn.functional.cosine_similarity(layer[5:6], layer)
            right[5] = -1
            order = right.argsort(descending=True)[:5].tolist()
            assert [row[0] for row in page.rows()] == [f"{names[place]}: {texts[place]}" for place in order]
            assert [float(row[1]) for row in page.rows()] == pytest.approx(right[order].tolist(), abs=6e-3)
            assert page.said.startswith(f"money 2 (“{texts[5]}”): nearest by cosine {names[order[0]]} ")
            centred = layer - layer.mean(0)
            plane = torch.linalg.svd(centred, full_matrices=False)[0] * torch.linalg.svdvals(centred)
            close = torch.cdist(plane[5:6, :2], plane[:, :2])[0].argsort()[1:6].tolist()
            assert [row[2] for row in page.rows()] == [names[place] for place in close]
