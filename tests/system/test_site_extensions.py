"""The extensions of the site, without building it: citations, index, scripts, pictures and fonts of a page."""

from __future__ import annotations

import base64
import io
import re
import shutil
from pathlib import Path

import pydata_sphinx_theme
import pytest
from author_year import AuthorYearLabels, BookStyle
from descriptions import described, meta_tags
from docutils import nodes
from fontTools.ttLib import TTFont
from glossary_index import terms
from light_pages import (
    lighten,
    used_icons,
    with_patient_scripts,
    with_picture_files,
    without_unused_scripts,
)
from matplotlib import pyplot as plt
from pybtex.database import parse_string
from pybtex.style.sorting.author_year_title import SortingStyle

ICONS = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static/vendor/fontawesome"
HEAD = (
    '<head><script>window.MathJax = {"a": 1}</script>'
    '<script defer="defer" src="../_static/formulas.js?v=1"></script>'
    '<link rel="preload" as="font" crossorigin href="../_static/vendor/fontawesome/6/webfonts/fa-solid-900.woff2" />'
    '<link href="../_static/vendor/fontawesome/6/css/all.min.css" rel="stylesheet" /></head>'
)
SCRIPT = '<script src="../_static/vendor/fontawesome/6/js/all.min.js?digest=d"></script>'


def labels(bibliography: str) -> dict[str, str]:
    entries = SortingStyle().sort(parse_string(bibliography, "bibtex").entries.values())
    return dict(zip((e.key for e in entries), AuthorYearLabels().format_labels(entries), strict=True))


def test_labels_are_authors_and_a_year(root: Path) -> None:
    found = labels((root / "references.bib").read_text(encoding="utf-8"))
    assert found["devlin2019bert"] == "Devlin et al., 2019"
    assert found["reimers2019sentence"] == "Reimers and Gurevych, 2019"
    assert found["zipf1949human"] == "Zipf, 1949"
    assert found["tjongkimsang2003introduction"] == "Tjong Kim Sang and De Meulder, 2003"
    assert sorted(found[key][-5:] for key in found if key.startswith("mikolov2013")) == ["2013a", "2013b", "2013c"]
    assert len(set(found.values())) == len(found) > 100
    assert BookStyle.default_label_style is AuthorYearLabels


@pytest.mark.parametrize("others", ["Smith, Ann and Lee, Bo and Wu, Cy", "Smith, Ann and others"])
def test_many_authors_are_the_first_and_others(others: str) -> None:
    assert labels(f"@misc{{x, author = {{{others}}}, title = {{T}}, year = {{2001}}}}") == {"x": "Smith et al., 2001"}


@pytest.mark.parametrize("body", ["<p>no formula</p>", '<span class="math notranslate">\\(x\\)</span>'])
def test_scripts_stay_where_they_are_used(body: str) -> None:
    page = without_unused_scripts(f'{HEAD}<article>{body}<div role="doc-biblioentry"></div></article>{SCRIPT}')
    assert "all.min.js" not in page
    assert "preload" not in page
    assert "all.min.css" in page
    assert ("formulas.js" in page) == ("window.MathJax" in page) == ("math" in body)
    assert 'role="listitem"' in page


def test_scripts_wait_for_the_page_in_their_order() -> None:
    scripts = (
        '<link rel="preload" as="script" href="_static/b.js" />\n'
        '<script src="_static/documentation_options.js?v=1"></script>'
        '<script src="_static/a.js"></script><script>OPTIONS.x = 1;</script>'
        '<script data-b="c" src="_static/b.js"></script>'
        '<script defer="defer" src="_static/c.js"></script><script type="module" src="_static/d.js"></script>'
        '<script src="searchindex.js"></script><script src="elsewhere.js"></script>'
    )
    page = with_patient_scripts(scripts, "const OPTIONS = {};\n")
    assert page == (
        "<script>const OPTIONS = {};</script>"
        '<script defer src="_static/a.js"></script><script>OPTIONS.x = 1;</script>'
        '<script defer data-b="c" src="_static/b.js"></script>'
        '<script defer="defer" src="_static/c.js"></script><script type="module" src="_static/d.js"></script>'
        '<script defer src="searchindex.js"></script><script src="elsewhere.js"></script>'
    )
    assert with_patient_scripts(page, "const OPTIONS = {};\n") == page


def paragraphs(*texts: str) -> nodes.section:
    return nodes.section("", *(nodes.paragraph(text, text) for text in texts))


def test_a_page_is_described_by_what_its_reader_will_be_able_to_do() -> None:
    assert described(paragraphs("You need: a pen", "You will be able to write\na head.")) == "Write a head."
    assert described(paragraphs("", "A page of\nnotation.", "More.")) == "A page of notation."
    assert described(paragraphs()) == ""
    long = described(paragraphs("many words, " * 40))
    assert long.endswith("words …")
    assert 140 < len(long) <= 160


