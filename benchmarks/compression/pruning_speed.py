"""What pruning gains in speed and size: models with less in them take turns with the whole one.

The sentences of SST-2's dev set, in packed rows, are classified by MiniLM with 90 % of the weights zero, without heads,
without neurons, and with the three layers of ``compression/relations``. One product with a matrix of 90 % zeros is
timed in dense and in sparse formats, too. One core. Run it on a machine that does nothing else: the result says whether
it did. The choices of ``compression/pruning`` are taken from its result.

    OMP_NUM_THREADS=1 python -m benchmarks.compression.pruning_speed    # needs D2LBERT_DATA for the real set
    python -m benchmarks.compression.pruning_speed --size 60
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.command_line import command_line
from benchmarks.compression.relations import LAYERS
from benchmarks.int8_sides import batches_of, in_pytorch
from benchmarks.pruned import Whole, smaller_models, zeros
from benchmarks.record import Record
from benchmarks.timing import compare, in_words, take_turns, timed
from d2lbert.data.batching import pack
from d2lbert.torch.compression import copy_layers
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.weights.folder import WEIGHTS_FILE

WHOLE = "nothing"  # is gone
NOT_TIMED = ("50% of the weights", "70% of the weights", "80% of the weights")  # all zeros take the time of a number
WARM_UP = 2
PRODUCTS = 60
TOKENS = 768  # of a batch


def size_of(model: BertForSequenceClassification) -> dict[str, int]:
    """Return the parameters, the bytes of the written weights, and these bytes when they are compressed."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        content = (Path(folder) / WEIGHTS_FILE).read_bytes()
    return {
        "parameters": count_parameters(model),
        "in_blocks": count_parameters(model.bert.encoder),
        "bytes": len(content),
        "bytes_compressed": len(zlib.compress(content, 6)),
    }


def speeds(models: dict[str, BertForSequenceClassification], encodings: list[Any]) -> dict[str, Any]:
    """Let the models take turns over batches of texts."""
    turns = batches_of(encodings)

    def side(model: BertForSequenceClassification) -> Callable[[list[Any]], Any]:
        run = in_pytorch(model.eval())
        return lambda batch: run(pack(batch))

    sides = {name: timed(side(model), len) for name, model in models.items()}
    laps = take_turns(sides, turns[:1] * WARM_UP + turns, WARM_UP)
    return compare(laps, "sentences", [(name, WHOLE) for name in models if name != WHOLE])


def products(model: BertForSequenceClassification) -> dict[str, Any]:
    """Time one product of a matrix with many zeros in formats of PyTorch: dense, and what is not zero alone."""
    weight = model.bert.encoder.layers()[0].feed_forward.expand.weight.detach()  # (O, I)
    x = torch.randn(weight.shape[1], TOKENS, generator=torch.Generator().manual_seed(0))
    formats = {"dense": weight, "sparse, CSR": weight.to_sparse_csr(), "sparse, COO": weight.to_sparse_coo()}
    for name, own in formats.items():
        torch.testing.assert_close(own @ x, weight @ x, atol=1e-3, rtol=1e-4, msg=f"{name}: another product")
    sides = {name: timed(lambda _, own=own: own @ x, lambda _: 1.0) for name, own in formats.items()}
    laps = take_turns(sides, range(WARM_UP + PRODUCTS), WARM_UP)
    return compare(laps, "products", [(name, "dense") for name in formats if name != "dense"])


def main() -> None:
    """Time, and write ``results/compression/pruning_speed.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    parser.add_argument("--result", default="compression/pruning_speed", help="results/<this>.json")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "d2lbert"], data_sets=["sst2"], size=options.size)
    torch.set_num_threads(1)
    whole = Whole(options.size)
    models = {name: whole.after(change) for name, change in smaller_models(whole).items() if name not in NOT_TIMED}
    models["half of the layers"] = BertForSequenceClassification(
        copy_layers(whole.model.bert, LAYERS), whole.model.labels
    )
    found = speeds(models, whole.encodings("dev"))
    print(in_words(found), flush=True)
    sparse = products(whole.after(zeros(0.9, False)))
    print(in_words(sparse), flush=True)
    record.write(
        {"models": found, "products": sparse, "sizes": {name: size_of(model) for name, model in models.items()}},
        **whole.notes(),
    )


if __name__ == "__main__":
    main()
