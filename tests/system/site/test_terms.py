"""The meaning of a term: shown by pointer and by keyboard, read by screen readers, inside the window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE
from headless import served
from reading import THEMES, serious, show
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

STYLE = Path(__file__).resolve().parents[3] / "site" / "style"
MEANING = "divides the scores before a softmax: high is even, low is sharp"
HEAD = """<title>t</title><link rel="icon" href="data:,"><link rel="stylesheet" href="book.css"><style>
:root { --pst-color-text-base: #222; --pst-color-on-background: white; --pst-color-border: #888 }
[data-theme=dark] { --pst-color-text-base: #eee; --pst-color-on-background: #222; background: #111; color: #eee }
</style>"""
PAGE = f"""<!doctype html><html lang="en">{HEAD}<main><h1>T</h1><article class="bd-article"><p id="p">
Words and more words that stand before, and then a <a class="book-term" href="#p" data-meaning="a row">thing</a>
that is explained.</p><p style="text-align: right">At the far end of the line there is a
<a class="book-term" href="#p" data-meaning="{MEANING}">temperature</a></p></article></main>
<script src="terms.js"></script></html>"""

pytestmark = pytest.mark.browser


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A page with two terms."""
    for name in ("book.css", "terms.js"):
        shutil.copy(STYLE / name, tmp_path)
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    with served(tmp_path) as found:
        yield f"{found}/page.html"


def told(driver: webdriver.Chrome) -> str:
    """The meaning that is shown, or nothing."""
    boxes = driver.find_elements(By.CSS_SELECTOR, ".book-meaning")
    return boxes[0].text if boxes and boxes[0].is_displayed() else ""


def terms(driver: webdriver.Chrome) -> list[WebElement]:
    return driver.find_elements(By.CSS_SELECTOR, "a.book-term")


def test_by_keyboard(driver: webdriver.Chrome, address: str) -> None:
    show(driver, address, DESKTOP)
    assert told(driver) == ""
    driver.switch_to.active_element.send_keys(Keys.TAB)
    assert told(driver) == "a row"
    described = driver.switch_to.active_element.get_attribute("aria-describedby")
    assert driver.find_element(By.ID, described).get_attribute("role") == "tooltip"
    driver.switch_to.active_element.send_keys(Keys.TAB)
    assert told(driver) == MEANING
    assert terms(driver)[0].get_attribute("aria-describedby") is None
    driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert told(driver) == ""
    driver.switch_to.active_element.send_keys(Keys.TAB)
    assert told(driver) == ""


def test_by_pointer_which_may_go_to_the_meaning(driver: webdriver.Chrome, address: str) -> None:
    show(driver, address, DESKTOP)
    ActionChains(driver).move_to_element(terms(driver)[1]).perform()
    assert told(driver) == MEANING
    ActionChains(driver).move_to_element(driver.find_element(By.CSS_SELECTOR, ".book-meaning")).pause(0.5).perform()
    assert told(driver) == MEANING
    ActionChains(driver).move_to_element(driver.find_element(By.TAG_NAME, "h1")).perform()
    WebDriverWait(driver, 10).until(lambda page: told(page) == "")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_inside_the_window_and_clean(driver: webdriver.Chrome, address: str, size: tuple[int, int], theme: str) -> None:
    show(driver, address, size, theme)
    for term in terms(driver):
        driver.execute_script("arguments[0].focus()", term)
        box = driver.find_element(By.CSS_SELECTOR, ".book-meaning").rect
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        below = term.rect["y"] + term.rect["height"]
        assert term.rect["y"] < box["y"] <= below + 1, "right below the term's first line"
        assert serious(driver) == []
