"""The server's page at ``/``, in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import DESKTOP, PHONE, inspect
from reading import THEMES, serious, show
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait
from server_support import Running, serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def running(needs_chromium: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("server"), models=("minilm-sst2", "minilm-stsb_en")) as found:
        yield found


def ask(driver: webdriver.Chrome, model: str, text: str, second: str = "") -> str:
    """Fill in the form and send it with the keyboard; return what the page says then."""
    Select(driver.find_element(By.ID, "model")).select_by_visible_text(model)
    for name, content in (("text", text), ("second", second)):
        driver.find_element(By.ID, name).clear()
        driver.find_element(By.ID, name).send_keys(content)
    driver.find_element(By.TAG_NAME, "button").send_keys("\n")
    told = driver.find_element(By.ID, "answer")
    WebDriverWait(driver, 60).until(lambda _: told.text not in ("", "..."))
    return told.text


def test_a_visitor_asks_both_models(driver: webdriver.Chrome, running: Running) -> None:
    driver.get(running.address)
    assert '"label": "positive"' in ask(driver, "minilm-sst2", "a warm and funny film")
    assert '"label": "negative"' in ask(driver, "minilm-sst2", "dull <b>and</b> far too long")
    assert '"score": ' in ask(driver, "minilm-stsb_en", "He slept.", "He was asleep.")
    assert '"error": ' in ask(driver, "minilm-stsb_en", "He slept.")


def test_the_page_is_whole_and_can_be_used_by_all(driver: webdriver.Chrome, running: Running) -> None:
    assert inspect(driver, f"{running.address}/") == []
    found = {}
    for size in (DESKTOP, PHONE):
        for theme in THEMES:
            show(driver, f"{running.address}/", size, theme)
            found[(size, theme)] = serious(driver)
    assert not {key: problems for key, problems in found.items() if problems}
