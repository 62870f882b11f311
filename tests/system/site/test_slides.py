"""Every deck in a browser that cannot reach the network: nothing is cut off, and keys, notes and figures work."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from addresses import read_addresses
from browser import console_problems, network, request_problems
from contents import chapters, deck_path
from headless import served
from light_pages import lighten
from publish_notebooks import check_copies
from reading import serious
from run_notebook import execute
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from slide_decks import NEEDED, deck, for_site, write_decks
from slide_parts import list_part
from slide_text import blocks, to_html
from slides import MOST, Slide

from d2lbert.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
BROWSER = ROOT / "d2lbert" / "deploy" / "browser" / "js"
_READY = """
const done = arguments[0];
const look = setInterval(() => {
  if (document.documentElement.dataset.ready) { clearInterval(look); done(true); }
}, 20);
"""
# Goes through the slides with everything on them shown, and returns what reaches below the body of a slide or past its
# right edge, pictures that are too small to be seen from the last row, formulas and pictures that are not drawn.
_MEASURE = """
const done = arguments[0];
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
(async () => {
  const found = [];
  const slides = [...document.querySelectorAll(".slides > section")];
  for (const [number, slide] of slides.entries()) {
    const name = `slide ${number + 1}, ${slide.querySelector("h1, h2").textContent}`;
    Reveal.slide(number, 0, 99);
    await pause(slide.querySelector(".play") ? 300 : 10);
    for (const image of slide.querySelectorAll("img")) {
      image.loading = "eager";
      await image.decode().catch(() => {});
    }
    const scale = Reveal.getScale();
    const edge = slide.getBoundingClientRect().right;
    const end = slide.querySelector("footer").getBoundingClientRect().top;
    const shown = ["h1", "h2", ".body > *", ".body p", ".body li", ".body td", ".body pre", ".body mjx-container"];
    for (const node of slide.querySelectorAll(shown)) {
      if (node.closest(".play *, mjx-assistive-mml")) continue;
      const box = node.getBoundingClientRect();
      const wide = node.matches("pre") ? node.scrollWidth - node.clientWidth : 0;
      const below = (box.bottom - end) / scale;
      const right = Math.max(wide, (box.right - edge) / scale);
      if (below > 3 || right > 1) {
        const text = node.textContent.slice(0, 60);
        found.push(`${name}: ${Math.round(below)} px too low or ${Math.round(right)} too wide: ${text}`);
        break;
      }
    }
    for (const image of slide.querySelectorAll("figure img")) {
      if (!image.naturalWidth) found.push(`${name}: a picture is not drawn`);
      if (!image.alt) found.push(`${name}: a picture without alternative text`);
      if (image.getBoundingClientRect().height / scale < 250) found.push(`${name}: a picture is low`);
    }
    if (slide.querySelectorAll(".body .math").length > slide.querySelectorAll(".body .math mjx-container").length)
      found.push(`${name}: a formula is not drawn`);
    for (const play of slide.querySelectorAll(".play [class], .play *"))
      if (play.tagName.startsWith("D2L-") && !play.shadowRoot) found.push(`${name}: a figure did not start`);
  }
  if (document.querySelector("mjx-merror")) found.push("an error in a formula");
  done(found);
})();
"""

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def decks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The decks as the site has them, made from the chapters' last runs."""
    made = tmp_path_factory.mktemp("site")
    for name in NEEDED:
        shutil.copytree(ROOT / "site" / "extra" / name, made / name)
    shutil.copytree(BROWSER, made / "browser")
    executed = ROOT / "_build" / "executed"
    try:
        check_copies(ROOT, executed, chapters(ROOT))
    except UserError:  # not run yet, or another text than then
        assert [path for path in chapters(ROOT) if execute(path, ROOT, executed, {}).error] == []
    write_decks(ROOT, executed, made / "slides", for_site(read_addresses(ROOT)))
    lighten(made)  # pictures become files, as on the site
    return made


def start(driver: webdriver.Chrome, address: str) -> None:
    """Open a deck and wait until it can be shown."""
    driver.get_log("browser"), driver.get_log("performance")
    driver.set_window_size(1300, 860)
    driver.get(address)
    driver.execute_async_script(_READY)


def problems(driver: webdriver.Chrome, address: str) -> list[str]:
    """Return what is wrong with a deck, a line each."""
    start(driver, address)
    found: list[str] = driver.execute_async_script(_MEASURE)
    return found + console_problems(driver) + request_problems(network(driver), address)


def press(driver: webdriver.Chrome, *keys: str) -> None:
    for key in keys:
        driver.find_element(By.TAG_NAME, "body").send_keys(key)


def now(driver: webdriver.Chrome) -> str:
    """Return the visible text of the slide that is shown."""
    text: str = driver.find_element(By.CSS_SELECTOR, "section.present").text
    return text


