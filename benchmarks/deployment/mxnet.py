"""MiniLM's classifier in Apache MXNet beside PyTorch and ONNX Runtime: latency of one text, accuracy, size.

The decks' table made anew: operation by operation, hybridized (a graph for each block), as one graph, and in 8 bits.
All engines get the same weights and take turns in one process. Latency is that of one text of 256 tokens, as in the
decks; rows are padded everywhere, as MXNet's graphs want them. Accuracy is that on SST-2's dev set. Logits of float32
engines must agree. Training texts calibrate MXNet's 8 bits; ONNX Runtime takes its ranges as they come.

Each engine computes in one thread. With more, each would have helpers of its own in the process; helpers that outnumber
the processors sleep between two operations, so the engines would slow each other down.

    OMP_NUM_THREADS=1 python -m benchmarks.deployment.mxnet    # needs D2LBERT_DATA; five minutes on two idle cores
    OMP_NUM_THREADS=1 python -m benchmarks.deployment.mxnet --turns 3 --sentences 64 --result deployment/trial
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command_line import command_line
from benchmarks.deployment.ledger import milliseconds
from benchmarks.engine_turns import differences, instructions, texts_of_length, turns_of
from benchmarks.int8_sides import BATCH, Engine, graph_file, in_onnx_runtime, in_pytorch, int8_file
from benchmarks.labels import compared
from benchmarks.record import Record
from benchmarks.timing import compare
from d2lbert import data
from d2lbert.data.batching import pad
from d2lbert.deploy.formats import PARAMETERS_FILE
from d2lbert.deploy.symbols import CALIBRATIONS, Recorded, find_bounds, inputs_of, load_symbol, quantize, record
from d2lbert.mxnet import heads
from d2lbert.mxnet.runtime import to_tensors
from d2lbert.text import WordPiece
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.weights.folder import WEIGHTS_FILE
from d2lbert.zoo import locate

from mxnet import nd  # isort: skip  # d2lbert.mxnet makes it ready

MODEL = "minilm-sst2"
TOKENS = 256  # of the text whose latency is measured
CALIBRATION = 256  # training texts
REFERENCE = "PyTorch"


def in_mxnet(model: Callable[[Any], Any]) -> Engine:
    """Return a model of the MXNet edition as an engine."""
    return lambda batch: model(to_tensors(batch)).asnumpy()


def as_one_graph(recorded: Recorded, folder: Path) -> Engine:
    """Return a recorded graph as an engine, written and read again; the files stay in the folder."""
    folder.mkdir()
    recorded.save(folder)
    block = load_symbol(folder)

    def run(batch: Any) -> np.ndarray:
        return block(*(nd.array(one) for one in (batch.token_ids, batch.mask, batch.segment_ids))).asnumpy()

    return run


def engines(folder: Path, tokenizer: WordPiece, texts: list[str]) -> tuple[dict[str, Engine], dict[str, int]]:
    """Return name -> engine, and the bytes of what each reads.

    Args:
        folder: for files.
        texts: calibrate MXNet's 8 bits.
    """
    model = BertForSequenceClassification.from_pretrained(MODEL).eval()
    eager, hybrid = (heads.BertForSequenceClassification.from_pretrained(MODEL) for _ in range(2))
    hybrid.hybridize(static_alloc=True)
    recorded, batches = record(eager), inputs_of(texts, tokenizer)
    graph = graph_file(model, folder, packed=False)
    small = int8_file(graph, "int8")
    model.save_pretrained(folder)
    sides = {
        REFERENCE: in_pytorch(model),
        "ONNX Runtime": in_onnx_runtime(graph, model),
        "ONNX Runtime int8": in_onnx_runtime(small, model),
        "MXNet, operation by operation": in_mxnet(eager),
        "MXNet, hybridized": in_mxnet(hybrid),
        "MXNet, one graph": as_one_graph(recorded, folder / "graph"),
    }
    sizes = {REFERENCE: folder / WEIGHTS_FILE, "ONNX Runtime": graph, "ONNX Runtime int8": small}
    sizes |= {"MXNet, one graph": folder / "graph" / PARAMETERS_FILE}
    for calibration in CALIBRATIONS:
        bounds = find_bounds(recorded, batches, calibration)
        for per_channel, scales in ((True, "a scale for each column"), (False, "a scale for each matrix")):
            name = f"MXNet int8, {calibration}, {scales}"
            sides[name] = as_one_graph(quantize(recorded, bounds, per_channel), folder / name)
            sizes[name] = folder / name / PARAMETERS_FILE
    return sides, {name: path.stat().st_size for name, path in sizes.items()}


def accuracies(sides: dict[str, Engine], encodings: list[Any], truth: np.ndarray) -> dict[str, dict[str, float]]:
    """Return for each engine its accuracy, and how its labels differ from the reference's.

    Args:
        truth: (N,), the right labels.
    """
    batches = [pad(encodings[start : start + BATCH]) for start in range(0, len(encodings), BATCH)]
    labels = {name: np.concatenate([run(batch) for batch in batches]).argmax(-1) for name, run in sides.items()}
    return {name: compared(found, labels[REFERENCE], truth) for name, found in labels.items()}


def measure(turns: int, sentences: int | None, calibration: int = CALIBRATION) -> dict[str, Any]:
    """Return what was measured of each engine, by its name.

    Args:
        turns: texts whose latency is taken.
        sentences: of the dev set; None for all.
        calibration: training texts for MXNet's 8 bits.
    """
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    dev = data.load("sst2", "dev")[:sentences]
    texts = [example.text for example in dev]
    long = texts_of_length(tokenizer, texts, TOKENS, turns)
    with tempfile.TemporaryDirectory() as folder:
        training = [example.text for example in data.load("sst2", "train")[:calibration]]
        sides, sizes = engines(Path(folder), tokenizer, training)
        laps, logits = turns_of({name: (engine, pad) for name, engine in sides.items()}, [[one] for one in long])
        order = BertForSequenceClassification.from_pretrained(MODEL).labels
        truth = np.array([order.index(example.label) for example in dev])
        scores = accuracies(sides, tokenizer.encode_batch(texts, max_length=512), truth)
    speed = compare(laps, "texts", [(name, REFERENCE) for name in sides if name != REFERENCE])
    return {
        "latency": {**speed, "differences": differences(logits, REFERENCE, ["int8"])},
        "milliseconds": {name: milliseconds([lap.seconds for lap in own]) for name, own in laps.items()},
        "bytes": sizes,
        "accuracy": scores,
    }


def main() -> None:
    """Measure all engines and write ``results/deployment/mxnet.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--turns", type=int, default=40, help="texts whose latency is taken")
    parser.add_argument("--sentences", type=int, help="of the dev set; by default all")
    parser.add_argument("--result", default="deployment/mxnet", help="results/<this>.json")
    options = parser.parse_args()
    if torch.get_num_threads() != 1:
        raise SystemExit("each engine gets one thread here: set OMP_NUM_THREADS=1 for this command")
    record_of_run = Record(options.result, ["mxnet", "torch", "onnxruntime", "numpy", "d2lbert"], data_sets=["sst2"])
    metrics = measure(options.turns, options.sentences)
    record_of_run.write(
        metrics,
        data="sst2 dev",
        sentences=len(data.load("sst2", "dev")[: options.sentences]),
        calibration_texts=CALIBRATION,
        model=MODEL,
        tokens=TOKENS,
        threads=torch.get_num_threads(),
        instructions=instructions(),
    )


if __name__ == "__main__":
    main()
