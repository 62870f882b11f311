"""The quiz of a chapter: questions from ``chapters/quizzes/<slug>.yaml``, as they stand on its page.

A file is a list of questions::

    - question: What is a softmax over one score?
      section: Scores and weights      # a heading of the chapter, where the answer stands
      choices:
        - wrong: The score itself.
          why: A softmax divides by the sum of the exponentials, so the weights sum to one.
        - right: One.
          why: The only weight gets the whole sum.

Texts may hold `code` and *emphasis*. Without a script the page shows the questions, and the explanations in a fold;
``site/extra/quiz/quiz.js`` makes them answer.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

import yaml
from docutils.nodes import make_id  # the site names its sections so

QUESTIONS = 5
HEADING = "## Check yourself"


@dataclass(frozen=True)
class Choice:
    """One answer to choose: its text, whether it is right, and why or why not."""

    text: str
    right: bool
    why: str


@dataclass(frozen=True)
class Question:
    """A question, the heading of the section that answers it, and the answers to choose from."""

    text: str
    section: str
    choices: tuple[Choice, ...]


def read_quiz(path: Path) -> list[Question]:
    """Return the questions of a file.

    Raises:
        ValueError: the file is no such list; the message says which question and what is wrong.
    """
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    questions = []
    for number, row in enumerate(rows, start=1):
        where = f"{path.name}, question {number}"
        if set(row) != {"question", "section", "choices"}:
            raise ValueError(f"{where}: wants question, section and choices, not {', '.join(row)}")
        choices = tuple(_choice(choice, where) for choice in row["choices"])
        if sum(choice.right for choice in choices) != 1:
            raise ValueError(f"{where}: exactly one choice is right")
        questions.append(Question(row["question"], row["section"], choices))
    return questions


def _choice(row: dict[str, str], where: str) -> Choice:
    kinds = set(row) - {"why"}
    if kinds not in ({"right"}, {"wrong"}) or len(row) != 2 or not all(isinstance(text, str) for text in row.values()):
        raise ValueError(f"{where}: a choice is two texts, right or wrong, and why: {row}")
    return Choice(row.get("right") or row["wrong"], "right" in row, row["why"])


def quiz_cell(name: str, questions: list[Question], script: str) -> str:
    """Return the quiz of a chapter as a cell: a heading and HTML without an empty line, which would end it.

    Args:
        name: the chapter's slug.
        questions: as ``read_quiz`` returns them.
        script: address of ``quiz.js``, seen from the page.
    """
    lines = [f'<d2l-quiz data-name="{name}">']
    for number, question in enumerate(questions, start=1):
        lines += _question(name, number, question)
    lines += ["<p class='score' role='status' aria-live='polite'></p>", "</d2l-quiz>"]
    lines.append(f'<script type="module" src="{script}"></script>')
    return f"{HEADING}\n\nAnswer from memory. Each answer tells you why.\n\n" + "\n".join(lines)


def _question(name: str, number: int, question: Question) -> list[str]:
    lines = ["<fieldset>", f"<legend>{number}. {markup(question.text)}</legend>"]
    for place, choice in enumerate(question.choices):
        button = f'<input type="radio" name="{name}-{number}" value="{place}">'
        lines.append(f"<label>{button} <span>{markup(choice.text)}</span></label>")
    lines.append("<p class='told' role='status' aria-live='polite'></p>")
    lines.append(f"<details><summary>Answer to question {number}</summary><ul>")
    for choice in question.choices:
        kind, verdict = ("right", "Right") if choice.right else ("wrong", "Not so")
        why = f"<span>{verdict}: {markup(choice.why)}</span>"
        lines.append(f'<li class="{kind}"><em>{markup(choice.text)}</em> {why}</li>')
    lines.append(f'</ul><p>It stands in <a href="#{make_id(question.section)}">{markup(question.section)}</a>.</p>')
    return [*lines, "</details>", "</fieldset>"]


def markup(text: str) -> str:
    """Return a text as HTML: `code` and *emphasis* are marked, all else stands as it is.

    Lines are joined, since an empty one would end the block.
    """
    escaped = html.escape(" ".join(text.split()), quote=False)
    parts = re.split(r"(`[^`]+`)", escaped)
    marked = [
        f"<code>{part[1:-1]}</code>" if part.startswith("`") else re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", part)
        for part in parts
    ]
    return "".join(marked)
