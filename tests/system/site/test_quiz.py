"""The quiz in headless Chromium, answers explain themselves, the score stays, without a script it reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import inspect
from headless import served
from markdown_it import MarkdownIt
from quizzes import quiz_cell, read_quiz
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

ROOT = Path(__file__).resolve().parents[3]
QUESTIONS = read_quiz(ROOT / "chapters" / "quizzes" / "attention.yaml")
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A quiz</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<link rel="stylesheet" href="book.css"></head><body><article class="bd-article">QUIZ</article></body></html>"""

pytestmark = pytest.mark.browser


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A page with the quiz as Markdown makes it, and one without its script."""
    shutil.copytree(ROOT / "site" / "extra" / "quiz", tmp_path / "quiz")
    shutil.copy(ROOT / "site" / "style" / "book.css", tmp_path)
    for page, script in (("quiz.html", "quiz/quiz.js"), ("plain.html", "data:text/javascript,")):
        made = MarkdownIt().render(quiz_cell("attention", QUESTIONS, script))
        (tmp_path / page).write_text(_PAGE.replace("QUIZ", made), encoding="utf-8")
    with served(tmp_path) as found:
        yield found


def field(driver: webdriver.Chrome, number: int) -> WebElement:
    return driver.find_elements(By.TAG_NAME, "fieldset")[number]


def choose(driver: webdriver.Chrome, number: int, *, right: bool) -> None:
    """Choose by keyboard the right answer to a question, or the first wrong one."""
    place = next(place for place, choice in enumerate(QUESTIONS[number].choices) if choice.right is right)
    field(driver, number).find_elements(By.TAG_NAME, "input")[place].send_keys(Keys.SPACE)


def told(driver: webdriver.Chrome, number: int) -> str:
    return field(driver, number).find_element(By.CSS_SELECTOR, ".told[role=status]").text


def score(driver: webdriver.Chrome) -> str:
    return driver.find_element(By.CSS_SELECTOR, ".score").text


def test_an_answer_says_why(driver: webdriver.Chrome, address: str) -> None:
    driver.get(f"{address}/quiz.html")
    assert told(driver, 0) == ""
    choose(driver, 0, right=False)
    wrong = next(choice for choice in QUESTIONS[0].choices if not choice.right)
    assert told(driver, 0).startswith(f"Not so: {wrong.why}")
    assert score(driver) == "Right: 0 of 5."
    choose(driver, 0, right=True)
    right = next(choice for choice in QUESTIONS[0].choices if choice.right)
    assert told(driver, 0).startswith(f"Right: {right.why} It stands in {QUESTIONS[0].section}.")
    assert score(driver) == "Right: 1 of 5."
    assert told(driver, 1) == "", "the other questions say nothing yet"


def test_the_score_survives_a_reload_until_it_is_forgotten(driver: webdriver.Chrome, address: str) -> None:
    driver.get(f"{address}/quiz.html")
    choose(driver, 1, right=True)
    choose(driver, 3, right=False)
    kept = told(driver, 1)
    driver.get(f"{address}/quiz.html")
    assert (told(driver, 1), score(driver)) == (kept, "Right: 1 of 5.")
    assert told(driver, 3).startswith("Not so")
    driver.find_element(By.CSS_SELECTOR, "d2l-quiz button").send_keys(Keys.ENTER)
    assert (told(driver, 1), score(driver)) == ("", "")
    driver.get(f"{address}/quiz.html")
    assert score(driver) == ""
    assert not driver.find_elements(By.CSS_SELECTOR, "input:checked")


def test_what_another_page_kept_is_not_believed(driver: webdriver.Chrome, address: str) -> None:
    driver.get(f"{address}/quiz.html")
    for other in ("no JSON", "[9]", "[9, 9, 9, 9, 9]", "{}"):
        driver.execute_script("localStorage.setItem('d2lbert-quiz-attention', arguments[0])", other)
        assert inspect(driver, f"{address}/quiz.html") == []
        assert not driver.find_elements(By.CSS_SELECTOR, "[data-answer]")
    driver.execute_script("localStorage.clear()")


def test_a_page_is_whole_and_its_controls_have_names(driver: webdriver.Chrome, address: str) -> None:
    assert inspect(driver, f"{address}/quiz.html") == []
    for number, question in enumerate(QUESTIONS):
        assert field(driver, number).accessible_name == f"{number + 1}. {question.text}"
        buttons = field(driver, number).find_elements(By.TAG_NAME, "input")
        assert [button.accessible_name for button in buttons] == [choice.text for choice in question.choices]
        assert not field(driver, number).find_element(By.TAG_NAME, "details").is_displayed()


def test_without_a_script_the_answers_are_in_folds(driver: webdriver.Chrome, address: str) -> None:
    driver.get(f"{address}/plain.html")
    fold = field(driver, 2).find_element(By.TAG_NAME, "details")
    assert fold.text == "Answer to question 3"
    fold.find_element(By.TAG_NAME, "summary").click()
    for choice in QUESTIONS[2].choices:
        assert choice.why in fold.text