def test_every_slide_fits_and_is_whole(driver: webdriver.Chrome, decks: Path) -> None:
    paths = [Path(name) for name in map(deck_path, chapters(ROOT)) if name]
    assert sorted(decks.glob("slides/*.html")) == sorted([decks / "slides" / "index.html", *(decks / p for p in paths)])
    found = {}
    with served(decks) as address:
        for path in paths:
            found[path.stem] = problems(driver, f"{address}/{path}")
            count = len(driver.find_elements(By.CSS_SELECTOR, ".slides > section"))
            assert 12 <= count <= MOST, f"{path.stem} has {count} slides"
    assert not {name: lines for name, lines in found.items() if lines}


def test_a_slide_that_is_too_high_is_seen(driver: webdriver.Chrome, decks: Path) -> None:
    high = Slide("section", "Too much", [list_part(["a long line of words " * 12] * 9)], section="Too much")
    page = deck([Slide("title", "A deck"), high], "A part", "../page.html")
    (decks / "slides" / "high.html").write_text(page, encoding="utf-8")
    with served(decks) as address:
        found = problems(driver, f"{address}/slides/high.html")
    (decks / "slides" / "high.html").unlink()
    assert len(found) == 1
    assert "too low" in found[0]


def test_keys_turn_slides_show_answers_and_change_the_light(driver: webdriver.Chrome, decks: Path) -> None:
    with served(decks) as address:
        start(driver, f"{address}/slides/attention.html")
        assert now(driver).startswith("Attention")
        assert "compute attention by hand" in now(driver)
        number = driver.execute_script(
            "return [...document.querySelectorAll('section')].findIndex(s => s.matches('.quiz'))"
        )
        driver.execute_script(f"Reveal.slide({number}, 0, -1)")
        question = now(driver)
        assert "Check yourself" in question
        assert "factor cancels" not in question
        press(driver, Keys.ARROW_RIGHT)
        WebDriverWait(driver, 20).until(lambda page: "factor cancels" in now(page))
        press(driver, Keys.ARROW_RIGHT)
        WebDriverWait(driver, 20).until(lambda page: now(page)[:60] != question[:60])
        seen = []
        for _ in range(2):
            press(driver, "d")
            seen.append(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
        assert len(set(seen)) == 2
        driver.execute_script("localStorage.clear()")


def test_the_speaker_has_notes_in_a_window(driver: webdriver.Chrome, decks: Path) -> None:
    """Read from the page that opened it: the driver would wait until that window is loaded, which it never says."""
    keep = "const open = window.open; window.open = (...given) => { window.spoken = open(...given); return spoken; };"
    with served(decks) as address:
        start(driver, f"{address}/slides/attention.html#/2")
        driver.execute_script(keep)
        press(driver, "s")
        script = "return window.spoken?.document.querySelector('.speaker-controls-notes .value')?.textContent"
        notes = WebDriverWait(driver, 60).until(lambda page: page.execute_script(script))
        driver.execute_script("window.spoken.close()")
        assert "A Python dictionary holds pairs of a key and a value." in notes
        assert "the answer is the weighted average of all values" in notes
        assert request_problems(network(driver), address) == []


def test_everybody_can_read_a_deck(driver: webdriver.Chrome, decks: Path) -> None:
    """Nothing serious for axe-core on slides of each kind, light and dark."""
    kinds = (".title", ":has(.code)", ":has(img)", ":has(.play)", ".quiz", ":has(.table)")
    found = []
    with served(decks) as address:
        start(driver, f"{address}/slides/attention.html")
        for kind in kinds:
            driver.execute_script(
                "Reveal.slide([...document.querySelectorAll('.slides > section')]"
                f".indexOf(document.querySelector('.slides > section{kind}')), 0, 99)"
            )
            for theme in ("light", "dark"):
                driver.execute_script(f"document.documentElement.dataset.theme = '{theme}'")
                found += [f"{kind}, {theme}: {one}" for one in serious(driver)]
        driver.get(f"{address}/slides/index.html")
        found += serious(driver)
    assert not found


def test_a_deck_opens_from_a_folder(driver: webdriver.Chrome, decks: Path) -> None:
    """Without a server, as from a stick."""
    start(driver, (decks / "slides" / "transformer.html").as_uri())
    assert driver.execute_async_script(_MEASURE) == []
    assert console_problems(driver) == []


def test_every_paragraph_is_in_the_notes(decks: Path) -> None:
    path = next(path for path in chapters(ROOT) if path.stem == "seq2seq")
    page = (decks / "slides" / "seq2seq.html").read_text(encoding="utf-8")
    told = "\n\n".join(
        cell.source for cell in nbformat.read(ROOT / path, as_version=4).cells if cell.cell_type == "markdown"
    )
    taught = told.partition("\n## Exercises")[0]
    plain = [block.text for block in blocks(taught) if block.kind == "paragraph"]
    plain = [text for text in plain if not any(mark in text for mark in ("{glue", "{cite", "]("))]
    assert len(plain) > 15
    assert [text for text in plain if to_html(text) not in page] == []
