"""A headless Chromium with an empty profile, for the book as one file and for tests: it reaches this machine alone."""

from __future__ import annotations

import base64
import contextlib
import functools
import http.server
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
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
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Whatever is not on this machine does not exist: a page that needs it fails here as it would offline.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
_CHUNK = 1 << 22  # characters of a printed file that are fetched at a time


def installed() -> tuple[str, str]:
    """Return the paths of Chromium and of its driver.

    Raises:
        UserError: one of them is missing.
    """
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        raise UserError("needs Chromium and ChromeDriver: install the packages chromium and chromium-driver")
    return browser, driver


@contextlib.contextmanager
def chromium(*, files: bool = False, logs: bool = False, seconds: int = 240) -> Iterator[webdriver.Chrome]:
    """Start a browser.

    Args:
        files: a page that is a file may read the files beside it, such as its fonts.
        logs: keep what pages write to the console, and what they ask for.
        seconds: that one command may take.

    Raises:
        UserError: Chromium or its driver is not installed.
    """
    browser, driver = installed()
    with tempfile.TemporaryDirectory() as profile:
        options = Options()
        options.binary_location = browser
        more = ("--allow-file-access-from-files",) if files else ()
        for flag in (*_FLAGS, *more, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        if logs:
            options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        window = webdriver.Chrome(options=options, service=Service(driver))
        try:
            window.set_script_timeout(seconds)
            window.command_executor.client_config.timeout = seconds
            yield window
        finally:
            window.quit()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing for each request."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; yield its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


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
