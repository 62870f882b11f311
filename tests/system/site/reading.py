"""What a page weighs, what a screen reader or a keyboard cannot do with it, and what is cut off or scrolls."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from browser import resize
from selenium import webdriver

AXE = Path(__file__).parent / "axe" / "axe.min.js"  # axe-core 4.10.3, MPL-2.0, unchanged
THEMES = ("light", "dark")
# A page without a fault.
GOOD = '<!doctype html><html lang="en"><link rel="icon" href="data:,"><article><p>Hello</p></article></html>'
# Rules of axe-core that look at colours or pictures: a theme changes nothing else of a page.
LOOKS = ("color-contrast", "link-in-text-block", "image-alt", "svg-img-alt")
_RUN_AXE = """
const [only, without, done] = arguments;
axe.configure({rules: [
  {id: 'color-contrast', selector: ':not([data-look-known])'},
  {id: 'link-in-text-block', selector: ':is(a[href], [role=link]):not([data-look-known])'}]});
const chosen = {rules: Object.fromEntries(without.map(rule => [rule, {enabled: false}]))};
if (only.length) chosen.runOnly = {type: 'rule', values: only};
axe.run(document, {resultTypes: ['violations'], ...chosen}).then(({violations, incomplete}) => done([
  ...violations.filter(({impact}) => impact === 'serious' || impact === 'critical')
    .flatMap(({id, nodes}) => nodes.map(({target, failureSummary}) =>
      `${id}: ${target.join(' ')} ${failureSummary.split('\\n')[1] || ''}`)),
  ...incomplete.filter(({error}) => error).map(({id, error}) => `${id} broke off: ${error}`)]));
"""
# How an element looks: its own style, and that of all that it stands in.
_LOOK = """
const looks = new Map([[document, '']]);
function look(node) {
  if (!looks.has(node)) {
    const within = look(node.parentNode ?? node.host);
    if (node instanceof Element) {
      const style = getComputedStyle(node);
      const own = ['color', 'backgroundColor', 'backgroundImage', 'opacity', 'filter', 'position', 'fontSize',
        'fontWeight', 'fontStyle', 'textDecorationLine', 'textShadow', 'borderBottomWidth'].map(name => style[name]);
      looks.set(node, within.endsWith(own.join()) ? within : `${within} / ${own.join()}`);
    } else looks.set(node, within);
  }
  return looks.get(node);
}
const isSeen = node => node.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true});
const threeOf = nodes => [nodes[0], nodes[nodes.length >> 1], nodes.at(-1)];
"""
# axe-core compares the colours of each element by itself: many seconds where thousands of words of code are coloured.
# Texts (or links) that look alike, in what looks alike, have one contrast: the first, middle and last are asked. What
# has no text of its own has no colour to ask for, but for fields of a form.
_ASK_THREE_OF_EACH_LOOK = f"""{_LOOK}
const isText = ({{nodeType, data}}) => nodeType === Node.TEXT_NODE && data.trim();
const alike = new Map();
function gather(root) {{
  for (const node of root.querySelectorAll('*')) {{
    if (node.shadowRoot) gather(node.shadowRoot);
    const shown = isSeen(node) && (node.tagName === 'A' || [...node.childNodes].some(isText));
    node.toggleAttribute('data-look-known', !node.matches('input, select, textarea'));
    if (shown) alike.set(look(node), [...alike.get(look(node)) ?? [], node]);
  }}
}}
gather(document.body);
for (const nodes of alike.values()) for (const node of threeOf(nodes)) node.removeAttribute('data-look-known');
"""
# Of a page's elements most are coloured words of code, which have a class and nothing else: axe-core looks at each of
# them for every rule. Of those that look alike, in every one of the given themes, three stay; of the others, the text.
_THIN_CODE = f"""{_LOOK}
const root = document.documentElement.dataset;
const before = [root.theme, root.mode];
const words = [...document.querySelectorAll('pre span')].filter(
  word => word.getAttributeNames().every(name => name === 'class' || name === 'data-look-known'));
const seen = words.filter(isSeen), alike = new Map(seen.map(word => [word, '']));
for (const theme of arguments[0]) {{
  [root.theme, root.mode] = [theme, theme];
  looks.clear(), looks.set(document, '');
  for (const word of seen) alike.set(word, `${{alike.get(word)}} & ${{look(word)}}`);
}}
[root.theme, root.mode] = before;
const groups = arguments[0].length ? Map.groupBy(seen, word => alike.get(word)) : new Map();
const kept = new Set([...groups.values()].flatMap(threeOf));
for (const word of words) if (!kept.has(word)) word.replaceWith(...word.childNodes);
for (const block of document.querySelectorAll('pre')) block.normalize();
"""
_WIDE = """
const wide = [];
for (const node of document.querySelectorAll('.bd-article table, .bd-article pre, .bd-article .output'))
  if (node.checkVisibility({contentVisibilityAuto: true})) {
    const box = node.tagName === 'TABLE' ? node.parentElement : node;
    const hidden = Math.max(box.scrollWidth - box.clientWidth, node.scrollWidth - node.clientWidth);
    const text = node.textContent.trim().slice(0, 60);
    if (hidden > 1) wide.push(`${hidden} px of ${node.tagName}.${node.className}: ${text}`);
  }
