"""Every page of the built site, in a browser that cannot reach the network."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import yaml
from addresses import read_addresses
from book_files.pages import read_book
from browser import DESKTOP, PHONE, inspect, inspect_open, network, request_problems, resize
from chapter_names import names_by_chapter
from fontTools.ttLib import TTFont
from headless import served
from reading import GOOD, LOOKS, THEMES, icons, put_on, serious, show, thin_code, too_wide, transferred, unreachable
from reference_areas import public_names
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from d2lbert import plots

ROOT = Path(__file__).resolve().parents[3]
# What a reader types, and the page that explains it: the first that the search finds.
QUERIES = {
    "positional encoding": "attention/self_attention",
    "NSP": "pretraining/data",
    "how to cite": "index",
    "WordPiece": "representations/tokenization",
    "byte pair encoding": "representations/tokenization",
    "BPE": "representations/tokenization",
    "attention mask": "attention/attention",
    "beam search": "seq2seq/seq2seq",
    "LayerNorm": "transformer/transformer",
    "fine-tuning": "finetuning/classification",
    "LoRA": "finetuning/adapters",
    "masked language model": "bert/bert",
    "next sentence prediction": "pretraining/data",
    "named entity recognition": "finetuning/tagging",
    "question answering": "finetuning/question_answering",
    "quantization": "compression/quantization",
    "ONNX": "deployment/export",
    "SageMaker": "deployment/sagemaker",
    "word2vec": "representations/word_vectors",
    "GloVe": "representations/word_vectors",
    "BLEU": "transformer/translation",
    "perplexity": "seq2seq/seq2seq",
    "teacher forcing": "transformer/decoder",
    "GLUE": "finetuning/glue",
    "softmax": "attention/attention",
    "pruning": "compression/pruning",
}
# The same for names of the package: pages of the reference.
NAMES = {
    "fine_tune": "torch_training",
    "TransformerEncoderBlock": "torch_encoders",
    "get_model": "models_by_name",
    "d2lbert finetune": "commands",
}
PARTS = 6  # of all pages: each part is a test of a few minutes

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site() -> Path:
    """The built site; chapters that have not changed since they last ran are not run again."""
    build = subprocess.run([sys.executable, "tools/build_book.py"], cwd=ROOT, capture_output=True, text=True)
    assert build.returncode == 0, build.stdout + build.stderr
    return ROOT / "_build" / "html"


def pages(site: Path) -> list[Path]:
    """All but the slides, which have tests of their own."""
    return sorted(path for path in site.rglob("*.html") if not {"_static", "slides"} & set(path.parts))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_is_whole_and_light_fits_and_can_be_used_by_all(
    part: int, driver: webdriver.Chrome, site: Path
) -> None:
    """Nothing that ``inspect`` finds, under 700 KB before anybody scrolls, nothing cut off, no finding of axe-core.

    axe-core is asked for what is serious, in both themes and on a phone: in the dark theme only what looks at colours
    and pictures is asked again, and on a phone only the rest, for a colour does not depend on the width.
    """
    assert len(pages(site)) > len(list((ROOT / "chapters").rglob("*.ipynb")))
    problems: dict[str, list[str]] = {}
    with served(site) as address:
        for path in pages(site)[part::PARTS]:
            page = str(path.relative_to(site))
            driver.get_log("browser"), network(driver)
            show(driver, f"{address}/{page}", DESKTOP)
            asked = network(driver)
            kilobytes = transferred(asked, site) / 1000
            found = [f"{kilobytes:.0f} KB"] * (kilobytes >= 700) + too_wide(driver) + unreachable(driver)
            # Before axe-core, which asks for style sheets by itself.
            found += inspect_open(driver) + request_problems(asked + network(driver), address)
            resize(driver, DESKTOP)
            thin_code(driver)
            found += serious(driver)
            put_on(driver, "dark")
            found += [f"dark: {one}" for one in serious(driver, only=LOOKS) + unreachable(driver)]
            show(driver, f"{address}/{page}", PHONE)
            thin_code(driver, themes=())
            found += [f"phone: {one}" for one in serious(driver, without=LOOKS) + unreachable(driver)]
            problems[page] = found
    assert not {page: found for page, found in problems.items() if found}


@pytest.mark.parametrize(
    "page", ["index", "search", "chapters/attention/attention", "chapters/start/glossary", "reference/text"]
)
def test_colours_can_be_told_apart_on_a_phone_too(page: str, driver: webdriver.Chrome, site: Path) -> None:
    """One page of every kind, in both themes."""
    with served(site) as address:
        show(driver, f"{address}/{page}.html", PHONE)
        found = {}
        for theme in THEMES:
            put_on(driver, theme)
            found[theme] = serious(driver, only=LOOKS) + unreachable(driver)
    assert not {theme: problems for theme, problems in found.items() if problems}


def test_every_icon_is_in_the_fonts(driver: webdriver.Chrome, site: Path) -> None:
    fonts = [TTFont(path) for path in site.glob("_static/vendor/fontawesome/*/webfonts/*.woff")]
    there = {code for font in fonts for code in font.getBestCmap()}
    with served(site) as address:
        show(driver, f"{address}/chapters/bert/bert.html", DESKTOP)
        shown = icons(driver)
    assert len(shown) >= 5
    assert shown <= there


def test_formulas_alone_bring_mathjax_and_no_page_the_script_of_the_icons(site: Path) -> None:
    with_mathjax = {path.name for path in pages(site) if "/formulas.js" in path.read_text(encoding="utf-8")}
    assert "bert.html" in with_mathjax
    assert not {"index.html", "references.html", "search.html"} & with_mathjax
    assert not list(site.glob("_static/vendor/fontawesome/*/js/*.js"))


def test_formulas_are_drawn_after_the_text_can_be_read(driver: webdriver.Chrome, site: Path) -> None:
    with served(site) as address:
        show(driver, f"{address}/chapters/bert/bert.html", DESKTOP)
    painted, asked, drawn, formulas = driver.execute_script(
        "const asked = performance.getEntriesByType('resource').find(({name}) => name.endsWith('mathjax/startup.js'));"
        "return [performance.getEntriesByName('first-contentful-paint')[0].startTime, asked.startTime,"
        "document.querySelectorAll('.math mjx-container').length, document.querySelectorAll('.math').length]"
    )
    assert painted <= asked
    assert drawn == formulas > 20


def test_every_page_says_what_it_is_about(site: Path) -> None:
    described = re.compile(r'<meta name="description" content="([^"]{20,})">')
    found = {path: described.findall(path.read_text(encoding="utf-8")) for path in site.glob("chapters/*/*.html")}
    assert len(found) > 40
    assert not {path: texts for path, texts in found.items() if len(texts) != 1}
    assert len({texts[0] for texts in found.values()}) == len(found)
    listed = (site / "sitemap.xml").read_text(encoding="utf-8")
    for path in found:
        assert f"/{path.relative_to(site).as_posix()}</loc>" in listed


def test_citations_read_alike_in_the_text_and_in_the_list(site: Path) -> None:
    listed = (site / "references.html").read_text(encoding="utf-8")
    labels = re.findall(r'class="label"><span[^>]*>\[</span>(.+?)<span', listed)
    assert len(set(labels)) == len(labels) > 100
    assert listed.count("https://doi.org/") + listed.count("https://arxiv.org/") > 100
    for name in ("bert", "relatives"):
        page = (site / "chapters" / "bert" / f"{name}.html").read_text(encoding="utf-8")
        cited = re.findall(r'href="[./]*references\.html#id\d+"[^>]*>(.+?)</a>', page)
        assert len(cited) > 3
        assert set(cited) <= set(labels)


def test_a_page_is_marked_as_read_until_it_is_not(driver: webdriver.Chrome, site: Path) -> None:
    def button() -> WebElement:
        return driver.find_element(By.CSS_SELECTOR, ".read-button button")

    def ticked() -> list[str]:
        ticks = driver.find_elements(By.CSS_SELECTOR, "nav.bd-links a:has(.read-tick)")
        return [" ".join(link.get_property("textContent").split()) for link in ticks]

    with served(site) as address:
        show(driver, f"{address}/chapters/attention/attention.html", DESKTOP)
        assert (button().get_attribute("aria-pressed"), ticked()) == ("false", [])
        button().send_keys(Keys.ENTER)
        show(driver, f"{address}/chapters/bert/bert.html", DESKTOP)
        assert ticked() == ["Attention ✓ (read)"]
        assert button().get_attribute("aria-pressed") == "false"
        said = driver.find_element(By.CSS_SELECTOR, ".read-button [role=status]").text
        assert re.fullmatch(r"1 of \d\d pages read\.", said)
        show(driver, f"{address}/chapters/attention/attention.html", DESKTOP)
        assert button().get_attribute("aria-pressed") == "true"
        button().send_keys(Keys.SPACE)
        assert ticked() == []
        driver.execute_script("localStorage.setItem('d2lbert-read', 'no list')")
        assert inspect(driver, f"{address}/chapters/attention/attention.html") == []
        assert ticked() == []
        driver.execute_script("localStorage.clear()")


def test_links_inside_the_site_lead_somewhere(site: Path) -> None:
    broken = []
    for page in (path for path in site.rglob("*.html") if "_static" not in path.parts):
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:|//", target) and not (page.parent / unquote(target)).exists():
                broken.append(f"{page.relative_to(site)}: {target}")
    assert not broken


def identifiers(page: Path) -> Counter[str]:
    """The anchors of a page."""
    return Counter(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8")))


def test_the_reference_and_the_chapters_lead_to_each_other(site: Path) -> None:
    there = {path: identifiers(path) for path in pages(site)}
    described = sum((there[path] for path in (site / "reference").glob("*.html")), Counter())
    assert {name: described[name] for name in public_names() if described[name] != 1} == {}
    dead, chapters = [], set()
    for path in there:
        text = path.read_text(encoding="utf-8")
        for target, anchor in re.findall(
            r'href="([^":#]*reference/\w+\.html|[^":#]*chapters/[\w/]+\.html|)#([^"]+)"', text
        ):
            if anchor not in there[(path.parent / target).resolve() if target else path]:
                dead.append(f"{path.relative_to(site)}: {target}#{anchor}")
        if 'class="book-reference admonition' in text:
            chapters.add(path.relative_to(site).with_suffix(".ipynb"))
    assert dead == []
    assert chapters == {path for path, names in names_by_chapter().items() if names.used or names.built}
    for path in (site / "reference").glob("*.html"):
        classes = re.findall(
            r'<dl class="py class">(.*?)(?=<dl class="py (?:class|function|data)">|\Z)', path.read_text(), re.S
        )
        assert [text[:200] for text in classes if '="../chapters/' not in text] == [], path


def test_parts_of_docstrings_are_lists_with_names(driver: webdriver.Chrome, site: Path) -> None:
    wanted = {
        "d2lbert.torch.attention.masked_softmax": ["Parameters:", "Returns:"],
        "d2lbert.torch.bert.BertModel.forward": ["Parameters:", "Raises:"],
        "d2lbert.outputs.Rows": ["Fields:"],
    }
    pages_of = {"masked_softmax": "torch_encoders", "forward": "torch_encoders", "Rows": "models_by_name"}
    with served(site) as address:
        for name, fields in wanted.items():
            driver.get(f"{address}/reference/{pages_of[name.rpartition('.')[2]]}.html")
            body = driver.find_element(By.ID, name).find_element(By.XPATH, "following-sibling::dd")
            names = body.find_elements(By.CSS_SELECTOR, ":scope > dl.field-list > dt")
            assert ["".join(one.text.split()) for one in names] == fields


def test_terms_have_their_meaning_where_a_chapter_first_uses_them(site: Path) -> None:
    page = (site / "chapters" / "bert" / "bert.html").read_text(encoding="utf-8")
    found = re.findall(r'<a class="book-term" data-meaning="([^"]+)" href="([^"]+)">([^<]+)</a>', page)
    assert len(found) > 10
    assert len({words.lower() for *_, words in found}) == len(found), "the first use of each alone"
    assert "terms.js" in page
    assert "book-term" not in (site / "chapters" / "start" / "glossary.html").read_text(encoding="utf-8")


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


def test_the_whole_book_can_be_bound(site: Path) -> None:
    """Every page that ``make pdf`` and ``make epub`` bind is read, and no link inside the book is lost."""
    book = read_book(ROOT, ROOT / "_build" / "executed")
    bound = {page.id for page in book.pages}
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    listed = [Path(page["file"]) for part in contents["parts"] for page in part["chapters"]]
    wanted = {".".join(path.parts).removeprefix("chapters.") for path in listed if path.parts[0] != "reference"}
    assert bound == {"about", contents["root"], *wanted}
    assert "Tell us" in next(page.tree.text_content() for page in book.pages if page.id == "errata")


def test_search_finds_a_word(driver: webdriver.Chrome, site: Path) -> None:
    with served(site) as address:
        driver.get(f"{address}/search.html?q=attention")
        results = WebDriverWait(driver, 30).until(
            lambda page: page.find_elements(By.CSS_SELECTOR, "#search-results li a")
        )
        assert len(results) >= 2


def test_search_finds_the_right_page_first(driver: webdriver.Chrome, site: Path) -> None:
    """By the page's own search, which the results are sorted by, the best last."""
    script = "return Search._performSearch(...Search._parseQuery(arguments[0])).at(-1)?.[0]"
    with served(site) as address:
        driver.get(f"{address}/search.html?q=attention")
        WebDriverWait(driver, 30).until(lambda page: page.find_elements(By.CSS_SELECTOR, "#search-results li a"))
        found = {query: driver.execute_script(script, query) for query in [*QUERIES, *NAMES]}
    wanted = {query: name if name == "index" else f"chapters/{name}" for query, name in QUERIES.items()}
    wanted |= {query: f"reference/{name}" for query, name in NAMES.items()}
    assert {query: name for query, name in found.items() if name != wanted[query]} == {}


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


def test_every_figure_to_play_with_starts(driver: webdriver.Chrome, site: Path) -> None:
    found = {path: re.findall(r"<(d2l-[a-z-]+)>", path.read_text(encoding="utf-8")) for path in pages(site)}
    with served(site) as address:
        for path, names in ((path, names) for path, names in found.items() if names):
            driver.get(f"{address}/{path.relative_to(site)}")
            for name in names:
                root = WebDriverWait(driver, 30).until(lambda page, name=name: shadow(page, name))
                assert root.find_element(By.CSS_SELECTOR, "[role=status]").text, f"{name} in {path}"
    assert sum(map(len, found.values())) >= 6


def shadow(driver: webdriver.Chrome, name: str) -> Any:
    """What a figure drew, or None while it has not."""
    return driver.execute_script("return document.querySelector(arguments[0]).shadowRoot", name)
