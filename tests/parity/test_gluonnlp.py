"""GluonNLP's own BERT (version 0.10.0): both editions read its files and compute what it computes."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import gluonnlp_files
import numpy as np
import pytest
import torch
from gluonnlp_files import FOLDER, LENGTHS, OUTPUTS, PARAMS, SIZES, VOCAB
from params_support import gluonnlp_shapes, vocab_json

from d2lbert.config.bert import BertConfig
from d2lbert.text.gluonnlp import read_vocab
from d2lbert.torch.bert import BertModel
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.weights.mxnet_params import read_params, read_params_header
from d2lbert.zoo.gluonnlp import params_folder
from d2lbert.zoo.table import ModelEntry

CONFIG = BertConfig(
    vocab_size=len(gluonnlp_files.PIECES) + 5,
    hidden_size=SIZES["units"],
    num_hidden_layers=SIZES["num_layers"],
    num_attention_heads=SIZES["num_heads"],
    intermediate_size=SIZES["hidden_size"],
    max_position_embeddings=SIZES["max_length"],
)
TOLERANCE = 1e-5


def entry_of(params: Path, vocab: Path) -> ModelEntry:
    """The row that the table would have of two files."""
    sums = {name: hashlib.sha1(file.read_bytes()).hexdigest() for name, file in (("params", params), ("vocab", vocab))}
    return ModelEntry("bert_3_12_4", "Apache-2.0", "devlin2019bert", "toy_uncased", config=CONFIG, gluonnlp=sums)


def folder_of(folder: Path) -> Path:
    """The model folder that is made of the two files in a folder."""
    params, vocab = folder / PARAMS, folder / VOCAB
    entry = entry_of(params, vocab)
    named = folder / entry.params_file
    named.write_bytes(params.read_bytes())
    (folder / entry.vocab_file).write_bytes(vocab.read_bytes())
    return params_folder(entry, named)


@pytest.fixture
def stored(tmp_path: Path, no_data: None) -> Path:
    """The files that GluonNLP wrote, in a folder of this test."""
    for path in FOLDER.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def torch_outputs(folder: Path, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the PyTorch edition makes of the inputs."""
    model = BertForPretraining.from_pretrained(folder).eval()
    ids, segments = torch.from_numpy(given["ids"]), torch.from_numpy(given["segments"])
    mask = torch.from_numpy(mask_of(given).astype(np.int64))
    places = torch.from_numpy(flat_positions(given))
    with torch.no_grad():
        encoded = model.bert(ids, segments, mask, output_hidden_states=True)
        heads = model(ids, segments, mask, masked_positions=places)
    states = {f"state_{index}": state.numpy() for index, state in enumerate(encoded.hidden_states[1:])}
    logits = {"next_sentence": heads.next_logits.numpy(), "tokens": heads.token_logits.numpy()}
    return {**states, "pooled": encoded.pooled.numpy(), **logits}