return wide;
"""
_UNREACHABLE = """
const unreachable = [];
for (const node of document.querySelectorAll('.bd-article table, .bd-article mjx-container[display="true"]')) {
  const box = node.tagName === 'TABLE' ? node.parentElement : node;
  const hidden = Math.max(box.scrollWidth - box.clientWidth, node.scrollWidth - node.clientWidth);
  if (!node.checkVisibility({contentVisibilityAuto: true}) || hidden <= 1) continue;
  const named = box.tabIndex === 0 && box.getAttribute('role') === 'region' && box.getAttribute('aria-label');
  if (!named || getComputedStyle(box).boxShadow === 'none') unreachable.push(node.textContent.trim().slice(0, 60));
}
return unreachable;
"""


_ICONS = """
const signs = new Set();
for (const node of document.querySelectorAll('*'))
  for (const side of ['::before', '::after'])
    for (const sign of getComputedStyle(node, side).content)
      if (sign >= '\\ue000' && sign <= '\\uf8ff') signs.add(sign.codePointAt(0));
return [...signs];
"""


def icons(driver: webdriver.Chrome) -> set[int]:
    """Return the code points of the icons on the page that is shown."""
    return set(driver.execute_script(_ICONS))


def show(driver: webdriver.Chrome, address: str, size: tuple[int, int], theme: str = "light") -> None:
    """Open a page at a size, in a theme."""
    resize(driver, size)
    driver.get(address)
    driver.execute_async_script(
        "const done = arguments[0];(window.bookFormulas ?? Promise.resolve()).then(() => setTimeout(done, 100))"
    )
    # A colour that is on its way to another has no contrast to speak of.
    driver.execute_script(
        "document.head.append(Object.assign(document.createElement('style'), "
        "{textContent: '* { transition: none !important; animation: none !important; }'}))"
    )
    put_on(driver, theme)


def put_on(driver: webdriver.Chrome, theme: str) -> None:
    """Show the page that is open in a theme."""
    driver.execute_script(f"document.documentElement.dataset.theme = document.documentElement.dataset.mode = '{theme}'")


def serious(driver: webdriver.Chrome, only: Sequence[str] = (), without: Sequence[str] = ()) -> list[str]:
    """Return the serious and critical findings of axe-core on the page that is shown, a line each.

    A rule that breaks off is a finding, too: it would otherwise find nothing.

    Args:
        only: these rules of axe-core are asked; without any, all of them.
        without: these are not.
    """
    if not driver.execute_script("return 'axe' in window"):
        driver.execute_script(AXE.read_text(encoding="utf-8"))
    driver.execute_script(_ASK_THREE_OF_EACH_LOOK)
    found: list[str] = driver.execute_async_script(_RUN_AXE, list(only), list(without))
    return found


def thin_code(driver: webdriver.Chrome, themes: Sequence[str] = THEMES) -> None:
    """Leave three of the words of code that look alike in all of the themes on the page that is shown.

    Of the others the text stays. Without a theme no word is left: what is asked then must not be about colours.
    """
    driver.execute_script(_THIN_CODE, list(themes))


def too_wide(driver: webdriver.Chrome) -> list[str]:
    """Return the tables and blocks of code of the page that is shown which do not fit it."""
    found: list[str] = driver.execute_script(_WIDE)
    return found


def unreachable(driver: webdriver.Chrome) -> list[str]:
    """Return the wide tables and formulas of the page that is shown that no keyboard scrolls or that do not show it."""
    found: list[str] = driver.execute_script(_UNREACHABLE)
    return found


def transferred(messages: Iterable[dict[str, Any]], folder: Path) -> int:
    """Return the bytes of all files that were answered, compressed.

    Args:
        messages: of the browser's network (``browser.network``).
        folder: that is served.
    """
    answers = [message["params"]["response"] for message in messages if message["method"] == "Network.responseReceived"]
    urls = [urlsplit(answer["url"]) for answer in answers]
    paths = {folder / unquote(url.path).lstrip("/") for url in urls if url.scheme == "http"}
    return sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in paths if path.is_file())
