"""One figure to play with on a page of its own, driven by keyboard as a reader would."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import torch
from browser import DESKTOP, PHONE, inspect, resize
from headless import served
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from d2lbert import plots

ROOT = Path(__file__).resolve().parents[3]
_PAGE = """<!doctype html><html lang="en" data-theme="THEME"><head><meta charset="utf-8"><title>A figure</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<link rel="stylesheet" href="book.css"><style>html[data-theme="dark"] { background: #14181e; color: #ced6dd; }
body { max-width: 46rem; margin: 1rem auto; padding: 0 0.8rem; font-family: sans-serif; }</style></head>
<body><article class="bd-article">FIGURE</article>SCRIPT</body></html>"""


class FigurePage:
    """A page with one figure, open in a browser."""

    def __init__(self, driver: webdriver.Chrome, address: str, name: str) -> None:
        self.driver, self.address, self.name = driver, address, name

    @property
    def host(self) -> WebElement:
        return self.driver.find_element(By.TAG_NAME, f"d2l-{self.name}")

    def all(self, selector: str) -> list[WebElement]:
        return self.host.shadow_root.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        (found,) = self.all(selector)
        return found

    def labelled(self, text: str) -> WebElement:
        """The control whose label begins with a text."""
        (label,) = [one for one in self.all("label") if one.text.startswith(text)]
        return label.find_element(By.CSS_SELECTOR, "input, select, textarea")

    def press(self, text: str) -> None:
        """Press a button as a keyboard does."""
        (button,) = [one for one in self.all("button") if one.text == text]
        button.send_keys(Keys.ENTER)

    def keys(self, control: WebElement, *keys: str) -> None:
        control.send_keys("".join(keys))

    def choose(self, label: str, text: str) -> None:
        Select(self.labelled(label)).select_by_visible_text(text)

    @property
    def said(self) -> str:
        """What the figure tells a screen reader."""
        return self.one("[role=status]").text

    def numbers(self) -> list[float]:
        """The numbers in what it tells."""
        return [float(found) for found in re.findall(r"-?\d+(?:\.\d+)?", self.said.replace("−", "-"))]

    def rows(self, table: int = 0) -> list[list[str]]:
        """The texts of a table's cells."""
        body = self.all("tbody")[table]
        script = "return [...arguments[0].rows].map(row => [...row.cells].map(cell => cell.textContent))"
        return [[cell.replace("−", "-") for cell in row] for row in self.driver.execute_script(script, body)]

    def problems(self) -> list[str]:
        """What is wrong with the page wide and narrow, with names of controls, and with the order of the keyboard."""
        problems = inspect(self.driver, f"{self.address}/light.html")
        nameless = "return [...arguments[0].shadowRoot.querySelectorAll('input, select, textarea, button, [tabindex]')]"
        for node in self.driver.execute_script(nameless, self.host):
            if not node.accessible_name:
                problems.append(f"no name for a screen reader: {node.get_attribute('outerHTML')[:80]}")
        if not self.all("[role=status][aria-live=polite]"):
            problems.append("tells a screen reader nothing")
        return problems

    def screenshots(self, folder: Path) -> None:
        """Write the page in light and dark, wide and narrow, for somebody to look at."""
        for theme in ("light", "dark"):
            self.driver.get(f"{self.address}/{theme}.html")
            for size in (DESKTOP, PHONE):
                resize(self.driver, (size[0], 1500))
                self.driver.save_screenshot(str(folder / f"{self.name}-{theme}-{size[0]}.png"))
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def figure_page(
    driver: webdriver.Chrome, folder: Path, name: str, data: dict[str, Any], *, script: bool = True
) -> Iterator[FigurePage]:
    """Lay a figure out as the site does, serve it to this machine alone, and open it."""
    figure = plots.Interactive(name, data, caption="What to see.", table=[{"first": 1, "second": "two"}])
    shutil.copytree(ROOT / "site" / "extra" / "figures", folder / "figures", dirs_exist_ok=True)
    shutil.copytree(ROOT / "d2lbert" / "deploy" / "browser" / "js", folder / "browser", dirs_exist_ok=True)
    shutil.copy(ROOT / "site" / "style" / "book.css", folder)
    loaded = f'<script type="module" src="figures/{name}.js"></script>' if script else ""
    for theme in ("light", "dark"):
        page = _PAGE.replace("THEME", theme).replace("SCRIPT", loaded).replace("FIGURE", figure.html)
        (folder / f"{theme}.html").write_text(page, encoding="utf-8")
    with served(folder) as address:
        driver.set_window_size(*DESKTOP)
        page = FigurePage(driver, address, name)
        if script and os.environ.get("D2LBERT_SCREENSHOTS"):
            page.screenshots(Path(os.environ["D2LBERT_SCREENSHOTS"]))
        driver.get(f"{address}/light.html")
        yield page


def call(page: FigurePage, function: str, *arguments: Any) -> Any:
    """Return what a function of ``figures/numbers.js`` returns in the browser; {"seed": n} becomes ``uniforms(n)``."""
    script = """
const [name, given, done] = arguments;
import("./figures/numbers.js").then((all) => {
  const revive = (_, value) => (value && value.seed !== undefined ? all.uniforms(value.seed) : value);
  return JSON.stringify(all[name](...JSON.parse(given, revive)));
}).then(done, (error) => done(`failed: ${error}`));
"""
    found = page.driver.execute_async_script(script, function, json.dumps(arguments))
    assert not found.startswith("failed"), found
    return json.loads(found)


def uniforms(seed: int) -> Iterator[float]:
    """The numbers that ``uniforms(seed)`` of ``figures/numbers.js`` draws."""
    state = (seed + 1) * 0x9E3779B9 % 2**32 or 1
    while True:
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        yield state / 2**32


def written_in(chapter: str, *names: str) -> dict[str, Any]:
    """Functions that a chapter defines in its code, such as ``input_to_grid``, by name."""
    notebook = nbformat.read(ROOT / "chapters" / f"{chapter}.ipynb", as_version=4)
    scope: dict[str, Any] = {"math": math, "np": np, "torch": torch, "Counter": Counter, "pairwise": pairwise}
    for cell in notebook.cells:
        if cell.cell_type == "code" and "solution" not in cell.metadata.get("tags", []):
            for node in ast.parse(re.sub(r"^(\s*)%.*", r"\1pass", cell.source, flags=re.MULTILINE)).body:
                if isinstance(node, ast.FunctionDef) and node.name in names:
                    exec(ast.unparse(node), scope)  # the book's own code
    return {name: scope[name] for name in names}