def test_what_stands_in_a_tag_is_escaped() -> None:
    tags = meta_tags('A "B" & C', "<less>", "The book", "https://example.org/a.html")
    assert '<meta name="description" content="&lt;less&gt;">' in tags
    assert '<meta property="og:title" content="A &quot;B&quot; &amp; C">' in tags
    assert '<meta property="og:url" content="https://example.org/a.html">' in tags


def test_the_lines_of_a_long_signature_are_no_list() -> None:
    parameters = '<dl>\n<dd><em class="sig-param">a: <a>T</a></em>,</dd>\n<dd><em class="sig-param">b</em>,</dd>\n</dl>'
    fields = "<dl><dt>Fields</dt><dd>a</dd></dl>"
    page = without_unused_scripts(f"<dt>f({parameters})</dt><dd>{fields}</dd>")
    assert page.count('<span class="sig-line"><em class="sig-param">') == page.count(",</span>") == 2
    assert page.count("<dl>") == page.count("</dl>") == 1
    assert fields in page
    assert without_unused_scripts(page) == page


def test_pictures_become_files_that_are_the_same(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    plt.imsave(buffer, [[0.0, 1.0, 0.5]], format="png")
    inline = f'<img src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}" alt="x">'
    page = with_picture_files(f"<article>{inline}{inline}</article>", tmp_path / "_images", "../_images")
    (file,) = (tmp_path / "_images").iterdir()
    assert file.read_bytes() == buffer.getvalue()
    assert page.count(f'src="../_images/{file.name}" width="3" height="1" loading="lazy" alt="x"') == 2


def test_fonts_keep_the_icons_that_are_used_and_lightening_twice_changes_nothing(tmp_path: Path) -> None:
    (version,) = ICONS.iterdir()
    if not (version / "css").is_dir():
        pytest.skip("this theme of Sphinx, newer than the locked one, keeps its icons in another way")
    folder = tmp_path / "_static" / "vendor" / "fontawesome" / version.name
    shutil.copytree(version, folder)
    (tmp_path / "_static" / "theme.css").write_text('.a::before{content:"\\f0f3"} .b::before{content:"\uf06a"}')
    (tmp_path / "_static" / "documentation_options.js").write_text("const OPTIONS = {};")
    (tmp_path / "page.html").write_text(f'{HEAD}<article><i class="fa-solid fa-moon"></i></article>{SCRIPT}')
    lighten(tmp_path)
    style = (folder / "css" / "all.min.css").read_text(encoding="utf-8")
    files = set(re.findall(r"url\(\.\./webfonts/([^)]+)\)", style))
    assert files == {path.name for path in (folder / "webfonts").iterdir()}
    assert {0xF0F3, 0xF06A, 0xF186} <= set(TTFont(folder / "webfonts" / "fa-solid-900.woff").getBestCmap())
    assert (folder / "webfonts" / "fa-solid-900.woff").stat().st_size < 5000
    assert set(re.findall(r'content:"(\\f[0-9a-f]{3})"', style)) == {"\\f0f3", "\\f06a", "\\f186"}
    assert len(style) < 25_000
    assert list((folder / "js").glob("*.js")) == []
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    lighten(tmp_path)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_icons_by_name_by_code_and_as_a_sign() -> None:
    names = '.fa-moon:before{content:"\\f186"}.fa-a:before,.fa-b:before{content:"\\f001"}'
    assert used_icons(names, ["<i class='fa-solid fa-b'>", '{content:"\\f0f3"}', "\uf06a"]) == {0xF001, 0xF0F3, 0xF06A}


def test_the_terms_of_the_glossary_belong_to_the_sections_that_explain_them(root: Path) -> None:
    found = terms((root / "chapters" / "start" / "glossary.md").read_text(encoding="utf-8"))
    assert ("adapter", "mathematics") in found["chapters/finetuning/adapters"]
    assert ("LoRA", "mathematics") in found["chapters/finetuning/adapters"]
    assert {"next-sentence prediction", "next sentence prediction", "NSP"} <= {
        name for name, _ in found["chapters/pretraining/data"]
    }
    assert ("head of a model", "mathematics") in found["chapters/finetuning/classification"]
    assert all((root / f"{document}.ipynb").is_file() for document in found)


def test_a_folder_without_the_options_is_made_lighter_too(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    (tmp_path / "deck.html").write_text('<script src="_static/a.js"></script><article></article>')
    lighten(tmp_path)
    assert (tmp_path / "deck.html").read_text() == '<script defer src="_static/a.js"></script><article></article>'
