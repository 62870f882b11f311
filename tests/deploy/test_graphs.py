"""A graph computes what its model computes, from plain tensors."""

from __future__ import annotations

import pytest
import torch
from export_support import ENCODERS, make_model
from torch import Tensor

from d2lbert import UserError
from d2lbert.data.batching import pack, pad
from d2lbert.deploy.graphs import COLUMNS, PACKED, PADDED, arguments, graph_of, texts_of
from d2lbert.outputs import Rows
from d2lbert.text import WordPiece
from d2lbert.torch.runtime import to_tensors

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrs"])
ENCODINGS = [TOKENIZER.encode(*texts) for texts in [("a b c",), ("d", "e f"), ("g h i j k l",), ("m",), ("n o", "p")]]


def kept(logits: Tensor, rows: Rows[Tensor]) -> Tensor:
    """The logits of tokens without those of padding."""
    mask = rows.mask if rows.mask is not None else rows.sequence_ids
    assert mask is not None
    return logits[mask > 0]


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("head", ["texts", "tokens", "answers", "choices"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_graph_equals_its_model(encoder: str, head: str, packed: bool) -> None:
    model = make_model(encoder, head)
    graph, rows = graph_of(model, packed), to_tensors((pack if packed else pad)(ENCODINGS))
    with torch.no_grad():
        right, found = model(rows), graph(*arguments(rows, graph.inputs).values())
    if COLUMNS in graph.inputs:
        found = texts_of(found, rows)
    if not model.uses_pooler:
        found, right = kept(found, rows), kept(right, rows)
    torch.testing.assert_close(found, right, atol=1e-6, rtol=1e-5)


def test_inputs_have_the_names_that_other_programs_use() -> None:
    assert graph_of(make_model("bert", "tokens")).inputs == PADDED == ("input_ids", "attention_mask", "token_type_ids")
    assert graph_of(make_model("bert", "tokens"), packed=True).inputs == PACKED
    assert graph_of(make_model("bert", "texts"), packed=True).inputs == (*PACKED, COLUMNS)


def test_a_batch_without_segments_and_mask_has_segment_zero_and_no_padding() -> None:
    found = arguments(Rows(torch.tensor([[5, 6]])), PADDED)
    assert found["token_type_ids"].tolist() == [[0, 0]]
    assert found["attention_mask"].tolist() == [[1, 1]]


def test_an_encoder_without_a_head_is_refused() -> None:
    with pytest.raises(UserError, match="a BertModel has no head to export: fine-tune it first"):
        graph_of(ENCODERS["bert"]())
