"""The samples that data/registry falls back on: balanced, without repeats, and rich enough to learn from."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from pathlib import Path

import pytest

from d2lbert import data
from d2lbert.data.readers.universal_tags import UNIVERSAL_TAGS
from d2lbert.storage import download

IRREGULAR = {
    "mice": "mouse",
    "leaves": "leaf",
    "lit": "light",
    "rang": "ring",
    "ran": "run",
    "drew": "draw",
    "broke": "break",
    "rose": "rise",
    "fell": "fall",
    "caught": "catch",
}


def is_form_of(form: str, word: str) -> bool:
    """Whether ``form`` is the word itself, a regular plural, third person, past or ing form, or in the table above."""
    stem = word.removesuffix("e")
    regular = [word, word + "s", word + "es", stem + "ed", stem + "ing", word + "ed", word + "ing"]
    return form in regular or IRREGULAR.get(form) == word


@pytest.fixture(autouse=True)
def only_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("D2LBERT_DATA", raising=False)
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path))
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    download.forget_failures()


def sample(name: str, split: str) -> list:
    with pytest.warns(data.SampleDataWarning, match=f"^{name}: "):
        examples = data.load(name, split)
    assert data.is_sample(name)
    return examples


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("sst2", {"train": 240, "dev": 80}), ("sst2_glue", {"train": 200, "dev": 40, "test": 80})],
)
def test_sentences_are_balanced_and_never_twice(name: str, sizes: dict[str, int]) -> None:
    everything = []
    for split, size in sizes.items():
        examples = sample(name, split)
        everything += examples
        labels = Counter(example.label for example in examples)
        assert sum(labels.values()) == size
        assert set(labels) == {"negative", "positive"}
        # GLUE's train and dev are one list cut in two, hence only nearly balanced.
        assert abs(labels["negative"] - labels["positive"]) <= (0 if name == "sst2" or split == "test" else 10)
    assert len({" ".join(words(example.text)) for example in everything}) == sum(sizes.values())


def test_sentences_vary_in_length_and_hold_hard_ones() -> None:
    texts = [example.text for split in ("train", "dev") for example in sample("sst2", split)]
    lengths = [len(words(text)) for text in texts]
    assert min(lengths) <= 4
    assert max(lengths) >= 18
    negated = [text for text in texts if set(words(text)) & {"not", "never", "no", "nothing", "without", "cannot"}]
    contrasts = [text for text in texts if set(words(text)) & {"but", "yet", "despite", "although", "instead"}]
    assert len(negated) >= 40
    assert len(contrasts) >= 20


def test_no_opening_of_four_words_is_used_as_a_template() -> None:
    texts = [example.text for split in ("train", "dev") for example in sample("sst2", split)]
    openings = Counter(" ".join(words(text)[:4]) for text in texts)
    # A pair of opposite label may open alike.
    assert max(openings.values()) <= 4


def test_plain_text_is_long_and_its_vocabulary_comes_back() -> None:
    train, dev = sample("wikipedia_en", "train"), sample("wikipedia_en", "dev")
    assert len(train) + len(dev) >= 60
    assert all(3 <= len(document.paragraphs) <= 6 for document in train + dev)
    assert len({document.text for document in train + dev}) == len(train) + len(dev)
    counts = Counter(word for document in train + dev for word in words(document.text))
    assert sum(counts.values()) >= 12_000
    for word in ("bank", "river", "money", "apple", "fruit", "capital", "king", "queen", "computer", "music", "rain"):
        assert counts[word] >= 8, word
    # Words of the held-out part are mostly known: otherwise nothing could be learnt for them.
    known = {word for document in train for word in words(document.text)}
    seen = [word in known for document in dev for word in words(document.text)]
    assert sum(seen) / len(seen) > 0.9


def test_analogies_are_distinct_and_of_four_kinds() -> None:
    questions = sample("google_analogies", "test")
    assert len(questions) == len(set(questions)) == 40
    assert set(Counter(question.section for question in questions)) == {
        "capital-country",
        "gender",
        "plural",
        "comparative",
    }
    assert all(len({question.a, question.b, question.c, question.d}) == 4 for question in questions)


def test_translations_are_distinct_and_their_words_come_back() -> None:
    parts = {split: sample("multi30k", split) for split in ("train", "dev", "test")}
    assert {split: len(pairs) for split, pairs in parts.items()} == {"train": 240, "dev": 30, "test": 30}
    everything = [pair for pairs in parts.values() for pair in pairs]
    assert len({pair.source for pair in everything}) == len({pair.target for pair in everything}) == 300
    for pair in everything:
        assert pair.source[-1] == pair.target[-1] == "."
        assert 0.5 < len(pair.source.split()) / len(pair.target.split()) < 2
    for side in ("source", "target"):
        known = {word for pair in parts["train"] for word in getattr(pair, side).lower().rstrip(".").split()}
        seen = [w in known for pair in parts["test"] for w in getattr(pair, side).lower().rstrip(".").split()]
        assert sum(seen) / len(seen) > 0.85
    counts = Counter(len(pair.source.split()) for pair in everything)
    assert min(counts) <= 6
    assert max(counts) >= 11


def test_word_pairs_use_the_whole_scale() -> None:
    pairs = sample("word_similarity", "test")
    assert len({(pair.first, pair.second) for pair in pairs}) == 40
    assert {pair.source for pair in pairs} == {"SAMPLE-40"}
    scores = [pair.score for pair in pairs]
    assert min(scores) >= 0
    assert max(scores) <= 10
    assert min(scores) < 1
    assert max(scores) > 9
    assert len(set(scores)) > 25


@pytest.mark.parametrize(("split", "size"), [("train", 80), ("dev", 40)])
def test_words_in_context_are_balanced_and_their_indices_right(split: str, size: int) -> None:
    examples = sample("wic", split)
    assert len(examples) == len({(example.first, example.second) for example in examples}) == size
    assert sum(example.label for example in examples) == size // 2
    for example in examples:
        assert example.pos in ("N", "V")
        assert (example.first + example.second).count("*") == 0
        for text, index in ((example.first, example.first_index), (example.second, example.second_index)):
            form = text.split(" ")[index].lower()
            assert is_form_of(form, example.word), (example, form)
            assert text[0].isupper()
            assert text.split(" ")[-1] in (".", "?", "!"), text


@pytest.mark.parametrize(
    ("name", "sizes", "types"),
    [
        ("conll2003", {"train": 42, "dev": 12, "test": 12}, {"PER", "LOC", "ORG", "MISC"}),
        (
            "wnut17",
            {"train": 30, "dev": 10, "test": 10},
            {"corporation", "creative-work", "group", "location", "person", "product"},
        ),
    ],
)
def test_tagged_sentences_have_all_types_and_are_never_twice(name: str, sizes: dict[str, int], types: set[str]) -> None:
    everything = []
    for split, size in sizes.items():
        examples = sample(name, split)
        assert len(examples) == size
        assert {tag[2:] for example in examples for tag in example.tags} == types | {""}
        assert any(set(example.tags) == {"O"} for example in examples)
        everything += [" ".join(example.words).lower() for example in examples]
    assert len(set(everything)) == sum(sizes.values())


@pytest.mark.parametrize(
    ("name", "sizes", "labels"),
    [
        ("trec", {"train": 67, "dev": 7, "test": 18}, {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}),
        ("agnews", {"train": 36, "dev": 12}, {"World", "Sports", "Business", "Sci/Tech"}),
    ],
)
def test_texts_of_many_classes_have_all_of_them_and_are_never_twice(
    name: str, sizes: dict[str, int], labels: set[str]
) -> None:
    everything = []
    for split, size in sizes.items():
        examples = sample(name, split)
        assert len(examples) == size
        assert {example.label for example in examples} <= labels
        everything += [example.text for example in examples]
    assert {example.label for example in sample(name, "train")} == labels
    assert len(set(everything)) == sum(sizes.values())


def test_the_tagged_story_has_every_part_of_speech_of_english_words() -> None:
    for split, size in {"train": 32, "dev": 8, "test": 8}.items():
        examples = sample("brown_universal", split)
        assert len(examples) == size
        assert {tag for example in examples for tag in example.tags} == set(UNIVERSAL_TAGS) - {"X"}


def test_no_warning_comes_from_elsewhere() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data.load("sst2", "dev")
    assert [warning.category for warning in caught] == [data.SampleDataWarning]
