"""BERT in headless Chromium: nothing before a click, nothing from elsewhere, and Python's results."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import inspect
from browser_demo import demonstrations, download_sizes, fill_demos, write_demo
from headless import served
from markdown_it import MarkdownIt
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from d2lbert import get_model
from d2lbert.data import Sentence
from d2lbert.data.facts import TALKS
from d2lbert.deploy.browser.export import export_for_browser
from d2lbert.deploy.exported import load_trained
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.torch.masked_words import fill_masks
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.training.evaluation import predict
from d2lbert.zoo.folders import locate

ROOT = Path(__file__).resolve().parents[3]
PAGE = "browser/index.html"
REVIEWS = (
    "A warm and funny film.", "I was bored.", "A mess.", "The best film of the year!",
    "Two hours that I will not get back.",
    "She plays the part with wit and heart.", "Dull, loud and far too long.", "I laughed until I cried.",
    "The plot makes no sense.", "A quiet, beautiful story.", "Nobody should have to watch this.",
    "Charming from start to end.",
    "It falls apart in the second half.", "A thrilling ride.", "The jokes are stale.", "A masterpiece.",
    "Badly written, badly played.", "I would see it again tomorrow.", "An empty film.", "Clever, tender and wise.",
)  # fmt: skip
GAPS = tuple(
    f"{start} [MASK] {end}"
    for start in ("The city is the", "He was born in", "It is one of the", "She studied at the")
    for end in ("of the country.", "in 1950.", "and the river.", "of a company.", ".")
)
_RUN = """
const [folder, method, name, texts, done] = arguments;
(async () => {
  const { Model, loadRuntime } = await import("./model.js");
  globalThis.ort ??= await loadRuntime(new URL("../onnxruntime/", location));
  const model = await Model.open(folder, ort);
  const found = [];
  for (const text of texts) found.push(await model[method](name, ...[text].flat()));
  return JSON.stringify(found.map(({ attentions, ...rest }) => rest));
})().then(done, (error) => done(`failed: ${error}`));
"""

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def extra(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the site has beside its pages. Exported models are kept where the build keeps them."""
    folder = tmp_path_factory.mktemp("site") / "extra"
    shutil.copytree(ROOT / "site" / "extra", folder)
    write_demo(ROOT, folder, ROOT / "_build" / "models")
    return folder


@pytest.fixture(scope="module")
def address(extra: Path) -> Iterator[str]:
    with served(extra) as found:
        yield found


def requested(driver: webdriver.Chrome) -> list[str]:
    """The addresses that the browser has asked for since this was last called."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return [url for url in found if not url.startswith(("data:", "blob:", "chrome", "about:"))]


def in_chromium(driver: webdriver.Chrome, address: str, *call: Any) -> list[dict[str, Any]]:
    driver.get(f"{address}/{PAGE}")
    text = driver.execute_async_script(_RUN, *call)
    assert not text.startswith("failed"), text
    return json.loads(text)


def press(driver: webdriver.Chrome, demo: str, seconds: float = 200) -> str:
    """Press a demonstration's button as a keyboard does; return what it says when it is done."""
    form = driver.find_element(By.CSS_SELECTOR, f"form[data-demo={demo}]")
    form.find_element(By.TAG_NAME, "button").send_keys("\n")
    status = form.find_element(By.CSS_SELECTOR, "[role=status]")
    WebDriverWait(driver, seconds).until(
        lambda _: status.text and not status.text.startswith(("Downloading", "Computing"))
    )
    return status.text


def test_the_page_is_whole_wide_and_narrow(driver: webdriver.Chrome, address: str) -> None:
    assert inspect(driver, f"{address}/{PAGE}") == []
    for field in driver.find_elements(By.CSS_SELECTOR, "textarea, select"):
        assert driver.find_element(By.CSS_SELECTOR, f"label[for={field.get_attribute('id')}]").text
    assert "{{" not in driver.page_source


def test_nothing_comes_before_a_click_and_nothing_from_elsewhere(
    driver: webdriver.Chrome, address: str, extra: Path
) -> None:
    driver.get_log("performance")
    driver.get(f"{address}/{PAGE}")
    assert {url.removeprefix(address) for url in requested(driver)} == {f"/{PAGE}", "/browser/demo.js"}
    assert press(driver, "sentiment").startswith("The review is ")
    asked = [url.removeprefix(address) for url in requested(driver)]
    assert all(url.startswith("/") for url in asked), asked  # nobody but the server of the page
    assert len(asked) == len(set(asked))
    stated = sum((extra / url.lstrip("/")).stat().st_size for url in asked)
    manifest = (extra / "models" / "minilm" / "browser.json").stat().st_size
    loaded_before = (extra / "browser" / "demo.js").stat().st_size
    assert stated - manifest == download_sizes(extra)["sentiment"] - loaded_before
    assert press(driver, "entities").startswith("Found: ")
    assert [url.removeprefix(address) for url in requested(driver)] == ["/models/minilm/entities.safetensors"]
    assert press(driver, "answers") in ("The answer: Seattle", "The answer: in Seattle")  # as good as equally probable
    assert [url.removeprefix(address) for url in requested(driver)] == ["/models/minilm/answers.safetensors"]
    said = driver.find_element(By.CSS_SELECTOR, "form[data-demo=sentiment] [role=status]").text
    assert said.startswith("The review is ")  # not the progress of the other task's download


