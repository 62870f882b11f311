"""What the tests of the site look for is seen: on pages that have a fault, and on one that has none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, inspect
from headless import served
from reading import GOOD, LOOKS, put_on, serious, show, thin_code, unreachable
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("<article><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='></article>", "without alternative text"),
        ("<article><img alt='a picture' src='nothing.png'></article>", "answered 404"),
        ("<article><span class='math'>\\(x\\)</span></article>", "0 of 1 formulas"),
        (
            "<script>MathJax = {loader: {load: ['input/tex', 'output/chtml']}}</script>"
            "<script src='startup.js'></script><article><span class='math'>\\(\\wrong{x}\\)</span></article>",
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
    shutil.copytree(ROOT / "site" / "extra" / "mathjax", tmp_path, dirs_exist_ok=True)
    (tmp_path / "page.html").write_text(GOOD.replace("<article><p>Hello</p></article>", page))
    with served(tmp_path) as address:
        assert any(problem in message for message in inspect(driver, f"{address}/page.html"))


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("<img src='data:,'>", "image-alt"),
        ("<p style='color: #999'>pale</p>", "color-contrast"),
        ("<label>field: <input value='pale' style='color: #999'></label>", "color-contrast"),
        ("<div role='list'><div role='note'>a</div></div>", "aria-required-children"),
    ],
)
def test_what_a_reader_cannot_use_is_seen(driver: webdriver.Chrome, tmp_path: Path, page: str, problem: str) -> None:
    (tmp_path / "page.html").write_text(GOOD.replace("<p>Hello</p>", f"<title>t</title><p>Hello</p>{page}"))
    with served(tmp_path) as address:
        show(driver, f"{address}/page.html", DESKTOP)
        assert [one for one in serious(driver) if one.startswith(problem)]
        assert bool(serious(driver, only=LOOKS)) == (problem in LOOKS)
        assert bool(serious(driver, without=LOOKS)) == (problem not in LOOKS)


WORDS = "<b>word</b> " * 20
HIDDEN = f"<details style='color: #999'><p>{'</p><p>'.join(['pale'] * 9)}</p></details>"


@pytest.mark.parametrize(
    "page",
    [
        f"<p>{WORDS}<b style='color: #999'>pale</b>{WORDS * 3}</p>",
        f"<p>{WORDS}</p><p style='background: #555'>{WORDS}</p><p>{WORDS * 3}</p>",
        f"<p>{WORDS}</p><p style='opacity: .3'>{WORDS}</p><p>{WORDS * 3}</p>",
        f"{HIDDEN}<p style='color: #999'>pale</p>{HIDDEN}{HIDDEN}<p>{WORDS}</p>",
    ],
)
def test_one_pale_word_of_many_is_seen(driver: webdriver.Chrome, tmp_path: Path, page: str) -> None:
    (tmp_path / "page.html").write_text(GOOD.replace("<p>Hello</p>", f"<title>t</title>{page}"))
    with served(tmp_path) as address:
        show(driver, f"{address}/page.html", DESKTOP)
        assert {one.partition(":")[0] for one in serious(driver)} == {"color-contrast"}
        driver.execute_script("for (const one of document.querySelectorAll('*')) one.style = 'color: black'")
        assert serious(driver, only=LOOKS) == []


def test_a_pale_word_is_seen_in_thinned_code_in_the_theme_where_it_is_pale(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    style = "<style>[data-theme=dark] { background: #000; color: #fff } [data-theme=dark] .pale { color: #444 }</style>"
    code = (
        f"<pre>{'<span class=k>def</span> ' * 20}<span class=pale>fine</span> {'<span class=k>def</span> ' * 40}</pre>"
    )
    kept = "<pre><span class=k id=anchor>def</span></pre>"
    page = f"<title>t</title>{style}{code}{kept}<details><summary>more</summary>{code}</details>"
    (tmp_path / "page.html").write_text(GOOD.replace("<p>Hello</p>", page))
    with served(tmp_path) as address:
        show(driver, f"{address}/page.html", DESKTOP)
        text = driver.execute_script("return document.body.textContent")
        thin_code(driver)
        assert driver.execute_script("return document.querySelectorAll('pre span').length") == 5
        assert driver.execute_script("return document.body.textContent") == text
        assert serious(driver) == []
        put_on(driver, "dark")
        assert [one.partition(" ")[0] for one in serious(driver)] == ["color-contrast:"]
        thin_code(driver, themes=())
        assert driver.execute_script("return document.querySelectorAll('pre span').length") == 1


def test_a_link_that_looks_like_the_text_around_it_is_seen(driver: webdriver.Chrome, tmp_path: Path) -> None:
    links, lost = "<a href='page.html'>link</a> and words " * 9, "<a href='page.html' class='lost'>lost</a> and words "
    style = "<style>a { color: #020 } .lost { text-decoration: none }</style>"
    for page, wanted in ((links + lost + links * 3, {"link-in-text-block"}), (links, set())):
        (tmp_path / "page.html").write_text(GOOD.replace("<p>Hello</p>", f"<title>t</title>{style}<p>{page}</p>"))
        with served(tmp_path) as address:
            show(driver, f"{address}/page.html", DESKTOP)
            assert {one.partition(":")[0] for one in serious(driver, only=LOOKS)} == wanted


def test_a_rule_that_breaks_off_is_seen(driver: webdriver.Chrome, tmp_path: Path) -> None:
    broken = "<script>Range.prototype.getClientRects = () => { throw new Error('no') }</script>"
    (tmp_path / "page.html").write_text(GOOD.replace("<p>Hello</p>", f"<title>t</title><p>Hello</p>{broken}"))
    with served(tmp_path) as address:
        show(driver, f"{address}/page.html", DESKTOP)
        assert [one for one in serious(driver) if one.startswith("color-contrast broke off: ")]


@pytest.mark.parametrize(
    "wide", ["<table><tr><td>WIDE</td></tr></table>", "<mjx-container display='true'>WIDE</mjx-container>"]
)
def test_wide_things_can_be_reached_by_keyboard_and_say_that_they_go_on(
    driver: webdriver.Chrome, tmp_path: Path, wide: str
) -> None:
    for name in ("book.css", "scrollers.js"):
        shutil.copy(ROOT / "site" / "style" / name, tmp_path)
    colours = ":root { --pst-color-text-muted: #555; --pst-color-primary: blue } mjx-container { display: block }"
    head = f"<link rel='stylesheet' href='book.css'><style>{colours}</style>"
    body = wide.replace("WIDE", f"<div style='width: 1000px'>{'a ' * 9}</div>")
    script = "<script src='scrollers.js'></script>"
    (tmp_path / "bare.html").write_text(GOOD.replace("<article>", f"{head}<article class='bd-article'>{body}"))
    (tmp_path / "page.html").write_text(GOOD.replace("<article>", f"{head}<article class='bd-article'>{body}{script}"))
    with served(tmp_path) as address:
        show(driver, f"{address}/bare.html", PHONE)
        assert len(unreachable(driver)) == 1
        show(driver, f"{address}/page.html", PHONE)
        assert unreachable(driver) == []
        box = driver.switch_to.active_element
        box.send_keys(Keys.TAB)
        box = driver.switch_to.active_element
        assert box.get_attribute("aria-label").startswith("Wide ")
        box.send_keys(Keys.ARROW_RIGHT)
        WebDriverWait(driver, 10).until(lambda _: driver.execute_script("return arguments[0].scrollLeft", box) > 0)
        WebDriverWait(driver, 10).until(lambda _: "came-from" in box.get_attribute("class"))
        show(driver, f"{address}/page.html", (1200, 900))
        assert driver.find_elements(By.CSS_SELECTOR, "[tabindex]") == []


def test_good_page_passes(driver: webdriver.Chrome, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(GOOD)
    with served(tmp_path) as address:
        assert inspect(driver, f"{address}/page.html") == []
