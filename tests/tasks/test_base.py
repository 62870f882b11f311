"""What tasks share: texts encoded with a count of those cut, indices of labels, softmax."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.tasks.base import encode_texts, label_indices, longest_input, softmax
from d2lbert.text import WordPiece

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film", "plot"])


@pytest.mark.parametrize(
    ("trained", "positions", "longest"), [(None, 512, 384), (256, 512, 256), (256, 64, 64), (None, 64, 64)]
)
def test_a_model_reads_as_much_as_in_its_training(trained: int | None, positions: int, longest: int) -> None:
    model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=positions), trained_length=trained)
    assert longest_input(model, 384) == longest


def test_of_any_other_model_128_tokens_are_read() -> None:
    assert longest_input(SimpleNamespace()) == 128


def test_texts_and_pairs_are_encoded() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is cut
        (text,) = encode_texts(TOKENIZER, ["good film"], None, 4)
        (pair,) = encode_texts(TOKENIZER, ["good"], ["plot film"], 6)
    assert text.tokens == ["[CLS]", "good", "film", "[SEP]"]
    assert pair.tokens == ["[CLS]", "good", "[SEP]", "plot", "film", "[SEP]"]


def test_what_is_cut_is_counted() -> None:
    with pytest.warns(UserWarning, match="^2 of 3 texts cut after 4 tokens: .*; a larger max_length reads more$"):
        encodings = encode_texts(TOKENIZER, ["good good film", "film", "plot plot plot"], None, 4)
    assert [len(encoding) for encoding in encodings] == [4, 3, 4]
    with pytest.warns(UserWarning, match="^1 of 2 texts cut after 5 tokens: "):
        encode_texts(TOKENIZER, ["good", "good"], ["plot", "plot film"], 5)


def test_a_text_of_nothing_is_refused() -> None:
    empty = "\u200b"
    for firsts, seconds, number in (
        (["film", empty], None, "2 of 2"), ([empty], ["film"], "1 of 1"), (["film"], [empty], "1 of 1"),
    ):  # fmt: skip
        message = rf"the text '\\u200b' \(text {number}\) holds nothing that the tokenizer keeps"
        with pytest.raises(UserError, match=message):
            encode_texts(TOKENIZER, firsts, seconds, 8)
    with pytest.raises(UserError, match="max_length 4 is too small for a pair"):
        encode_texts(TOKENIZER, ["film"], ["plot"], 4)


def test_a_text_of_nothing_may_be_allowed() -> None:
    (pair,) = encode_texts(TOKENIZER, ["film"], [""], 8, allow_empty=True)
    assert pair.tokens == ["[CLS]", "film", "[SEP]", "[SEP]"]
    assert pair.segment_ids == [0, 0, 0, 1]


def test_many_texts_are_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["good film", "plot", "film film film", "good"] * 3
    whole = [encoding.unpacked() for encoding in encode_texts(TOKENIZER, texts, texts, 16)]
    assert whole == TOKENIZER.encode_batch(texts, texts, 16)
    sizes = []
    real = WordPiece.encode_batch
    monkeypatch.setattr("d2lbert.tasks.base._AT_ONCE", 5)
    monkeypatch.setattr(
        WordPiece, "encode_batch", lambda self, part, *rest: sizes.append(len(part)) or real(self, part, *rest)
    )
    assert [encoding.unpacked() for encoding in encode_texts(TOKENIZER, texts, texts, 16)] == whole
    assert sizes == [5, 5, 2]  # never all at once: a tokenizer's own objects take hundreds of bytes a token
    with pytest.warns(UserWarning, match="^3 of 12 texts cut after 4 tokens"):
        encode_texts(TOKENIZER, texts, None, 4)
    with pytest.raises(UserError, match=r"\(text 12 of 13\)"):
        encode_texts(TOKENIZER, [*texts[:11], "\u200b", "film"], None, 8)


def test_indices_of_labels() -> None:
    assert label_indices(["no", "yes"], ["yes", "no", "yes"]).tolist() == [1, 0, 1]
    with pytest.raises(UserError, match="unknown label 'yess': did you mean yes"):
        label_indices(["no", "yes"], ["yess"])
    with pytest.raises(UserError, match="an example has no label: label every one"):
        label_indices(["no", "yes"], [None])


def test_softmax_of_large_logits() -> None:
    np.testing.assert_allclose(softmax(np.array([1000.0, 1000.0 + np.log(3)])), [0.25, 0.75])
