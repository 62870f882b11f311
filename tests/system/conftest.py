"""The browser of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from browser import CHROMIUM, DRIVER, chromium
from selenium import webdriver


@pytest.fixture(scope="module")
def needs_chromium() -> None:
    """Where there is no Chromium, a test that asks for this is skipped, saying so."""
    if not (CHROMIUM.is_file() and DRIVER.is_file()):
        reason = f"needs Chromium and ChromeDriver ({CHROMIUM}, {DRIVER})"
        if os.environ.get("D2LBERT_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def driver(needs_chromium: None) -> Iterator[webdriver.Chrome]:
    """A headless Chromium."""
    with chromium() as browser:
        yield browser
