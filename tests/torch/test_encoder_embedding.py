"""An id outside a table of embeddings is named, in every model that reads tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from d2lbert import UserError
from d2lbert.config import BertConfig, GptConfig, Seq2SeqConfig, TransformerConfig
from d2lbert.torch.bert import BertModel
from d2lbert.torch.encoder import Embedding
from d2lbert.torch.gpt import Gpt
from d2lbert.torch.seq2seq import LanguageModel, Seq2Seq
from d2lbert.torch.transformer import Transformer

BLOCK = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12}
TWO = {"share_embeddings": False, "tie_word_embeddings": False}
GOOD = torch.tensor([[1, 2, 3]])
Call = Callable[[Any], Any]


def _gpt() -> Gpt:
    return Gpt(GptConfig(7, 9, 8, 1, 2, 12, bos_token_id=1, eos_token_id=1, pad_token_id=1))


MODELS: dict[str, Call] = {
    "bert": lambda ids: BertModel(BertConfig(vocab_size=7, num_hidden_layers=1, **BLOCK))(ids),
    "gpt": lambda ids: _gpt()(ids),
    "gpt, a prompt": lambda ids: _gpt().start(ids),
    "language model": lambda ids: LanguageModel(7, 4, 8)(ids),
    "seq2seq, source": lambda ids: Seq2Seq(Seq2SeqConfig(7, 9, 8, embedding_size=4))(ids, GOOD),
    "seq2seq, target": lambda ids: Seq2Seq(Seq2SeqConfig(9, 7, 8, embedding_size=4))(GOOD, ids),
    "transformer, source": lambda ids: Transformer(TransformerConfig(7, 9, **BLOCK, **TWO))(ids, GOOD),
    "transformer, target": lambda ids: Transformer(TransformerConfig(9, 7, **BLOCK, **TWO))(GOOD, ids),
}


@pytest.mark.parametrize("wrong", [7, -1])
@pytest.mark.parametrize("name", MODELS)
def test_an_id_of_another_vocabulary_is_one_line(name: str, wrong: int) -> None:
    line = f"token id {wrong} is not from 0 to 6, the rows of its embeddings: encode the text with the tokenizer of"
    with pytest.raises(UserError, match=re.escape(line)):
        MODELS[name](torch.tensor([[3, wrong, 2]]))
    MODELS[name](GOOD)


def test_it_is_the_table_of_torch() -> None:
    table, reference = Embedding(5, 3), nn.Embedding(5, 3)
    reference.load_state_dict(table.state_dict())
    assert torch.equal(table(GOOD), reference(GOOD))
    with pytest.raises(TypeError):  # a mistake in a program keeps its trace
        table([1, 2])
