"""The quiz of a chapter on paper: the questions with lettered choices, and the answers at the end of the section."""

from __future__ import annotations

import re

import nbformat
from deck_pages import slug
from quizzes import HEADING, Question, markup

_EXERCISES = re.compile(r"^## Exercises$", flags=re.MULTILINE)
_LETTERS = "abcdefgh"


def add_quiz(notebook: nbformat.NotebookNode, questions: list[Question]) -> None:
    """Put a quiz before the exercises of a chapter."""
    text = f"{HEADING}\n\nAnswer from memory. The answers stand at the end of this section.\n\n"
    text += "\n".join([*_asked(questions), *_answers(questions)])
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _EXERCISES.sub(lambda found: f"{text}\n\n{found[0]}", cell.source)


def _asked(questions: list[Question]) -> list[str]:
    """Return the questions as HTML without an empty line, which would end it."""
    lines = ['<ol class="quiz">']
    for question in questions:
        choices = "".join(f"<li>{markup(choice.text)}</li>" for choice in question.choices)
        lines.append(f'<li><p>{markup(question.text)}</p><ol class="choices">{choices}</ol></li>')
    return [*lines, "</ol>"]


def _answers(questions: list[Question]) -> list[str]:
    lines = ['<p class="fold-name">Answers</p>', '<ol class="quiz answers">']
    for question in questions:
        right = next(letter for letter, choice in zip(_LETTERS, question.choices, strict=False) if choice.right)
        section = f'<a href="#{slug(question.section)}">{markup(question.section)}</a>'
        whys = "".join(
            f"<li>{'Right' if choice.right else 'Not so'}: {markup(choice.why)}</li>" for choice in question.choices
        )
        lines.append(f'<li><p><strong>{right}</strong>. See {section}.</p><ol class="choices">{whys}</ol></li>')
    return [*lines, "</ol>"]
