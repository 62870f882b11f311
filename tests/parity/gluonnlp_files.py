"""A small BERT of GluonNLP's own with its outputs, as files: what the parity test compares the editions with.

GluonNLP 0.10.0 wrote the files in ``tests/parity/gluonnlp_bert``. It is not among the packages of this project, for it
is no longer developed and has to be compiled. To write them anew, install it beside MXNet, without its dependencies:

    pip install --no-deps --target /tmp/gluonnlp gluonnlp==0.10.0
    PYTHONPATH=.:/tmp/gluonnlp .venv/bin/python tests/parity/gluonnlp_files.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "gluonnlp_bert"
PARAMS, VOCAB, OUTPUTS = "bert.params", "bert.vocab", "outputs.npz"

# By the names of GluonNLP's get_bert_model. What could be confused is unequal.
SIZES = {"num_layers": 3, "units": 12, "hidden_size": 20, "num_heads": 4, "max_length": 17, "embed_size": 12}
PIECES = ("the", "cat", "sat", "on", "mat", "##s", "dog", "ran", "##ning", "tree", ",", ".", "!", "a", "river", "bank")
LENGTHS = (9, 5, 7)


def inputs(seed: int = 5) -> dict[str, np.ndarray]:
    """Ids and segments (3, 9), lengths (3,) of which two are shorter, and two positions of each row (3, 2)."""
    generator = np.random.default_rng(seed)
    shape = len(LENGTHS), max(LENGTHS)
    ids = generator.integers(len(PIECES) + 5, size=shape)
    segments = np.arange(shape[1]) >= np.array([[4], [2], [3]])
    positions = np.array([[1, 6], [0, 3], [5, 2]])
    return {"ids": ids, "segments": segments.astype(np.int64), "lengths": np.array(LENGTHS), "positions": positions}


def network(**options: Any) -> Any:
    """GluonNLP's BERT of these sizes with random parameters, and its vocabulary."""
    import gluonnlp
    import mxnet as mx
    from gluonnlp.model.bert import get_bert_model

    vocab = gluonnlp.vocab.BERTVocab(gluonnlp.data.count_tokens(PIECES))
    sizes = {"vocab": vocab, "pretrained": False, "hparam_allow_override": True, **SIZES, **options}
    net, _ = get_bert_model("bert_12_768_12", None, output_all_encodings=True, **sizes)
    net.initialize()
    blank = [mx.nd.zeros((1, 2)), mx.nd.zeros((1, 2)), mx.nd.ones((1,)), mx.nd.zeros((1, 1))]
    net(*blank)  # some shapes are only known after a first call
    generator = np.random.default_rng(4)
    for name, parameter in net._collect_params_with_prefix().items():
        centre = 1.0 if name.endswith("gamma") else 0.0
        parameter.set_data(mx.nd.array(centre + 0.1 * generator.standard_normal(parameter.shape)))
    return net, vocab


def run(net: Any, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The states after each block, and what the heads make of them; padding is zero in the states."""
    import mxnet as mx

    arrays = [mx.nd.array(given[name]) for name in ("ids", "segments", "lengths", "positions")]
    states, pooled, next_sentence, tokens = net(*arrays)
    found = {f"state_{index}": state.asnumpy() for index, state in enumerate(states)}
    return found | {"pooled": pooled.asnumpy(), "next_sentence": next_sentence.asnumpy(), "tokens": tokens.asnumpy()}


def write(folder: Path) -> None:
    """Write weights, vocabulary, inputs and outputs."""
    net, vocab = network()
    folder.mkdir(exist_ok=True)
    net.save_parameters(str(folder / PARAMS))
    (folder / VOCAB).write_text(vocab.to_json() + "\n", encoding="utf-8")
    given = inputs()
    np.savez_compressed(folder / OUTPUTS, **given, **run(net, given))


if __name__ == "__main__":
    import d2lbert.mxnet

    assert d2lbert.mxnet  # its import lets MXNet load on today's NumPy
    write(FOLDER)
