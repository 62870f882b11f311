"""Every page of the built site, in a browser that cannot reach the network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from addresses import read_addresses
from browser import inspect, served
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from d2lbert import plots

ROOT = Path(__file__).resolve().parents[3]
GOOD = '<!doctype html><html lang="en"><link rel="icon" href="data:,"><article><p>Hello</p></article></html>'

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site() -> Path:
    """The built site; chapters that have not changed since they last ran are not run again."""
    build = subprocess.run([sys.executable, "tools/build_book.py"], cwd=ROOT, capture_output=True, text=True)
    assert build.returncode == 0, build.stdout + build.stderr
    return ROOT / "_build" / "html"


def test_every_page_is_whole(driver: webdriver.Chrome, site: Path) -> None:
    pages = sorted(path.relative_to(site) for path in site.rglob("*.html") if "_static" not in path.parts)
    assert len(pages) > len(list((ROOT / "chapters").rglob("*.ipynb")))
    with served(site) as address:
        problems = {str(page): inspect(driver, f"{address}/{page}") for page in pages}
    assert not {page: messages for page, messages in problems.items() if messages}


def test_links_inside_the_site_lead_somewhere(site: Path) -> None:
    broken = []
    for page in (path for path in site.rglob("*.html") if "_static" not in path.parts):
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:|//", target) and not (page.parent / unquote(target)).exists():
                broken.append(f"{page.relative_to(site)}: {target}")
    assert not broken


def test_chapters_can_be_opened_on_colab_and_binder(site: Path) -> None:
    """The buttons lead to notebooks without markup of the site, and to files that are published."""
    branch = read_addresses(ROOT).branch
    for path in (ROOT / "chapters").rglob("*.ipynb"):
        name = path.relative_to(ROOT)
        page = (site / name.with_suffix(".html")).read_text(encoding="utf-8")
        assert f"https://colab.research.google.com/github/d2lbert/d2lbert/blob/{branch}/{name}" in page
        assert re.search(rf"https://mybinder\.org/v2/gh/d2lbert/d2lbert/{branch}\?[^\"]*{re.escape(str(name))}", page)
        assert (ROOT / "_build" / "notebooks" / name).is_file()


def test_downloads_read_without_the_site(site: Path) -> None:
    for path in (ROOT / "chapters").rglob("*.ipynb"):
        name = path.relative_to(ROOT)
        page = (site / name.with_suffix(".html")).read_text(encoding="utf-8")
        download = next(target for target in re.findall(r'href="([^"]+\.ipynb)"', page) if "_sources" in target)
        given = (site / name.parent / download).resolve()
        assert given.read_bytes() == (ROOT / "_build" / "notebooks" / name).read_bytes()
    assert len(list((site / "notebooks").glob("*.zip"))) > 1


def test_search_finds_a_word(driver: webdriver.Chrome, site: Path) -> None:
    with served(site) as address:
        driver.get(f"{address}/search.html?q=attention")
        results = WebDriverWait(driver, 30).until(
            lambda page: page.find_elements(By.CSS_SELECTOR, "#search-results li a")
        )
        assert len(results) >= 2


def test_dark_mode_can_be_chosen(driver: webdriver.Chrome, site: Path) -> None:
    script = "return document.documentElement.dataset.theme"
    with served(site) as address:
        driver.set_window_size(1300, 900)
        driver.get(f"{address}/index.html")
        seen = set()
        for _ in range(3):
            button = driver.find_element(By.CSS_SELECTOR, "button.theme-switch-button")
            driver.execute_script("arguments[0].click()", button)
            seen.add(driver.execute_script(script))
        assert seen == {"light", "dark"}


def test_attention_is_shown_for_the_word_that_is_pointed_at(driver: webdriver.Chrome, tmp_path: Path) -> None:
    weights = np.zeros((1, 2, 3, 3))
    weights[0, 0] = np.eye(3)
    weights[0, 1, :, 2] = 1
    view = plots.AttentionView(["the", "cat", "sat"], weights, caption="a toy")
    (tmp_path / "page.html").write_text(GOOD.replace("<p>Hello</p>", view.html))
    with served(tmp_path) as address:
        assert inspect(driver, f"{address}/page.html") == []
        told = driver.find_element(By.CSS_SELECTOR, "figure p")
        assert told.text.startswith("the looks at the (100 %)")
        driver.execute_script("arguments[0].focus()", driver.find_elements(By.CSS_SELECTOR, "button")[1])
        assert told.text.startswith("cat looks at cat (100 %)")
        Select(driver.find_elements(By.CSS_SELECTOR, "select")[1]).select_by_visible_text("2")
        assert told.text.startswith("cat looks at sat (100 %)")


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("<article><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='></article>", "without alternative text"),
        ("<article><img alt='a picture' src='nothing.png'></article>", "answered 404"),
        ("<article><span class='math'>\\(x\\)</span></article>", "0 of 1 formulas"),
        (
            "<script src='tex-mml-chtml.js'></script><article><span class='math'>\\(\\wrong{x}\\)</span></article>",
            "does not know",
        ),
        ("<article>the sum $$x$$</article>", "raw markup"),
        ("<article>score {glue:text}`x`</article>", "raw markup"),
        ("<article><div style='width: 900px'>wide</div></article>", "px wide on a phone"),
        ("<article><script>throw new Error('no')</script></article>", "console"),
        ("<article><script src='https://cdn.example.org/x.js'></script></article>", "asks another machine"),
    ],
)
def test_bad_page_is_seen(driver: webdriver.Chrome, tmp_path: Path, page: str, problem: str) -> None:
    shutil.copy(ROOT / "site" / "extra" / "mathjax" / "tex-mml-chtml.js", tmp_path)
    (tmp_path / "page.html").write_text(GOOD.replace("<article><p>Hello</p></article>", page))
    with served(tmp_path) as address:
        assert any(problem in message for message in inspect(driver, f"{address}/page.html"))


def test_good_page_passes(driver: webdriver.Chrome, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(GOOD)
    with served(tmp_path) as address:
        assert inspect(driver, f"{address}/page.html") == []
