"""What a headless Chromium that can reach this machine alone finds wrong with a page."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from headless import chromium
from selenium import webdriver

PHONE, DESKTOP = (380, 800), (1300, 900)
_WAIT_FOR_MATHEMATICS = """
const done = arguments[0];
const drawn = window.bookFormulas ?? window.MathJax?.startup?.promise;
if (drawn) { drawn.then(() => done(true)); }
else { done(false); }
"""
# Pictures come when they are near the window: here all of them are wanted.
_WAIT_FOR_PICTURES = """
const done = arguments[0];
const pictures = [...document.images];
for (const picture of pictures) picture.loading = 'eager';
Promise.all(pictures.map(picture => picture.decode().catch(() => null))).then(() => done(true));
"""
_INSPECT = r"""
const problems = [];
const article = document.querySelector('article') || document.body;
const spans = article.querySelectorAll('.math').length;
const drawn = article.querySelectorAll('.math mjx-container').length;
if (drawn < spans) problems.push(`mathematics: ${drawn} of ${spans} formulas drawn`);
if (document.querySelector('mjx-merror')) problems.push('mathematics: an error in a formula');
for (const node of document.querySelectorAll('mjx-container mjx-mtext'))
  if (node.style.color === 'red') problems.push('mathematics: a command that MathJax does not know');
const clone = article.cloneNode(true);
clone.querySelectorAll('pre, code, script, style, mjx-container').forEach(node => node.remove());
const text = clone.textContent;
for (const raw of ['$$', '\\frac', '\\begin{', '{glue', '{cite', ':::'])
  if (text.includes(raw)) problems.push(`raw markup: ${raw}`);
for (const image of document.images) {
  if (!image.complete || image.naturalWidth === 0) problems.push(`image not drawn: ${image.src.slice(0, 80)}`);
  const alt = (image.getAttribute('alt') || '').trim();
  if (!alt || /^[0-9a-f]{16,}$/.test(alt) || /\.(png|svg)$/.test(alt))
    problems.push(`image without alternative text: ${image.src.slice(0, 80)}`);
}
return problems;
"""
_OVERFLOW = """
const wide = [];
if (document.documentElement.scrollWidth > window.innerWidth + 1)
  for (const node of document.querySelectorAll('article *'))
    if (node.getBoundingClientRect().right > window.innerWidth + 1 && wide.length < 3)
      wide.push(node.tagName + '.' + node.className);
return document.documentElement.scrollWidth > window.innerWidth + 1
  ? [`${document.documentElement.scrollWidth} px wide on a phone: ${wide.join(', ')}`] : [];
"""


@contextlib.contextmanager
def observed() -> Iterator[webdriver.Chrome]:
    """Start a browser whose logs are kept."""
    with chromium(logs=True) as driver:
        # Another window may have the focus; events of focus come all the same.
        driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        yield driver


def inspect(driver: webdriver.Chrome, address: str) -> list[str]:
    """Open a page wide and narrow and return everything that is wrong with it."""
    driver.get_log("browser"), driver.get_log("performance")
    driver.set_window_size(*DESKTOP)
    driver.get(address)
    return inspect_open(driver) + request_problems(network(driver), address)


def inspect_open(driver: webdriver.Chrome) -> list[str]:
    """Return everything that is wrong with the page that is shown wide, but for its requests."""
    driver.execute_async_script(_WAIT_FOR_MATHEMATICS)
    driver.execute_async_script(_WAIT_FOR_PICTURES)
    problems = list(driver.execute_script(_INSPECT))
    resize(driver, PHONE)
    problems += driver.execute_script(_OVERFLOW)
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    return problems + console_problems(driver)


def resize(driver: webdriver.Chrome, size: tuple[int, int]) -> None:
    """Give the page a size: a window cannot be narrower than some 500 px, an emulated screen can."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def console_problems(driver: webdriver.Chrome) -> list[str]:
    """Errors that the page wrote to its console since this log was last read."""
    return [f"console: {entry['message']}" for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def network(driver: webdriver.Chrome) -> list[dict[str, Any]]:
    """Return what the browser asked for and was answered since this log was last read, as ChromeDriver words it."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [message for message in messages if message["method"].startswith("Network.")]


def request_problems(messages: Iterable[dict[str, Any]], address: str) -> list[str]:
    """Requests that failed, and requests to anything but the server of the page."""
    origin = "/".join(address.split("/")[:3])
    problems = []
    for message in messages:
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            if not url.startswith((origin, "data:", "blob:", "chrome", "about:")):
                problems.append(f"asks another machine: {url}")
        elif message["method"] == "Network.responseReceived":
            response = message["params"]["response"]
            if response["status"] >= 400 and not response["url"].endswith("favicon.ico"):
                problems.append(f"answered {response['status']}: {response['url']}")
    return problems
