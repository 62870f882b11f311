"""A compiler beside a runtime: MiniLM's classifier in PyTorch, ONNX Runtime and TVM, one text at a time.

TVM turns each operation of a ``torch.export`` program into loops and compiles the loops; batch and length stay free.
Three ways to choose the loops:

* as compiled: as the operation is written, for any x86-64 processor.
* this processor: the same loops, with this processor's instructions.
* reordered: neighbouring numbers are read one after the other, 16 at once, by all cores. (These loops, for any
  processor of this machine's kind, are what ``d2lbert export --format tvm`` writes.)

The same weights, the same texts of 32 and of 256 tokens; all take turns in one process, and their logits must agree.
TVM is no dependency of this project: ``pip install apache-tvm``. What is missing was tried with 0.27.0.post1: its wheel
has no library of matrix products to call, and its search for faster loops (MetaSchedule, started by ``tune_relax``)
ends in a segmentation fault.

    python -m benchmarks.deployment.tvm    # a quarter of an hour on two cores
    python -m benchmarks.deployment.tvm --turns 3 --result deployment/trial
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.command_line import command_line
from benchmarks.engine_turns import differences, instructions, race, texts_of_length
from benchmarks.int8_sides import Engine, graph_file, in_onnx_runtime, in_pytorch
from benchmarks.record import Record
from d2lbert import data
from d2lbert.data.batching import pad
from d2lbert.deploy.export import to_program
from d2lbert.deploy.formats import LIBRARY_FILE
from d2lbert.deploy.graphs import Graph, graph_of
from d2lbert.deploy.tvm import CompiledModel, link, loops_of, reordered
from d2lbert.text import WordPiece
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.zoo import locate

LENGTHS = (32, 256)
REFERENCE = "PyTorch"


def compiled(graph: Graph, folder: Path) -> tuple[dict[str, Engine], dict[str, dict[str, float]]]:
    """Compile a graph in each of the ways above.

    Returns:
        name of a way -> its engine, and name of a way -> seconds to compile it and bytes of its library.
    """
    import tvm
    from tvm.target.codegen import llvm_get_system_cpu

    cores = {"kind": "llvm", "num-cores": torch.get_num_threads()}
    this = tvm.target.Target({**cores, "mcpu": llvm_get_system_cpu()})
    program = to_program(graph).run_decompositions()
    engines, costs = {}, {}
    for way, target in (("as compiled", tvm.target.Target(cores)), ("this processor", this), ("reordered", this)):
        place, began = folder / way, time.perf_counter()
        place.mkdir()
        module = loops_of(program)
        link(reordered(module) if way == "reordered" else module, target, place)
        library = CompiledModel(place / LIBRARY_FILE, graph.model.config, list(graph.model.labels))
        engines[f"TVM, {way}"] = in_pytorch(library)
        cost = {"seconds_to_compile": time.perf_counter() - began, "bytes": (place / LIBRARY_FILE).stat().st_size}
        costs[f"TVM, {way}"] = cost
        print(f"{way}: {cost}", flush=True)
    return engines, costs


def measure(tokenizer: WordPiece, texts: list[str], count: int) -> dict[str, Any]:
    """Compile, let all sides take turns over so many texts of each length, and return what was measured."""
    model = BertForSequenceClassification.from_pretrained("minilm-sst2")
    with tempfile.TemporaryDirectory() as name:
        graph = graph_file(model, Path(name), packed=False)
        engines, costs = compiled(graph_of(model), Path(name))
        engines = {REFERENCE: in_pytorch(model), "ONNX Runtime": in_onnx_runtime(graph, model), **engines}
        metrics: dict[str, Any] = {"compiled": costs, "onnx_bytes": graph.stat().st_size}
        for length in LENGTHS:
            turns = [[one] for one in texts_of_length(tokenizer, texts, length, count)]
            found, logits = race({side: (engine, pad) for side, engine in engines.items()}, turns, "texts", REFERENCE)
            metrics[str(length)] = {**found, "differences": differences(logits, REFERENCE)}
    return metrics


def main() -> None:
    """Compile, measure and write ``results/deployment/tvm.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--turns", type=int, default=12, help="texts of each length")
    parser.add_argument("--result", default="deployment/tvm", help="results/<this>.json")
    options = parser.parse_args()
    if importlib.util.find_spec("tvm") is None:
        raise SystemExit("TVM is not installed: pip install apache-tvm")
    os.environ.setdefault("TVM_NUM_THREADS", str(torch.get_num_threads()))
    record = Record(options.result, ["torch", "onnxruntime", "apache-tvm", "d2lbert"], seeds=[0], data_sets=["sst2"])
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    texts = [example.text for example in data.load("sst2", "dev")]
    record.write(
        measure(tokenizer, texts, options.turns),
        data="sst2 dev",
        threads=torch.get_num_threads(),
        instructions=instructions(),
    )


if __name__ == "__main__":
    main()
