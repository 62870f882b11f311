"""A compiler beside a runtime: MiniLM's classifier in PyTorch, ONNX Runtime and TVM, one text at a time.

TVM turns each operation of a ``torch.export`` program into loops and compiles the loops. Four ways to choose them:

* as compiled: loops as the operation is written, for any x86-64 processor; batch and length stay free.
* this processor: the same loops, with this processor's instructions.
* reordered: neighbouring numbers are read one after the other, 16 at once, by all cores; batch and length stay free.
* tuned: one batch size and length for each program. MetaSchedule tries ``--trials`` ways and keeps the fastest.

The same weights, the same texts of 32 and of 256 tokens; all take turns in one process, and their logits must agree.
TVM is no dependency of this project: ``pip install apache-tvm xgboost-cpu`` (seen with 0.27).

    python -m benchmarks.deployment.tvm    # half an hour on two cores
    python -m benchmarks.deployment.tvm --trials 64 --turns 3 --result deployment/trial
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command_line import command_line
from benchmarks.engine_turns import differences, instructions, race, texts_of_length
from benchmarks.int8_sides import Engine, graph_file, in_onnx_runtime, in_pytorch
from benchmarks.record import Record
from d2lbert import data
from d2lbert.deploy.export import to_program
from d2lbert.deploy.graphs import Graph, arguments, graph_of
from d2lbert.text import WordPiece
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import to_tensors
from d2lbert.zoo import locate

LENGTHS = (32, 256)
LANES = 16  # numbers of float32 in a register of 512 bits
REFERENCE = "PyTorch"


def loops_of(program: torch.export.ExportedProgram) -> Any:
    """Return a program as a module of TVM, whose operations are functions of plain loops."""
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program

    module = from_exported_program(program.run_decompositions(), keep_params_as_input=False)
    return relax.get_pipeline("zero")(relax.transform.DecomposeOpsForInference()(module))


def reordered(module: Any) -> Any:
    """Return a module with other orders of its loops: what is written next to each other is the innermost loop."""
    from tvm import s_tir, tirx

    for name, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc):
            schedule = s_tir.Schedule(function)
            for block in schedule.get_child_blocks(schedule.get_sblock("root")):
                _reorder(schedule, block)
            module[name] = schedule.mod["main"]
    return module


def _reorder(schedule: Any, block: Any) -> None:
    """Let the cores share the rows of a result; for 16 numbers of a row, go through the sum."""
    from tvm import tirx

    loops, kinds = schedule.get_loops(block), [one.iter_type for one in schedule.get(block).iter_vars]
    written = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == tirx.IterVar.DataPar]
    summed = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == tirx.IterVar.CommReduce]
    if len(written) < 2:
        return
    row = schedule.fuse(*written[:-1])
    group, lane = schedule.split(written[-1], factors=[None, LANES])
    schedule.reorder(row, group, *summed, lane)
    schedule.parallel(row)
    schedule.vectorize(lane)
    if summed:
        first = schedule.decompose_reduction(block, summed[0])
        schedule.vectorize(schedule.get_loops(first)[-1])


def tuned(module: Any, target: Any, trials: int, folder: Path) -> Any:
    """Return a module with the fastest loops of so many that were tried, on this machine."""
    from tvm import relax
    from tvm.s_tir.meta_schedule.relax_integration import tune_relax

    with target:
        tune_relax(module, {}, target, str(folder), max_trials_global=trials, num_trials_per_iter=16, seed=0)
        return relax.transform.MetaScheduleApplyDatabase(str(folder))(module)


def built(module: Any, target: Any, graph: Graph, path: Path) -> Engine:
    """Compile a module to a library and return it as an engine."""
    import tvm
    from tvm import relax

    tvm.compile(module, target=target).export_library(str(path))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
    vocabulary = graph.model.config.vocab_size

    def run(batch: Any) -> np.ndarray:
        given = [tensor.numpy() for tensor in arguments(to_tensors(batch), graph.inputs).values()]
        # The compiled program reads where an id points, also beyond the table.
        assert 0 <= given[0].min() and given[0].max() < vocabulary
        found = machine["main"](*[tvm.runtime.tensor(one) for one in given])
        return (found if hasattr(found, "numpy") else found[0]).numpy()

    return run


class Compiled:
    """Libraries of one graph, with what it took to make them.

    Args:
        folder: where they are written.
        trials: ways of loops to try for each length, where they are tuned.
    """

    def __init__(self, graph: Graph, folder: Path, trials: int) -> None:
        import tvm
        from tvm.target.codegen import llvm_get_system_cpu

        self.graph, self.folder, self.trials = graph, folder, trials
        cores = {"num-cores": torch.get_num_threads()}
        self.any = tvm.target.Target({"kind": "llvm", **cores})
        self.this = tvm.target.Target({"kind": "llvm", "mcpu": llvm_get_system_cpu(), **cores})
        self.costs: dict[str, dict[str, float]] = {}

    def engine(self, name: str, length: int) -> Engine:
        """Make one of the ways above for texts of a length."""
        path, began = self.folder / f"{name} {length}.so", time.perf_counter()
        if name == "tuned":
            ids = torch.ones(1, length, dtype=torch.int64)
            with torch.no_grad():
                program = torch.export.export(self.graph, (ids, ids, ids * 0), strict=False)
            module = tuned(loops_of(program), self.this, self.trials, self.folder / f"trials {length}")
        else:
            module = loops_of(to_program(self.graph))
            module = reordered(module) if name == "reordered" else module
        engine = built(module, self.any if name == "as compiled" else self.this, self.graph, path)
        cost = {"seconds_to_compile": time.perf_counter() - began, "bytes": path.stat().st_size}
        self.costs[f"TVM, {name}"] = cost
        print(f"{name}, {length} tokens: {cost}", flush=True)
        return engine


def measure(options: Any, tokenizer: WordPiece, texts: list[str]) -> dict[str, Any]:
    """Compile for each length, let all sides take turns, and return what was measured."""
    model = BertForSequenceClassification.from_pretrained("minilm-sst2")
    metrics: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = graph_file(model, folder, packed=False)
        for length in LENGTHS:
            compiled = Compiled(graph_of(model), folder, options.trials)
            ways = ["as compiled", "this processor", "reordered"] + ["tuned"] * (options.trials > 0)
            sides = {REFERENCE: in_pytorch(model), "ONNX Runtime": in_onnx_runtime(graph, model)}
            sides |= {f"TVM, {way}": compiled.engine(way, length) for way in ways}
            turns = [[one] for one in texts_of_length(tokenizer, texts, length, options.turns)]
            found, logits = race({side: (engine, False) for side, engine in sides.items()}, turns, "texts", REFERENCE)
            found |= {"differences": differences(logits, REFERENCE), "compiled": compiled.costs}
            metrics[str(length)] = {**found, "onnx_bytes": graph.stat().st_size}
    return metrics


def main() -> None:
    """Compile, measure and write ``results/deployment/tvm.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--turns", type=int, default=12, help="texts of each length")
    parser.add_argument("--trials", type=int, default=512, help="ways of loops that are tried for each length; 0: none")
    parser.add_argument("--quiet", action="store_true", help="note that nothing else ran on the machine")
    parser.add_argument("--result", default="deployment/tvm", help="results/<this>.json")
    options = parser.parse_args()
    if importlib.util.find_spec("tvm") is None:
        raise SystemExit("TVM is not installed: pip install apache-tvm xgboost-cpu")
    os.environ.setdefault("TVM_NUM_THREADS", str(torch.get_num_threads()))
    record = Record(options.result, ["torch", "onnxruntime", "apache-tvm", "d2lbert"], seeds=[0])
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    texts = [example.text for example in data.load("sst2", "dev")]
    record.write(
        measure(options, tokenizer, texts),
        data="sst2 dev, sample" if data.is_sample("sst2") else "sst2 dev",
        threads=torch.get_num_threads(),
        trials=options.trials,
        quiet=options.quiet,
        instructions=instructions(),
    )


if __name__ == "__main__":
    main()
