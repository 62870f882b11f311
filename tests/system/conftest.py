"""The browser of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from browser import observed
from headless import installed
from selenium import webdriver

from d2lbert.errors import UserError


@pytest.fixture(scope="module")
def needs_chromium() -> None:
    """Where there is no Chromium, a test that asks for this is skipped, saying so."""
    try:
        installed()
    except UserError as error:
        if os.environ.get("D2LBERT_REQUIRE_BROWSER"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def driver(needs_chromium: None) -> Iterator[webdriver.Chrome]:
    """A headless Chromium."""
    with observed() as browser:
        yield browser
