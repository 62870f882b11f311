"""A Sphinx extension: what the theme makes, made lighter once the pages are written.

* Font Awesome comes as a script of 1.5 MB and as fonts and a style with 2,000 icons; the script goes, the others keep
  what is used.
* MathJax (760 KB) stays on pages with formulas.
* Scripts wait until the page is read, so that its text is there sooner.
* Pictures inside a page become files, which a browser loads when they come into view.
* Roles that screen readers no longer know are replaced, and so is the list in a long signature, which has no terms and
  is no list for them.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import struct
from collections.abc import Iterable
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.application import Sphinx

_LINE = '<span class="sig-line">'
_FONT_AWESOME = re.compile(r"<script[^>]*/fontawesome/[^>]*></script>\s*|<link[^>]*preload[^>]*/fontawesome/[^>]*>\s*")
_MATHJAX = re.compile(r"<script[^>]*/formulas\.js[^>]*></script>\s*|<script>window\.MathJax = [^<]*</script>\s*")
_OPTIONS = re.compile(r'<script src="[^"]*/documentation_options\.js[^"]*"></script>')
_BLOCKING = re.compile(r'<script (?=[^>]*\bsrc="[^"]*(?:_static/|searchindex))(?![^>]*\b(?:defer|type)\b)')
_PRELOADED = re.compile(r'<link rel="preload" as="script"[^>]*>\s*')
_FORMULA = re.compile(r'class="[^"]*\bmath\b|\\\(|\\\[|\$\$')
_PICTURE = re.compile(r'src="data:image/png;base64,([A-Za-z0-9+/=\s]+)"')
_PARAMETERS = re.compile(r"<dl>\s*((?:<dd><em class=\"sig-param\">(?:(?!</?dl>).)*?</dd>\s*)+)</dl>", re.DOTALL)
_PNG_SIZE = struct.Struct(">II")  # width and height, from byte 16 on
_RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')  # the names of an icon, and its code
_FACE = re.compile(
    r'url\(\.\./webfonts/([\w-]+)\.woff2\) ?format\("woff2"\),url\(\.\./webfonts/\1\.ttf\) ?format\("truetype"\)'
)


def without_unused_scripts(page: str) -> str:
    """Return a page without the scripts that it does not use, and with roles that are still known."""
    page = _FONT_AWESOME.sub("", page)
    if not _FORMULA.search(page[page.find("<article") :]):
        page = _MATHJAX.sub("", page)
    page = _PARAMETERS.sub(lambda found: found[1].replace("<dd>", _LINE).replace("</dd>", "</span>"), page)
    return page.replace('role="doc-biblioentry"', 'role="listitem"')


def with_patient_scripts(page: str, options: str) -> str:
    """Return a page that is shown before its scripts come; they run in the same order as before.

    Args:
        options: the script ``documentation_options.js``, which others inside the page need at once: it becomes a part.
    """
    page = _OPTIONS.sub(lambda _: f"<script>{options.strip()}</script>", page)
    return _BLOCKING.sub("<script defer ", _PRELOADED.sub("", page))


def with_picture_files(page: str, folder: Path, address: str) -> str:
    """Return a page whose pictures are files; they are written into ``folder``, to which ``address`` leads."""

    def write(found: re.Match[str]) -> str:
        picture = base64.b64decode(found[1])
        name = f"{hashlib.sha256(picture).hexdigest()[:20]}.png"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(picture)
        width, height = _PNG_SIZE.unpack_from(picture, 16)
        return f'src="{address}/{name}" width="{width}" height="{height}" loading="lazy"'

    return _PICTURE.sub(write, page)


def used_icons(names: str, texts: Iterable[str]) -> set[int]:
    """Return the code points of the icons that texts use, by the name of a class or by the code in a style.

    Args:
        names: Font Awesome's style sheet, which says the code of each name.
        texts: pages, scripts and other style sheets.
    """
    rules = _RULE.findall(names)
    codes = {name: int(code, 16) for selectors, code in rules for name in re.findall(r"\.(fa-[\w-]+):", selectors)}
    found: set[int] = set()
    for text in texts:
        found |= {codes[name] for name in re.findall(r"\bfa-[\w-]+", text) if name in codes}
        found |= {int(code, 16) for code in re.findall(r"\\(f[0-9a-f]{3})\b", text)}
        found |= {ord(sign) for sign in set(text) if "\ue000" <= sign <= "\uf8ff"}  # some styles hold the icon itself
    return found


def shrink_fonts(folder: Path, icons: set[int]) -> None:
    """Replace the fonts and the style of Font Awesome, in its ``folder``, by ones with the used icons alone."""
    style = folder / "css" / "all.min.css"
    for path in sorted((folder / "webfonts").glob("*.ttf")):
        options = subset.Options(flavor="woff", notdef_outline=True)
        with TTFont(path) as font:
            subsetter = subset.Subsetter(options)
            subsetter.populate(unicodes=icons)
            subsetter.subset(font)
            subset.save_font(font, path.with_suffix(".woff"), options)
        path.unlink()
        path.with_suffix(".woff2").unlink()
    text = _FACE.sub(r'url(../webfonts/\1.woff) format("woff")', style.read_text(encoding="utf-8"))
    text = _RULE.sub(lambda rule: rule[0] if int(rule[2], 16) in icons else "", text)
    style.write_text(text, encoding="utf-8")
    for script in (folder / "js").glob("*.js"):
        script.unlink()


def lighten(out: Path) -> None:
    """Make all pages of a built site lighter. Doing it again changes nothing."""
    pages = sorted(path for path in out.rglob("*.html") if "_static" not in path.relative_to(out).parts)
    path = out / "_static" / "documentation_options.js"
    options = path.read_text(encoding="utf-8") if path.is_file() else ""  # slides by themselves have no such script
    for path in pages:
        page = with_patient_scripts(without_unused_scripts(path.read_text(encoding="utf-8")), options)
        pictures = out / "_images"
        page = with_picture_files(page, pictures, Path(os.path.relpath(pictures, path.parent)).as_posix())
        path.write_text(page, encoding="utf-8")
    static = out / "_static"
    for folder in static.glob("vendor/fontawesome/*"):
        if list((folder / "webfonts").glob("*.ttf")):
            others = [
                path for path in static.rglob("*") if path.suffix in (".css", ".js") and folder not in path.parents
            ]
            texts = (path.read_text(encoding="utf-8") for path in [*pages, *others])
            shrink_fonts(folder, used_icons((folder / "css" / "all.min.css").read_text(encoding="utf-8"), texts))


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        lighten(Path(app.outdir))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
