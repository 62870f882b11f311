"""What a browser runs equals the models: gaps with attention, and one encoder with any adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from export_support import SIZES
from random_parameters import randomize
from torch import Tensor

from d2lbert.config import BertConfig
from d2lbert.deploy.browser.graphs import (
    ATTENTIONS,
    TEXTS,
    TOKENS,
    Gaps,
    SharedTexts,
    adapter_inputs,
    layers_with_adapters,
)
from d2lbert.deploy.export import to_onnx
from d2lbert.torch.adapters import load_adapters
from d2lbert.torch.heads import BertWithHead, head_class
from d2lbert.torch.pretraining import BertForPretraining

V, LONGEST = 40, 24
SHAPES = 60


def random_texts(seed: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and segments of a batch of any size and length; each row ends in padding, or does not."""
    generator = torch.Generator().manual_seed(seed)
    rows, length = (int(torch.randint(1, most, (), generator=generator)) for most in (5, LONGEST + 1))
    tokens = torch.randint(1, length + 1, (rows, 1), generator=generator)
    ids = torch.randint(0, vocabulary, (rows, length), generator=generator)
    mask = (torch.arange(length).expand(rows, length) < tokens).long()
    return ids, mask, torch.randint(0, 2, (rows, length), generator=generator)


def session_of(graph: Any) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(to_onnx(graph).SerializeToString(), providers=["CPUExecutionProvider"])


def test_gaps_are_filled_as_the_model_fills_them() -> None:
    model = BertForPretraining(BertConfig(vocab_size=V, max_position_embeddings=LONGEST, **SIZES)).eval()
    randomize(model, seed=2, standard_deviation=0.3)
    graph = Gaps(model).eval()
    session = session_of(graph)
    for seed in range(SHAPES):
        ids, mask, segments = random_texts(seed, V)
        columns = torch.randint(0, ids.shape[1], (len(ids), 1 + seed % 4))
        fed = dict(zip(graph.inputs, (ids.numpy(), mask.numpy(), segments.numpy(), columns.numpy()), strict=True))
        logits, attentions = session.run(list(graph.outputs), fed)
        with torch.no_grad():
            right = model.bert(ids, segments, mask, output_attentions=True)
            wanted = model.token_logits(right.sequence.gather(1, columns.unsqueeze(-1).expand(-1, -1, 12)))
        np.testing.assert_allclose(logits, wanted.numpy(), atol=2e-5, rtol=2e-5)
        np.testing.assert_allclose(attentions, torch.stack(right.attentions, 1).numpy(), atol=2e-5)
    assert graph.outputs[1] == ATTENTIONS


@pytest.fixture(scope="module")
def models(folders: dict[str, str]) -> dict[str, BertWithHead]:
    """Adapters of one encoder; those on tokens leave the pooler alone, and "names" has another rank."""
    names = ("mood", "likeness", "names", "answers")
    paths = {name: Path(folders[name]) for name in names}
    return {name: load_adapters(head_class(path / "config.json"), path) for name, path in paths.items()}


def test_one_encoder_computes_what_each_of_its_models_does(models: dict[str, BertWithHead]) -> None:
    layers = layers_with_adapters(models.values())
    assert layers[-1] == "pooler"
    assert len(layers) == 13
    adapters = {name: adapter_inputs(model, layers) for name, model in models.items()}
    batches = [random_texts(seed, 1000) for seed in range(SHAPES)]
    with torch.no_grad():
        right = {
            name: [model(ids, segments, mask).numpy() for ids, mask, segments in batches]
            for name, model in models.items()
        }
    graph = SharedTexts(models["mood"].bert, layers).eval()  # takes the adapters of "mood" away
    session = session_of(graph)
    for name, model in models.items():
        output = TEXTS if model.uses_pooler else TOKENS
        for (ids, mask, segments), wanted in zip(batches, right[name], strict=True):
            texts = dict(zip(graph.inputs, (ids.numpy(), mask.numpy(), segments.numpy()), strict=False))
            found = session.run([output], texts | adapters[name])[0]
            keep = mask.numpy() > 0 if output == TOKENS else slice(None)  # nobody reads the logits of padding
            np.testing.assert_allclose(found[keep], wanted[keep], atol=5e-5, rtol=5e-5)


def test_another_adapter_gives_other_logits(models: dict[str, BertWithHead]) -> None:
    """The comparison above can fail."""
    layers = layers_with_adapters(models.values())
    own, other = (adapter_inputs(models[name], layers) for name in ("names", "answers"))
    assert set(own) == set(other)
    down = f"{layers[0]}.down"
    assert (own[down].shape[0], other[down].shape[0]) == (3, 2)
    assert not own["pooler.up"].any()
    assert np.abs(own[f"{layers[0]}.up"]).max() > 0.1
