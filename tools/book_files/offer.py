"""The files of the whole book on the front page of the site, where they were made before it."""

from __future__ import annotations

import shutil
from pathlib import Path

NAME = "d2lbert"
FORMS = {"pdf": "PDF", "epub": "EPUB"}
MARK = "<!-- files of the whole book -->\n"


def offer(text: str, files: Path, extra: Path) -> str:
    """Copy the files to the site; return the text of its front page, with links to those that there are.

    Args:
        text: Markdown with a line for the links.
        files: the folder of the files; it need not exist.
        extra: the folder ``site/extra`` of the site that is built.
    """
    links = []
    for form, label in FORMS.items():
        file = files / f"{NAME}.{form}"
        if file.is_file():
            (extra / "files").mkdir(exist_ok=True)
            shutil.copy2(file, extra / "files" / file.name)
            links.append(f'<a href="files/{file.name}">{label}</a> ({file.stat().st_size / 1e6:.0f} MB)')
    line = f"* **On paper, or on an e-reader**: the whole book is here as {' and as '.join(links)}.\n" if links else ""
    return text.replace(MARK, line)
