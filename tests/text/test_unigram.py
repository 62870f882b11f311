"""ALBERT's tokenizer: the most probable pieces, equal to transformers, and one line for files that are none."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest
from unigram_support import PIECES, tokenizer_json

from d2lbert import UserError
from d2lbert.data import TaggedSentence
from d2lbert.tasks.tagging import Tagging
from d2lbert.text import Unigram

TEXTS = ["The river bank", "river  banks, UNBANKED", "", "  ", "an [MASK] bank", "naïve \ud800 river", "xyzzy ☃"]


@pytest.fixture
def tokenizer() -> Unigram:
    return Unigram(tokenizer_json())


def best_split(word: str) -> list[str]:
    """Try every way to cut a word."""
    scores = dict(PIECES)
    best: tuple[float, list[str]] = (-math.inf, [])
    for cuts in itertools.product((False, True), repeat=len(word) - 1):
        ends = [position for position, cut in enumerate(cuts, start=1) if cut]
        pieces = [word[a:b] for a, b in zip([0, *ends], [*ends, len(word)], strict=True)]
        if all(piece in scores for piece in pieces):
            best = max(best, (sum(scores[piece] for piece in pieces), pieces))
    return best[1]


@pytest.mark.parametrize("word", ["river", "banks", "unbanked", "bankriver", "rivered"])
def test_the_split_is_the_most_probable_of_all(word: str, tokenizer: Unigram) -> None:
    assert tokenizer.tokenize(word) == best_split("▁" + word)
    assert len(tokenizer.tokenize(word)) < len(word) + 1


def test_equal_to_transformers(tokenizer: Unigram, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer.save_pretrained(tmp_path)
    reference = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json"), pad_token="<pad>", cls_token="[CLS]", sep_token="[SEP]"
    )
    for text in TEXTS:
        readable = text.encode("utf-8", "ignore").decode()
        assert tokenizer.encode(text).ids == reference(readable)["input_ids"]
    pair = reference("The river bank", "a bank", return_token_type_ids=True)
    encoding = tokenizer.encode("The river bank", "a bank")
    assert (encoding.ids, encoding.segment_ids) == (pair["input_ids"], pair["token_type_ids"])
    assert [reference.convert_ids_to_tokens(index) for index in encoding.ids] == encoding.tokens
    assert transformers.AutoTokenizer.from_pretrained(tmp_path).pad_token == "<pad>"


def test_a_batch_a_cut_and_the_way_back(tokenizer: Unigram, tmp_path: Path) -> None:
    batch = tokenizer.encode_batch(TEXTS, list(reversed(TEXTS)), max_length=6)
    for row, first, second in zip(batch, TEXTS, reversed(TEXTS), strict=True):
        assert row == tokenizer.encode(first, second, max_length=6)
        assert len(row) <= 6
    encoding = tokenizer.encode("The river bank")
    start, end = encoding.offsets[2]
    assert "The river bank"[start:end].strip() == "river"
    assert tokenizer.decode(encoding.ids) == "the river bank"
    tokenizer.save_pretrained(tmp_path)
    restored = Unigram.from_pretrained(tmp_path)
    assert restored.vocab == tokenizer.vocab
    assert restored.vocab[restored.token_to_id["▁river"]] == "▁river"
    assert restored.encode("river").ids == tokenizer.encode("river").ids


def test_mistakes_are_one_line(tokenizer: Unigram, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        Unigram.from_pretrained(tmp_path)
    for content, message in (
        ("{", "holds no tokenizer"),
        ("[]", "holds no tokenizer"),
        (tokenizer_json().replace('"Unigram"', '"BPE"'), "holds no tokenizer|of kind BPE"),
        (tokenizer_json(special=("<pad>", "<unk>", "[CLS]", "[SEP]")), r"lacks the special token \[MASK\]"),
    ):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(UserError, match=message) as caught:
            Unigram.from_pretrained(tmp_path)
        assert "\n" not in str(caught.value)
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not UTF-8"):
        Unigram.from_pretrained(tmp_path)
    with pytest.raises(UserError, match="2 texts but 1 pairs"):
        tokenizer.encode_batch(["a", "b"], ["c"])
    with pytest.raises(UserError, match="is outside the vocabulary"):
        tokenizer.decode([len(tokenizer.vocab)])


def test_a_length_that_the_file_asks_for_does_not_count() -> None:
    values = json.loads(tokenizer_json())
    values["truncation"] = {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    values["padding"] = {
        "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>",
    }  # fmt: skip
    text = "the river banks, a bank"
    assert Unigram(json.dumps(values)).encode(text) == Unigram(tokenizer_json()).encode(text)


def test_offsets_are_characters_of_the_text_that_was_given(tokenizer: Unigram) -> None:
    text = "\ud800the river\udfff bank"
    encoding = tokenizer.encode(text)
    assert encoding.ids == tokenizer.encode("the river bank").ids
    assert [text[start:end].strip() for start, end in encoding.offsets[1:-1]] == ["the", "river", "bank"]


def test_the_tag_of_a_word_stays_with_it_after_half_a_character(tokenizer: Unigram) -> None:
    task = Tagging(["O", "B-X", "I-X"])
    whole, broken = (
        task.inputs([TaggedSentence((f"{half}the", "river", "bank"), ("O", "B-X", "I-X"))], tokenizer, 64)[0].target
        for half in ("", "\ud800")
    )
    assert whole is not None
    assert broken is not None
    assert whole.tolist() == broken.tolist()
