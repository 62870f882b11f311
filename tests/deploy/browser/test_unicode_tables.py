"""The tokenizer in JavaScript and the tables that are written for it: the same ids as Python for any text."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import re
import sys
import unicodedata
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from node_support import run_in_node

from d2lbert.deploy.browser import unicode_tables
from d2lbert.deploy.browser.unicode_tables import MODULE, module, ranges
from d2lbert.text import SPECIAL_TOKENS, WordPiece, split_words
from d2lbert.zoo.folders import locate

HELD = 10_000  # texts that nothing was made with
# What is hard in Unicode: marks, cases that grow, Hangul, ideographs, white space, directions, emoji, private use.
BLOCKS = (
    (0x00, 0x250), (0x250, 0x600), (0x300, 0x370), (0x370, 0x400), (0x590, 0x700), (0x900, 0xE80), (0x1100, 0x1200),
    (0x1E00, 0x2070), (0x2E00, 0x3130), (0x4E00, 0x4E80), (0xA640, 0xA700), (0xABF0, 0xAD00), (0xD7A0, 0xE010),
    (0xF900, 0xFB50), (0xFE00, 0x10000), (0x10000, 0x10500), (0x11000, 0x11500), (0x1D100, 0x1D800),
    (0x1F300, 0x1F650), (0x20000, 0x20050), (0x2B800, 0x2B940), (0x2F800, 0x2FA20), (0xE0000, 0xE0200),
)  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece.from_pretrained(locate("minilm"))


def random_text(generator: random.Random) -> str:
    """A few words of characters from anywhere, special tokens and very long words among them."""
    words = []
    for _ in range(generator.randint(0, 12)):
        first, last = generator.choice(BLOCKS)
        length = generator.choice((1, 2, 3, 5, 8, 13, 101))
        words.append("".join(chr(generator.randrange(first, last)) for _ in range(length)))
    words += generator.choices((*SPECIAL_TOKENS, "it's", "well-known", "naïve", "\ud83d", "straße"), k=2)
    generator.shuffle(words)
    # Two halves of a character beside each other are one character in JavaScript.
    return re.sub("[\ud800-\udbff]+(?=[\udc00-\udfff])", "", generator.choice(("", " ", "-", "’")).join(words))


def held_texts(folder: Path) -> list[str]:
    """Lines of five languages, from parts of the data that no vocabulary and no model learns from."""
    lines: list[str] = []
    with lzma.open(folder / "wikipedia_zh" / "wiki_zh_00.txt.xz", "rt", encoding="utf-8") as stream:
        lines += islice((line for line in stream if line.strip()), 2200)
    with lzma.open(folder / "wikipedia_en" / "wiki_en_05.txt.xz", "rt", encoding="utf-8") as stream:
        lines += islice((line for line in stream if line.strip()), 2200)
    for name in ("test_2016_flickr", "test_2017_flickr"):
        for language in ("de", "fr"):
            with gzip.open(folder / "multi30k" / f"{name}.{language}.gz", "rt", encoding="utf-8") as stream:
                lines += islice(stream, 500)
    posts = (folder / "wnut17" / "emerging.test.annotated.first_half").read_text(encoding="utf-8")
    lines += [" ".join(row.split("\t")[0] for row in post.splitlines()) for post in posts.split("\n\n")]
    for language in ("de", "es", "en"):
        content = json.loads((folder / "xquad" / f"xquad.{language}.shared.json").read_text(encoding="utf-8"))
        for paragraph in (paragraph for article in content["data"] for paragraph in article["paragraphs"]):
            lines += [paragraph["context"], *(question["question"] for question in paragraph["qas"])]
    return lines[:HELD]


def assert_equal(tokenizer: WordPiece, inputs: Sequence[tuple[str, str | None, int | None]], folder: Path) -> None:
    given = {
        "vocabulary": "".join(f"{piece}\n" for piece in tokenizer.vocab),
        "lowercase": tokenizer.lowercase,
        "stripAccents": tokenizer.strip_accents,
        "inputs": inputs,
    }
    found = run_in_node("tokenize.mjs", given, folder)
    for (a, b, longest), theirs in zip(inputs, found, strict=True):
        ours = tokenizer.encode(a, b, longest)
        offsets = [list(pair) for pair in ours.offsets]
        rows = [ours.ids, ours.segment_ids, ours.tokens, offsets, list(map(int, ours.special)), split_words(a, False)]
        assert theirs == rows, (a, b, longest)


def test_javascript_gives_the_ids_of_held_texts(tokenizer: WordPiece, real_data: Path, tmp_path: Path) -> None:
    texts = held_texts(real_data)
    assert len(texts) == HELD
    assert len({character for text in texts for character in text}) > 3000
    assert_equal(tokenizer, [(text, None, None) for text in texts], tmp_path)


@pytest.mark.parametrize(("lowercase", "strip_accents"), [(True, True), (False, False), (True, False), (False, True)])
def test_javascript_gives_the_ids_of_random_unicode(
    tokenizer: WordPiece, lowercase: bool, strip_accents: bool, tmp_path: Path
) -> None:
    generator = random.Random(f"{lowercase}{strip_accents}")
    # A vocabulary of letters shows what a character becomes; in MiniLM's most of these words are [UNK].
    letters = sorted({chr(generator.randrange(*generator.choice(BLOCKS))) for _ in range(30_000)} - {"\n", "\r"})
    letters = [letter for letter in letters if not "\ud800" <= letter <= "\udfff"]
    vocabulary = [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters), "##x##"]
    small = WordPiece(vocabulary, lowercase, strip_accents)
    texts = [random_text(generator) for _ in range(2000)]
    assert_equal(small, [(text, None, None) for text in texts], tmp_path)
    known = sum(small.encode(text).ids.count(small.token_to_id["[UNK]"]) for text in texts[:200])
    assert known < 0.5 * sum(len(small.encode(text)) for text in texts[:200])


def test_pairs_are_cut_in_javascript_as_in_python(tokenizer: WordPiece, tmp_path: Path) -> None:
    generator = random.Random(7)
    words = [piece for piece in tokenizer.vocab if piece.isalpha()]
    inputs: list[tuple[str, str | None, int | None]] = []
    for _ in range(300):
        a, b = (" ".join(generator.choices(words, k=generator.randint(0, 12))) for _ in range(2))
        inputs.append((a, generator.choice((b, None)), generator.randint(4, 20)))
    assert_equal(tokenizer, inputs, tmp_path)


def test_the_tables_are_those_of_python() -> None:
    """The file states its Unicode. A newer Python knows more characters, and says the same of those in the file."""
    stored, made = MODULE.read_text(encoding="utf-8"), module()
    version = re.search(r"// Unicode ([\d.]+)\.", stored)
    assert version is not None
    if version[1] == unicodedata.unidata_version:
        assert stored == made, "run python -m d2lbert.deploy.browser.unicode_tables"
    for name, table in _tables(stored).items():
        assert table <= _tables(made)[name], name


def _tables(text: str) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    for name, items in re.findall(r"export const (\w+) = `([^`]*)`", text):
        found[name] = set()
        for item in items.split():
            first, _, last = item.partition("-")
            found[name] |= {item} if ":" in item else set(range(int(first, 16), int(last or first, 16) + 1))
    return found


def test_ranges_cover_what_they_should_and_no_more() -> None:
    assert ranges(lambda character: character in "abcx") == [(97, 99), (120, 120)]
    assert ranges(lambda character: ord(character) >= sys.maxunicode - 1) == [(sys.maxunicode - 1, sys.maxunicode)]
    assert unicode_tables.without_marks()[ord("é")] == "e"
    assert ord("한") not in unicode_tables.without_marks()
    assert unicode_tables.in_lower_case()[ord("İ")] == "i̇"
