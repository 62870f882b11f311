"""What 8 bits cost: the accuracy of fine-tuned classifiers on SST-2's dev set, in 32 bits and in int8 by two libraries.

All engines classify the same sentences. Beside the accuracy stands how many labels an engine changes against 32 bits,
and how many of these were right before: the error of the difference of two accuracies follows from them (McNemar 1947).
Other models than the one that comes with the book are made by ``d2lbert finetune``, here with two seeds.

    for s in 0 1; do d2lbert finetune classification --train sst2 --model minilm --seed $s --out runs/seed-$s; done
    python -m benchmarks.deployment.accuracy --models minilm-sst2 runs/seed-0 runs/seed-1
"""

from __future__ import annotations

import math
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import command_line
from benchmarks.engine_turns import instructions
from benchmarks.int8_sides import (
    CALIBRATION,
    graph_file,
    in_onnx_runtime,
    in_pytorch,
    int8_file,
    int8_in_pytorch,
    largest_sum,
    to_calibrate,
)
from benchmarks.labels import compared, labels_of
from benchmarks.record import Record
from d2lbert import data
from d2lbert.models import tokenizer_of
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.zoo import locate

WIDTH = 64  # products in the sum that tells whether 16 bits overflow


def measure(source: str, examples: list[Any]) -> dict[str, Any]:
    """Return what each engine made of one model."""
    model = BertForSequenceClassification.from_pretrained(source)
    tokenizer = tokenizer_of(locate(source), model.config)
    encodings = tokenizer.encode_batch([example.text for example in examples], max_length=512)
    texts = [example.text for example in data.load("sst2", "train")[:CALIBRATION]]
    batches = to_calibrate(tokenizer.encode_batch(texts, max_length=512))
    truth = np.array([model.labels.index(example.label) for example in examples])
    with tempfile.TemporaryDirectory() as folder:
        graph = graph_file(model, Path(folder), packed=True)
        eight = int8_file(graph, "8 bits", reduce_range=False)
        calibrated = int8_file(graph, "calibrated", batches=batches)
        sides = {
            "32 bits": in_pytorch(model),
            "ONNX Runtime int8": in_onnx_runtime(int8_file(graph, "7 bits"), model),
            "ONNX Runtime int8, weights of 8 bits": in_onnx_runtime(eight, model),
            "ONNX Runtime int8, calibrated": in_onnx_runtime(calibrated, model),
            "PyTorch int8, a step for each row": int8_in_pytorch(model, by_row=True),
            "PyTorch int8": int8_in_pytorch(model),
        }
        labels = {name: labels_of(engine, encodings) for name, engine in sides.items()}
    results = {name: compared(found, labels["32 bits"], truth) for name, found in labels.items()}
    for name, result in results.items():
        print(f"{source}, {name}: {result}", flush=True)
    return results


def over_models(results: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return for each engine the mean accuracy and difference of several models, and the standard error of the latter.

    The error is that of the scored sentences; which labels change is taken to be independent from model to model.
    """
    found = {}
    for engine in results[0]:
        errors = [own[engine]["standard_error_of_difference"] for own in results]
        found[engine] = {
            "accuracy": statistics.mean(own[engine]["accuracy"] for own in results),
            "changed": sum(own[engine]["changed"] for own in results),
            "difference": statistics.mean(own[engine]["difference"] for own in results),
            "standard_error_of_difference": math.sqrt(sum(error**2 for error in errors)) / len(errors),
        }
    return found


def main() -> None:
    """Classify with every engine and write ``results/deployment/accuracy.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--models", nargs="+", default=["minilm-sst2"], help="names of the zoo, or folders")
    options = parser.parse_args()
    record = Record("deployment/accuracy", ["torch", "onnxruntime", "d2lbert"], data_sets=["sst2"])
    examples = data.load("sst2", "dev")
    metrics = {Path(source).name: measure(source, examples) for source in options.models}
    record.write(
        metrics,
        mean=over_models(list(metrics.values())),
        sum_of_products={"found": largest_sum(WIDTH), "right": 255 * 127 * WIDTH},
        data="sst2 dev",
        sentences=len(examples),
        instructions=instructions(),
    )


if __name__ == "__main__":
    main()