def mxnet_outputs(folder: Path, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the MXNet edition makes of them."""
    from mxnet import nd

    from d2lbert.mxnet.pretraining import BertForPretraining as MxnetPretraining

    model = MxnetPretraining.from_pretrained(folder)
    ids, segments, mask = (nd.array(array) for array in (given["ids"], given["segments"], mask_of(given)))
    places = nd.array(flat_positions(given), dtype="int32")
    encoded = model.bert(ids, segments, mask, output_hidden_states=True)
    heads = model(ids, segments, mask, masked_positions=places)
    states = {f"state_{index}": state.asnumpy() for index, state in enumerate(encoded.hidden_states[1:])}
    logits = {"next_sentence": heads.next_logits.asnumpy(), "tokens": heads.token_logits.asnumpy()}
    return {**states, "pooled": encoded.pooled.asnumpy(), **logits}


def mask_of(given: dict[str, np.ndarray]) -> np.ndarray:
    """1 for a token and 0 for padding, (3, 9)."""
    return (np.arange(max(LENGTHS)) < given["lengths"][:, None]).astype(np.float32)


def flat_positions(given: dict[str, np.ndarray]) -> np.ndarray:
    """Row times length plus column of each position, (6,)."""
    return (np.arange(len(LENGTHS))[:, None] * max(LENGTHS) + given["positions"]).ravel()


def assert_equal(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray], given: dict[str, np.ndarray]) -> None:
    """All states at tokens, and all that the heads say, are equal."""
    mask = mask_of(given)
    for name, array in ours.items():
        expected = theirs[name].reshape(array.shape)
        found = array * mask[:, :, None] if name.startswith("state") else array
        np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0, err_msg=name)


def test_the_stand_ins_of_other_tests_have_its_names_and_shapes(stored: Path) -> None:
    header = read_params_header(stored / PARAMS)
    assert {name: info.shape for name, info in header.items()} == gluonnlp_shapes(CONFIG)
    assert json.loads((stored / VOCAB).read_text()) == vocab_json(read_vocab(stored / VOCAB))


@pytest.mark.parametrize("edition", ["torch", "mxnet"])
def test_outputs_that_gluonnlp_stored(edition: str, stored: Path) -> None:
    pytest.importorskip(f"d2lbert.{edition}", exc_type=ImportError)
    arrays = dict(np.load(stored / OUTPUTS))
    outputs = torch_outputs if edition == "torch" else mxnet_outputs
    found = outputs(folder_of(stored), arrays)
    assert set(found) == {"state_0", "state_1", "state_2", "pooled", "next_sentence", "tokens"}
    assert_equal(found, arrays, arrays)


def test_the_comparison_notices_a_wrong_name(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Query and key swapped, and the two LayerNorms of a block: each of them changes the outputs."""
    arrays = dict(np.load(stored / OUTPUTS))
    modules = "d2lbert.weights.gluonnlp._CELL_MODULES"
    names = {"attention_cell.proj_query": "attention_cell.proj_key", "layer_norm": "ffn.layer_norm"}
    from d2lbert.weights.gluonnlp import _CELL_MODULES as right

    for number, (one, other) in enumerate(names.items()):
        monkeypatch.setenv("D2LBERT_CACHE", str(stored / f"cache{number}"))
        monkeypatch.setattr(modules, {**right, one: right[other], other: right[one]})
        with pytest.raises(AssertionError, match="Not equal"):
            assert_equal(torch_outputs(folder_of(stored), arrays), arrays, arrays)


def test_transformers_loads_the_folder(stored: Path) -> None:
    transformers = pytest.importorskip("transformers")
    arrays = dict(np.load(stored / OUTPUTS))
    folder = folder_of(stored)
    model = transformers.BertForPreTraining.from_pretrained(folder).eval()
    with torch.no_grad():
        output = model(
            torch.from_numpy(arrays["ids"]),
            token_type_ids=torch.from_numpy(arrays["segments"]),
            attention_mask=torch.from_numpy(mask_of(arrays)).long(),
        )
    np.testing.assert_allclose(output.seq_relationship_logits, arrays["next_sentence"], atol=TOLERANCE, rtol=0)
    tokens = output.prediction_logits.reshape(-1, CONFIG.vocab_size)[flat_positions(arrays)]
    np.testing.assert_allclose(tokens, arrays["tokens"].reshape(tokens.shape), atol=TOLERANCE, rtol=0)
    pieces = transformers.AutoTokenizer.from_pretrained(folder)
    vocab = read_vocab(stored / VOCAB)
    assert pieces("the cat").input_ids == [vocab.index(piece) for piece in ("[CLS]", "the", "cat", "[SEP]")]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_decoder": False},
        {"use_classifier": False},
        {"use_decoder": False, "use_classifier": False},
        {"use_decoder": False, "use_classifier": False, "use_pooler": False},
    ],
    ids=lambda options: " ".join(options) or "all",
)
@pytest.mark.parametrize("deduplicate", [False, True])
def test_files_that_gluonnlp_writes_now(
    options: dict[str, Any], deduplicate: bool, tmp_path: Path, no_data: None
) -> None:
    """With and without the heads, the word embeddings under both their names or under one."""
    pytest.importorskip("d2lbert.mxnet", exc_type=ImportError)
    pytest.importorskip("gluonnlp", reason="needs GluonNLP: pip install --no-deps gluonnlp==0.10.0 (it is compiled)")
    import mxnet as mx

    net, vocab = gluonnlp_files.network(**options)
    net.save_parameters(str(tmp_path / PARAMS), deduplicate=deduplicate)
    (tmp_path / VOCAB).write_text(vocab.to_json())
    assert read_vocab(tmp_path / VOCAB) == vocab.idx_to_token
    ours, theirs = read_params(tmp_path / PARAMS), mx.nd.load(str(tmp_path / PARAMS))
    assert list(ours) == list(theirs)
    assert all(np.array_equal(array, theirs[name].asnumpy()) for name, array in ours.items())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*has no pooler")
        one = BertModel.from_pretrained(folder_of(tmp_path)).eval()
    given = gluonnlp_files.inputs()
    arrays = [mx.nd.array(given[name]) for name in ("ids", "segments", "lengths")]
    found = net(*arrays, mx.nd.array(given["positions"])) if options.get("use_decoder", True) else net(*arrays)
    states = found[0] if isinstance(found, tuple) else found
    with torch.no_grad():
        sequence = one(
            torch.from_numpy(given["ids"]), torch.from_numpy(given["segments"]), torch.from_numpy(mask_of(given))
        ).sequence.numpy()
    last = states[-1].asnumpy()
    np.testing.assert_allclose(sequence * mask_of(given)[:, :, None], last, atol=TOLERANCE, rtol=0)


def test_the_tables_repeat_those_of_gluonnlp() -> None:
    """Every SHA-1 in the table of models is the one that GluonNLP lists."""
    pytest.importorskip("d2lbert.mxnet", exc_type=ImportError)
    pytest.importorskip("gluonnlp", reason="needs GluonNLP: pip install --no-deps gluonnlp==0.10.0 (it is compiled)")
    from gluonnlp.data.utils import _vocab_sha1
    from mxnet.gluon.model_zoo.model_store import _model_sha1

    from d2lbert.zoo.table import entries

    listed = [entry for entry in entries() if entry.gluonnlp]
    assert len(listed) == 18
    for entry in listed:
        assert entry.gluonnlp["params"] == _model_sha1[f"{entry.name}_{entry.dataset}"]
        assert entry.gluonnlp["vocab"] == _vocab_sha1[entry.dataset][0]
