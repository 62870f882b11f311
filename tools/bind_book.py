"""Make one file of the whole book, from the copies that ``make book`` has run.

    python tools/bind_book.py pdf [--paper letter]
    python tools/bind_book.py epub

The files are ``_build/files/d2lbert.pdf`` and ``d2lbert.epub``. The site offers them when it is built again. Chromium
and ChromeDriver must be installed: they draw the formulas and print.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from book_files.epub import write_epub
from book_files.offer import FORMS, NAME
from book_files.pages import read_book
from book_files.pdf import PAPERS, write_pdf

from d2lbert.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
_ASIAN = "6df1,d55c"  # one letter of Chinese and one of Korean, in hexadecimal digits


def bind(form: str, root: Path, executed: Path, folder: Path, paper: str = "a4", only: list[str] | None = None) -> Path:
    """Write the book as ``form`` (pdf or epub) into ``folder`` and return the file.

    Args:
        form: pdf or epub.
        root: of the checkout.
        executed: the copies of the chapters.
        folder: for the file; ``folder/print`` gets what the PDF is printed from.
        paper: of the PDF.
        only: slugs of pages, for a smaller book.

    Raises:
        UserError: a chapter was not run, Chromium is missing, or something does not fit.
    """
    book = read_book(root, executed, only)
    target = folder / f"{NAME}.{form}"
    if form == "epub":
        write_epub(book, target, root)
        print(f"{len(book.pages)} documents, {len(book.pictures)} pictures")
    else:
        _tell_missing_fonts()
        print(f"{write_pdf(book, target, folder / 'print', root, paper)} pages")
    return target


def _tell_missing_fonts() -> None:
    """Say so where no font has the letters of the book's Chinese and Korean examples."""
    try:
        missing = [
            code
            for code in _ASIAN.split(",")
            if not subprocess.run(["fc-list", f":charset={code}"], capture_output=True, text=True, check=True).stdout
        ]
    except (OSError, subprocess.CalledProcessError):
        return
    if missing:
        print("no font here has Chinese and Korean letters, so those are boxes: fonts-droid-fallback has them")


def main() -> int:
    """Write the file that is asked for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("form", choices=list(FORMS))
    parser.add_argument("--paper", choices=sorted(PAPERS), default="a4", help="of the PDF; A4 is the default")
    parser.add_argument("--only", nargs="+", metavar="SLUG", help="these pages alone")
    arguments = parser.parse_args()
    began = time.perf_counter()
    executed, folder = ROOT / "_build" / "executed", ROOT / "_build" / "files"
    try:
        target = bind(arguments.form, ROOT, executed, folder, arguments.paper, arguments.only)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    size, seconds = target.stat().st_size / 1e6, time.perf_counter() - began
    print(f"wrote {target.relative_to(ROOT)}: {size:.1f} MB, in {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
