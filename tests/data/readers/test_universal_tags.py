"""The universal parts of speech: every tag of Brown has one, and what is no tag is refused."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data.readers.universal_tags import UNIVERSAL_TAGS, universal


@pytest.mark.parametrize(
    ("tag", "part"),
    [
        ("nn", "NOUN"),
        ("np-tl", "NOUN"),
        ("NN-HL", "NOUN"),
        ("jj-tl-nc", "ADJ"),
        ("nn$", "NOUN"),
        ("pp$", "DET"),
        ("pp$$", "PRON"),
        ("wp$", "DET"),
        ("bez*", "VERB"),
        ("*", "ADV"),
        ("pps+bez", "PRON"),
        ("pps+bez-nc", "PRON"),
        ("fw-in+at-tl", "X"),
        ("to", "PRT"),
        ("cs", "ADP"),
        ("--", "."),
        (".-hl", "."),
        ("``", "."),
        ("nil", "X"),
    ],
)
def test_a_tag_has_its_universal_part_of_speech(tag: str, part: str) -> None:
    assert universal(tag) == part


def test_there_are_the_twelve_of_the_paper() -> None:
    names = {"NOUN", "VERB", "ADJ", "ADV", "PRON", "DET", "ADP", "NUM", "CONJ", "PRT", ".", "X"}
    assert set(UNIVERSAL_TAGS) == names
    assert len(UNIVERSAL_TAGS) == 12


@pytest.mark.parametrize("tag", ["", "xyz", "tl", "-tl", "+nn", "nn nns"])
def test_what_is_no_tag_is_refused(tag: str) -> None:
    with pytest.raises(UserError, match="is no tag of the Brown corpus: correct it"):
        universal(tag)


def test_every_tag_of_the_corpus_has_one(real_data: Path) -> None:
    with zipfile.ZipFile(real_data / "brown" / "brown.zip") as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"brown/c[a-r]\d\d", name)]
        tokens = {token for name in names for token in archive.read(name).decode().split()}
    tags = {token.rpartition("/")[2] for token in tokens}
    assert len(tags) == 472
    assert {universal(tag) for tag in tags} == set(UNIVERSAL_TAGS)
