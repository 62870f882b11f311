"""Write a deck of slides for each chapter, from the copies that ``make book`` has run.

    python tools/slide_decks.py

``_build/slides`` then holds ``slides/<slug>.html``, an index of them, and all that they need: the folder can be carried
to a machine without a network. ``tools/slides.py`` says what goes on a slide. The site has the same decks.
"""

from __future__ import annotations

import dataclasses
import html
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
from addresses import Addresses, read_addresses
from citations import Bibliography
from contents import chapters, deck_path, place, title
from deck_pages import slug
from portable import portable
from publish_notebooks import check_copies
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound
from quizzes import Question, markup, read_quiz
from slide_parts import Part
from slide_text import line_to_html, to_html
from slides import Slide, choose

from d2lbert.errors import UserError
from d2lbert.storage.files import write_text

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("slides", "mathjax", "figures")  # folders of site/extra that a deck asks for
_BROWSER = ROOT / "d2lbert" / "deploy" / "browser" / "js"  # what some figures use besides, in the folder "browser"
_PLAYED = re.compile(r"<d2l-([a-z-]+)>")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: slides</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="reveal/reveal.css">
<link rel="stylesheet" href="slides.css">
</head>
{body}
</html>
"""
_DECK = """<body>
<main class="reveal">
<div class="slides">
{slides}
</div>
</main>
<script src="reveal/reveal.js"></script>
<script src="reveal/notes.js"></script>
<script src="slides.js"{mathematics}></script>
{scripts}
</body>"""
_LICENCE = "The d2lbert authors. Text: CC BY-SA 4.0. Code: Apache-2.0."


def for_site(addresses: Addresses) -> Addresses:
    """Return addresses as a deck on the site sees them: its pages lie one folder up."""
    return dataclasses.replace(addresses, site="../")


def write_decks(root: Path, executed: Path, folder: Path, addresses: Addresses) -> list[Path]:
    """Write the deck of every chapter, and an index, into ``folder``; return the decks.

    Args:
        root: of the checkout.
        executed: where the executed copies lie.
        folder: that of the decks, which has ``slides.css`` already.
        addresses: where links lead.

    Raises:
        UserError: a copy is missing or old, or its text cannot be resolved.
    """
    check_copies(root, executed, chapters(root))
    works = Bibliography(root / "references.bib", addresses.page(Path("references.md")))
    written = []
    for path in filter(deck_path, chapters(root)):
        notebook = portable(nbformat.read(executed / path, as_version=4), path, addresses, works)
        bank = root / "chapters" / "quizzes" / f"{path.stem}.yaml"
        slides = choose(notebook, read_quiz(bank) if bank.is_file() else [])
        written.append(folder / f"{path.stem}.html")
        write_text(written[-1], deck(slides, place(root, path).part, addresses.page(path)))
    write_text(folder / "index.html", _index(root))
    return written


def deck(slides: list[Slide], part: str, page: str) -> str:
    """Return a deck as a page of HTML.

    Args:
        slides: as ``choose`` returns them.
        part: of the book, for the first slide.
        page: address of the chapter's page.
    """
    made = "\n".join(_slide(slide, part, page) for slide in slides)
    played = dict.fromkeys(_PLAYED.findall(made))
    scripts = "\n".join(f'<script type="module" src="../figures/{name}.js"></script>' for name in played)
    mathematics = ' data-mathjax="../mathjax"' if 'class="math"' in made else ""
    body = _DECK.format(slides=made, scripts=scripts, mathematics=mathematics)
    return _PAGE.format(title=html.escape(_plain(slides[0].title)), body=body)


def _slide(slide: Slide, part: str, page: str) -> str:
    heading = "h1" if slide.kind == "title" else "h2"
    anchor = f"{page}#{slug(slide.section)}" if slide.section else page
    where = f"{part}: the chapter" if slide.kind == "title" else "In the chapter"
    shown = _question(slide.question) if slide.question else "\n".join(_part(one) for one in slide.parts)
    notes = "\n".join(to_html(text) for text in slide.notes)
    return (
        f'<section class="{slide.kind}">\n<{heading}>{line_to_html(slide.title)}</{heading}>\n'
        f'<div class="body">\n{shown}\n</div>\n'
        f'<footer><a href="{html.escape(anchor)}">{html.escape(where)}</a> <span>{_LICENCE}</span></footer>\n'
        f'<aside class="notes">\n{notes}\n</aside>\n</section>'
    )


def _part(part: Part) -> str:
    if part.kind in ("lead", "text"):
        return f'<p class="{part.kind}">{line_to_html(part.text)}</p>'
    if part.kind == "finding":
        return f'<p class="finding fragment">{line_to_html(part.text)}</p>'
    if part.kind == "figure":
        return f'<figure><img src="{part.text}" alt="{part.alt}"><figcaption>{part.caption}</figcaption></figure>'
    if part.kind == "play":
        return f'<div class="play">{part.text}</div>'
    if part.kind == "code":
        return f'<div class="code">{_highlighted(part.text, part.language)}</div>'
    if part.kind == "output":
        return f'<pre class="output">{html.escape(part.text, quote=False)}</pre>'
    return f'<div class="{part.kind}">{to_html(part.text)}</div>'


def _highlighted(source: str, language: str) -> str:
    try:
        lexer = get_lexer_by_name(language, stripall=False)
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    return str(highlight(source, lexer, HtmlFormatter(nowrap=False))).strip()


def _question(question: Question) -> str:
    """Return a question with its answers; the right one is marked, and says why, when the speaker goes on."""
    lines = [f'<p class="lead">{markup(question.text)}</p>', "<ol>"]
    for choice in question.choices:
        marks = ' class="right fragment custom" data-fragment-index="0"' if choice.right else ""
        lines.append(f"<li{marks}>{markup(choice.text)}</li>")
    why = next(choice.why for choice in question.choices if choice.right)
    return "\n".join([*lines, "</ol>", f'<p class="finding fragment" data-fragment-index="0">{markup(why)}</p>'])


def _index(root: Path) -> str:
    """Return the page that leads to all decks."""
    lines = ['<body class="index"><main>', "<h1>Slides</h1>"]
    lines.append(
        "<p>A deck for each chapter, made from its notebook. Arrow keys go on, <kbd>S</kbd> opens the speaker's notes, "
        "<kbd>O</kbd> shows all slides, <kbd>D</kbd> changes between light and dark, <kbd>?</kbd> tells more keys.</p>"
    )
    part = ""
    for path in filter(deck_path, chapters(root)):
        if place(root, path).part != part:
            lines += ["</ul>"] * bool(part)
            part = place(root, path).part
            lines += [f"<h2>{html.escape(part)}</h2>", "<ul>"]
        lines.append(f'<li><a href="{path.stem}.html">{html.escape(title(root / path))}</a></li>')
    return _PAGE.format(title="All decks", body="\n".join([*lines, "</ul>", "</main></body>"]))


def _plain(heading: str) -> str:
    return re.sub(r"[*`$]", "", heading)


def main() -> int:
    """Write the decks of this checkout; return the exit status."""
    folder = ROOT / "_build" / "slides"
    made = folder.with_name("slides-new")
    shutil.rmtree(made, ignore_errors=True)
    for name in NEEDED:
        shutil.copytree(ROOT / "site" / "extra" / name, made / name)
    shutil.copytree(_BROWSER, made / "browser")
    try:
        written = write_decks(ROOT, ROOT / "_build" / "executed", made / "slides", read_addresses(ROOT))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(made, folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{len(written)} decks, {size / 1e6:.0f} MB with what they need")
    print(f"open {(folder / 'slides' / 'index.html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
