"""BERT in MXNet: as one exported graph, on other parameters than its first, trained by Gluon's trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from d2lbert.config import BertConfig
from d2lbert.config.base import BlockSizes

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from mxnet import autograd, gluon, nd

from d2lbert.mxnet import BertModel
from d2lbert.mxnet.encoder import TransformerEncoder, TransformerEncoderBlock, count_parameters, initialize

CONFIG = BertConfig(
    vocab_size=50, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
    max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.3,
)  # fmt: skip


class _OneGraph(gluon.HybridBlock):
    """Embeddings and blocks of a model as a single graph: each takes symbols."""

    def __init__(self, model: BertModel) -> None:
        super().__init__()
        self.embeddings, self.encoder = model.embeddings, model.encoder

    def hybrid_forward(self, F: Any, token_ids: Any, segment_ids: Any, position_ids: Any, mask: Any) -> Any:
        return self.encoder(self.embeddings(token_ids, segment_ids, position_ids), mask).sequence


def _ids(length: int = 7) -> nd.NDArray:
    return nd.array(np.random.default_rng(0).integers(1, 50, (4, length)))


def test_exported_graph_gives_the_same(tmp_path: Path) -> None:
    mxnet.random.seed(1)
    model, ids = BertModel(CONFIG), _ids()
    mask = nd.array(np.arange(7)[None] < np.array([[7], [4], [2], [6]]))
    expected = model(ids, mask=mask).sequence.asnumpy()
    inputs = [ids, nd.zeros_like(ids), nd.arange(7).expand_dims(0), mask.expand_dims(1)]
    graph = _OneGraph(model)
    graph.hybridize()
    assert np.abs(graph(*inputs).asnumpy() - expected).max() < 1e-6
    graph.export(str(tmp_path / "bert"))
    names = [f"data{index}" for index in range(len(inputs))]
    files = [str(tmp_path / name) for name in ("bert-symbol.json", "bert-0000.params")]
    loaded = gluon.SymbolBlock.imports(files[0], names, files[1])
    assert np.abs(loaded(*inputs).asnumpy() - expected).max() < 1e-6


@pytest.mark.parametrize("hybridize", [False, True])
def test_trainer_learns_a_rule(hybridize: bool) -> None:
    """Eight texts, one bit each: the loss must fall to nearly nothing."""
    mxnet.random.seed(2)
    model, head = BertModel(CONFIG), gluon.nn.Dense(2, in_units=12)
    head.initialize()
    if hybridize:
        model.hybridize()
    ids = nd.array(np.random.default_rng(1).integers(1, 50, (8, 7)))
    labels = nd.array([0, 1] * 4)
    parameters = {**model.collect_params(), **head.collect_params()}
    trainer = gluon.Trainer(parameters, "adam", {"learning_rate": 0.01})
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(40):
        with autograd.record():
            loss = loss_function(head(model(ids).pooled), labels).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    assert losses[0] > 0.5
    assert losses[-1] < 0.05


def test_loading_reaches_a_graph_that_already_ran() -> None:
    one, two, ids = BertModel(CONFIG), BertModel(CONFIG), _ids()
    one.hybridize()
    before = one(ids).pooled.asnumpy()
    one.load_tensors(two.tensors(), "another model")
    assert not np.allclose(before, one(ids).pooled.asnumpy())
    assert np.abs(one(ids).pooled.asnumpy() - two(ids).pooled.asnumpy()).max() < 1e-6


def test_parameters_of_a_block_by_formula() -> None:
    hidden, wide = 12, 20
    attention = 4 * (hidden * hidden + hidden)
    feed_forward = 2 * hidden * wide + hidden + wide
    block = TransformerEncoderBlock(BlockSizes(hidden, 3, wide))
    assert count_parameters(block) == attention + feed_forward + 2 * 2 * hidden


def test_initialisation() -> None:
    encoder = TransformerEncoder(BlockSizes(60, 3, 120), 2)
    encoder.initialize(mxnet.init.One())
    encoder.apply(lambda module: initialize(module, 0.02))
    for name, parameter in encoder._collect_params_with_prefix().items():
        values = parameter.data().asnumpy()
        if name.endswith("gamma"):
            assert (values == 1).all(), name
        elif name.endswith("weight"):
            assert values.std() == pytest.approx(0.02, rel=0.1), name
        else:
            assert not values.any(), name


def test_two_models_have_their_own_parameters() -> None:
    one, two = BertModel(CONFIG), BertModel(CONFIG)
    assert not set(one.collect_params()) & set(two.collect_params())
    weight = one.encoder.blocks[0].attention.query.weight
    assert not np.array_equal(weight.data().asnumpy(), one.encoder.blocks[1].attention.query.weight.data().asnumpy())
