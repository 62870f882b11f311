"""What stands before the first chapter: the cover, and the page that says what this edition is."""

from __future__ import annotations

import html
import io
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
from matplotlib.patches import Arc, Rectangle

if TYPE_CHECKING:
    from book_files.pages import Book

_SIZE = (8.0, 11.314)  # inches, as high and wide as A4
_DOTS_PER_INCH = 200
_BACK, _LINE, _MARK = "#1f4e6b", "#fde725", "#35b779"
_WORDS = ("by", "the", "bank", "of", "the", "river")


def cover(book: Book) -> bytes:
    """Draw the cover: a word that looks at its neighbours; return it as PNG."""
    figure = plt.figure(figsize=_SIZE, facecolor=_BACK)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 80), ylim=(0, 113), aspect="equal")
    axes.axis("off")
    places = [9 + 12.4 * number for number in range(len(_WORDS))]
    centre = places[_WORDS.index("bank")]
    for word, place in zip(_WORDS, places, strict=True):
        chosen = place == centre
        box = Rectangle((place - 5.6, 40), 11.2, 6, facecolor=_MARK if chosen else "#31688e", edgecolor="none")
        axes.add_patch(box)
        axes.text(place, 43, word, color="black" if chosen else "white", fontsize=20, ha="center", va="center")
        if not chosen:
            width = abs(place - centre)
            middle = (place + centre) / 2
            axes.add_patch(Arc((middle, 46.4), width, 0.9 * width, theta1=0, theta2=180, color=_LINE, linewidth=3))
    title, _, rest = book.title.partition(" ")
    head = {"color": "white", "fontweight": "bold", "va": "top", "fontsize": 46}
    axes.text(6, 103, f"{title}\n{rest.replace(' ', chr(10), 1)}" if rest else title, **head)
    axes.text(6, 74, "From one-hot vectors to BERT", color=_LINE, fontsize=22, va="top")
    axes.text(6, 14, book.author, color="white", fontsize=18, va="top")
    axes.text(6, 9, f"d2lbert, version {book.version}", color="white", fontsize=14, va="top")
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=_DOTS_PER_INCH, facecolor=_BACK)
    plt.close(figure)
    return stream.getvalue()


def cover_text(book: Book) -> str:
    """Return the alternative text of the cover, as an attribute of HTML has it."""
    return html.escape(f"Cover: {book.title}, by {book.author}", quote=True)


def about(book: Book) -> str:
    """Return, as Markdown, what this edition is and how it differs from the site."""
    return f"""# About this edition

This file holds the whole book *{book.title}* by {book.author}: version {book.version}, made from commit
[{book.commit}]({book.addresses.commit(book.commit)}) of [the repository]({book.addresses.repository}). The same book is
[a site]({book.addresses.site}), where each chapter can also be opened as a notebook.

Every chapter ran from top to bottom before this file was made, and the box under its title says where and how long.
What a chapter prints, draws and says in numbers comes from that run.

What differs from the site:

* **Folds are open.** Code that the site folds, and every solution, stands here in full, below the name of its fold.
  Cover a solution before you read on.
* **The first cell of code**, which sets up a lent machine, is the same in every chapter. It stands in the first one
  alone.
* **Figures to play with** are tables of some of their numbers, and demonstrations are links to the site.
* **Each quiz** has its answers at the end of its section.

{book.licence} You may copy, change and share the text, also for money, if you name its authors and share it alike.
"""
