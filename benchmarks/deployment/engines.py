"""Engines for a fine-tuned BERT on a processor, in float32 and int8: latency of one text, sentences a second, size.

All engines get the same weights and the same texts and take turns in one process. Latency is that of one text of 256
tokens, as in the decks. Sentences a second are those of SST-2's dev set in the order in which they come, 32 at once:
padded to the longest of the batch, or packed into full rows. Tokenizing is done before; laying out a batch is timed.
Logits of float32 engines must agree; of int8 the largest difference is recorded, and how many labels change.

MiniLM is ``minilm-sst2``; BERT-base has random weights, whose speed is that of any others.

    python -m benchmarks.deployment.engines    # needs D2LBERT_DATA for the real sentences; eleven minutes on two cores
    python -m benchmarks.deployment.engines --models minilm --turns 5 --batches 3 --result deployment/trial
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.command_line import command_line
from benchmarks.engine_turns import Layout, differences, instructions, race, texts_of_length
from benchmarks.int8_sides import (
    BATCH,
    CALIBRATION,
    Engine,
    batches_of,
    graph_file,
    in_onnx_runtime,
    in_pytorch,
    in_transformers,
    int8_file,
    int8_in_pytorch,
    to_calibrate,
)
from benchmarks.record import Record
from d2lbert import data
from d2lbert.config import preset
from d2lbert.data.batching import pack, pad
from d2lbert.text import Encoding, WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.weights.folder import WEIGHTS_FILE
from d2lbert.zoo import locate

TOKENS = 256  # of the text whose latency is measured
# Engines whose numbers have fewer digits: their logits may differ.
REDUCED = ("int8", "bfloat16")
REFERENCE = "transformers"


def model_of(name: str) -> BertForSequenceClassification:
    """Return MiniLM fine-tuned on SST-2, or a model of BERT-base's sizes."""
    if name == "minilm":
        return BertForSequenceClassification.from_pretrained("minilm-sst2")
    torch.manual_seed(0)
    return BertForSequenceClassification(BertModel(preset(name)), ("negative", "positive")).eval()


def write_graphs(
    model: BertForSequenceClassification, folder: Path, calibration: Sequence[Encoding]
) -> dict[str, Path]:
    """Write the model's graphs for ONNX Runtime; return them by the names of their engines."""
    padded, packed = (graph_file(model, folder, rows) for rows in (False, True))
    return {
        "ONNX Runtime, padded": padded,
        "ONNX Runtime": packed,
        "ONNX Runtime int8, padded": int8_file(padded, "int8"),
        "ONNX Runtime int8": int8_file(packed, "int8"),
        "ONNX Runtime int8, calibrated": int8_file(packed, "calibrated", batches=to_calibrate(calibration)),
    }


def engines(model: BertForSequenceClassification, graphs: dict[str, Path]) -> dict[str, tuple[Engine, Layout]]:
    """Return name -> engine, and what lays out its rows."""
    return {
        "transformers eager": (in_transformers(model, "eager"), pad),
        REFERENCE: (in_transformers(model, "sdpa"), pad),
        "PyTorch, padded": (in_pytorch(model), pad),
        "PyTorch": (in_pytorch(model), pack),
        "PyTorch bfloat16": (in_pytorch(model, torch.bfloat16), pack),
        # A step for each row: with one step for a whole layer labels change (benchmarks/deployment/accuracy.py).
        "PyTorch int8": (int8_in_pytorch(model, by_row=True), pack),
        **{
            name: (in_onnx_runtime(graph, model), pad if name.endswith("padded") else pack)
            for name, graph in graphs.items()
        },
    }


def measure(
    name: str, calibration: list[Encoding], encodings: list[Encoding], long: list[Encoding], batches: int | None
) -> dict[str, Any]:
    """Run all engines with one model and return what was measured.

    Args:
        name: of the model.
        calibration: texts that give the scales of the calibrated graph.
        encodings: whose sentences a second are counted; ``batches`` of them.
        long: whose latency is taken.
    """
    model = model_of(name)
    chunks = batches_of(encodings)[:batches]
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        graphs = write_graphs(model, Path(folder), calibration)
        files = {"PyTorch": Path(folder) / WEIGHTS_FILE} | graphs
        sizes = {engine: path.stat().st_size for engine, path in files.items()}
        sides = engines(model, graphs)
        latency, one = race(sides, [[one] for one in long], "texts", REFERENCE)
        speed, many = race(sides, chunks, "sentences", REFERENCE)
    return {
        "bytes": sizes,
        "latency": {**latency, "differences": differences(one, REFERENCE, REDUCED)},
        "throughput": {**speed, "differences": differences(many, REFERENCE, REDUCED)},
    }


def main() -> None:
    """Measure all engines and write ``results/deployment/engines.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--models", nargs="+", default=["minilm", "base"], choices=["minilm", "mini", "base"])
    parser.add_argument("--turns", type=int, default=30, help="texts whose latency is taken")
    parser.add_argument("--batches", type=int, help="of the dev set; by default all")
    parser.add_argument("--result", default="deployment/engines", help="results/<this>.json")
    options = parser.parse_args()
    record = Record(options.result, ["torch", "transformers", "onnxruntime", "d2lbert"], seeds=[0], data_sets=["sst2"])
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    texts = [example.text for example in data.load("sst2", "dev")]
    encodings = tokenizer.encode_batch(texts, max_length=512)
    long = texts_of_length(tokenizer, texts, TOKENS, options.turns)
    calibration = tokenizer.encode_batch([one.text for one in data.load("sst2", "train")[:CALIBRATION]], max_length=512)
    metrics = {name: measure(name, calibration, encodings, long, options.batches) for name in options.models}
    record.write(
        metrics,
        data="sst2 dev",
        batch_size=BATCH,
        calibration_texts=len(calibration),
        tokens=TOKENS,
        threads=torch.get_num_threads(),
        instructions=instructions(),
    )


if __name__ == "__main__":
    main()