def test_what_has_been_loaded_works_without_a_network(driver: webdriver.Chrome, address: str) -> None:
    driver.get(f"{address}/{PAGE}")
    before = press(driver, "sentiment")
    with offline(driver):
        field = driver.find_element(By.ID, "mood-text")
        field.clear()
        field.send_keys("A warm and funny film.")
        assert press(driver, "sentiment") == "The review is positive."
        assert press(driver, "entities").startswith("This did not work: ")
    assert before == "The review is negative.", "half an hour too long"
    assert press(driver, "entities").startswith("Found: ")


@contextlib.contextmanager
def offline(driver: webdriver.Chrome) -> Iterator[None]:
    """In this context the browser has no network, and no file that it keeps from an earlier page."""
    settings = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **settings})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **settings})


def test_the_gap_is_filled_and_attention_is_shown(driver: webdriver.Chrome, address: str) -> None:
    driver.get(f"{address}/{PAGE}")
    assert press(driver, "gap").startswith("The likeliest: ")
    first, second = driver.find_elements(By.CSS_SELECTOR, "form[data-demo=gap] table")
    assert len(first.find_elements(By.CSS_SELECTOR, "tbody tr")) == 5
    rows = second.find_elements(By.CSS_SELECTOR, "tbody tr")
    assert rows[0].text.startswith("1 [CLS]")
    assert driver.find_element(By.CSS_SELECTOR, "form[data-demo=gap] button").text == "Guess"
    text = driver.find_element(By.ID, "gap-text")
    text.clear()
    text.send_keys("no gap at all")
    assert press(driver, "gap") == (
        "This did not work: the text has no [MASK]: write one where a word is to be guessed"
    )


def test_a_chapter_has_the_demonstration_that_it_asks_for(driver: webdriver.Chrome, address: str, extra: Path) -> None:
    demos = demonstrations(extra / "browser" / "index.html")
    assert set(demos) == {"gap", "sentiment", "entities", "answers"}
    (extra / "chapters" / "bert").mkdir(parents=True)
    made = MarkdownIt().render(fill_demos("Before.\n\n<!-- demo: gap -->\n\nAfter.", demos, "../../"))
    head = '<title>BERT</title><link rel="icon" href="data:,">'
    page = f'<!doctype html><html lang="en"><head>{head}</head><body>{made}</body></html>'
    (extra / "chapters" / "bert" / "bert.html").write_text(page, encoding="utf-8")
    assert inspect(driver, f"{address}/chapters/bert/bert.html") == []
    requested(driver)
    driver.get(f"{address}/chapters/bert/bert.html")
    loaded = {url.removeprefix(address) for url in requested(driver)}
    assert loaded == {"/chapters/bert/bert.html", "/browser/demo.js"}
    group = driver.find_element(By.CSS_SELECTOR, ".bert-demo[role=group]")
    assert group.accessible_name == "Fill a gap, and see the attention"
    assert press(driver, "gap").startswith("The likeliest: ")


def test_twenty_gaps_have_the_probabilities_of_python(driver: webdriver.Chrome, address: str) -> None:
    found = in_chromium(driver, address, "../models/tiny/", "fillMask", "tiny", list(GAPS))
    model, tokenizer = BertForPretraining.from_pretrained(locate("d2lbert-tiny")).eval(), get_model("d2lbert-tiny")[1]
    assert len(found) == 20
    for text, theirs in zip(GAPS, found, strict=True):
        (ours,), (gap,) = fill_masks(model, tokenizer, text), theirs["gaps"]
        assert [one["probability"] for one in gap] == pytest.approx([probability for _, probability in ours], abs=1e-3)
        assert gap[0]["piece"] == ours[0][0]


def test_twenty_reviews_have_the_labels_of_python(driver: webdriver.Chrome, address: str) -> None:
    found = in_chromium(driver, address, "../models/minilm/", "classify", "sentiment", list(REVIEWS))
    model, tokenizer = load_trained("minilm-sst2")
    right = predict(model, Classification(model.labels), tokenizer, [Sentence(text) for text in REVIEWS], 128)
    assert len(found) == 20
    assert [one["label"] for one in found] == [one["label"] for one in right]
    assert {one["label"] for one in found} == {"negative", "positive"}


def test_the_questions_of_the_talks_have_the_answers_of_python(
    driver: webdriver.Chrome, address: str, extra: Path
) -> None:
    """In 32 bits with the same probabilities; in 8, where nearly equal answers may change places, one of the best."""
    export_for_browser({"answers": "minilm-squad"}, extra / "models" / "exact")
    asked = [[one.question, one.context] for one in TALKS]
    model, tokenizer = load_trained("minilm-squad")
    right = predict(model, QuestionAnswering(), tokenizer, TALKS, 256)
    exact = in_chromium(driver, address, "../models/exact/", "answer", "answers", asked)
    assert len(exact) == len(right) >= 5
    for ours, theirs in zip(right, exact, strict=True):
        assert ours["answer"] == theirs["answer"]
        assert ours["probability"] == pytest.approx(theirs["probability"], abs=1e-3)
    for ours, theirs in zip(
        right, in_chromium(driver, address, "../models/minilm/", "answer", "answers", asked), strict=True
    ):
        assert theirs["answer"] in [one["answer"] for one in ours["n_best"]]
