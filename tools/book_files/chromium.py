"""A headless Chromium that renders pages of this machine: formulas, and paper."""

from __future__ import annotations

import base64
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from d2lbert.errors import UserError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--allow-file-access-from-files",  # fonts of a page that is a file
    "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing is fetched
)
_PATIENCE = 1500  # seconds for one command
_CHUNK = 1 << 22  # characters of a printed file that are fetched at a time


@contextlib.contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Start a browser with an empty profile.

    Raises:
        UserError: Chromium or its driver is not installed.
    """
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        raise UserError("needs Chromium and ChromeDriver: install the packages chromium and chromium-driver")
    with tempfile.TemporaryDirectory() as profile:
        options = Options()
        options.binary_location = browser
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        window = webdriver.Chrome(options=options, service=Service(driver))
        try:
            window.set_script_timeout(_PATIENCE)
            window.command_executor.client_config.timeout = _PATIENCE
            yield window
        finally:
            window.quit()


def printed(window: webdriver.Chrome) -> bytes:
    """Return the page of a window as PDF, with the size that its style says, an outline and a structure."""
    wanted: dict[str, Any] = {
        "preferCSSPageSize": True,
        "printBackground": True,
        "generateDocumentOutline": True,
        "generateTaggedPDF": True,
        "transferMode": "ReturnAsStream",
    }
    stream = window.execute_cdp_cmd("Page.printToPDF", wanted)["stream"]
    parts = []
    while True:
        piece = window.execute_cdp_cmd("IO.read", {"handle": stream, "size": _CHUNK})
        parts.append(base64.b64decode(piece["data"]) if piece.get("base64Encoded") else piece["data"].encode("latin-1"))
        if piece["eof"]:
            break
    window.execute_cdp_cmd("IO.close", {"handle": stream})
    return b"".join(parts)
