"""A fine-tuned model as a library of machine code: compiled by Apache TVM, and run by it.

TVM turns each operation of a ``torch.export`` program into loops and compiles the loops; batch and length stay free.
Before that the loops get another order: neighbouring numbers are read one after the other, 16 at once, by all cores.
The library is for every processor of this machine's kind, such as x86-64. With the instructions of this very processor
it would end on an older one, without a word of what is wrong.

TVM is no dependency of this package: ``pip install apache-tvm``. What is here was tried with 0.27.0.post1.

Source: Chen et al. 2018, TVM: an automated end-to-end optimizing compiler for deep learning.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from d2lbert.deploy.exported import ExportedModel
from d2lbert.deploy.formats import LIBRARY_FACTS, LIBRARY_FILE
from d2lbert.deploy.graphs import COLUMNS, Graph, logits_beside, random_inputs
from d2lbert.errors import UserError, require
from d2lbert.storage.files import read_json, sha256_of
from d2lbert.weights.folder import write_json

LANES = 16  # numbers of float32 in a register of 512 bits
_SHAPES = ((1, 1), (1, 6), (2, 7), (3, 31), (5, 16), (1, 64))  # batch and length of what is compared at export
_TOLERANCE = 1e-4


def require_compiler() -> None:
    """Check that a library can be made here: that TVM, and what it links with, is installed.

    Raises:
        UserError: it is not, or TVM is too old.
    """
    _require_tvm("--format tvm")
    from tvm.support.cc import get_cc

    linker = get_cc()
    if linker is None or shutil.which(linker) is None:
        raise UserError(f"TVM links with {linker or 'a C++ compiler'}, which is not here: install g++ or clang++")


def _require_tvm(purpose: str) -> None:
    require(purpose, "", "tvm", install="apache-tvm")
    try:
        from tvm import relax, s_tir, tirx  # noqa: F401
    except Exception as error:  # a library of TVM's that is missing is an OSError or a RuntimeError
        reason = _first_line(error)
        raise UserError(
            f"{purpose} needs a newer TVM, or a whole one ({reason}): run pip install -U apache-tvm"
        ) from None


def loops_of(program: torch.export.ExportedProgram) -> Any:
    """Return a program of plain operations as a module of TVM, in which each of them is a function of plain loops."""
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program

    module = from_exported_program(program, keep_params_as_input=False)
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


def link(module: Any, target: Any, folder: Path) -> None:
    """Compile a module of loops: write the library, and beside it what it was compiled for and its sha256.

    Args:
        target: a ``tvm.target.Target``.
    """
    import tvm

    path = folder / LIBRARY_FILE
    tvm.compile(module, target=target).export_library(str(path))
    facts = {"tvm": tvm.__version__, "target": str(target), "sha256": sha256_of(path)}
    write_json(folder / LIBRARY_FACTS, facts)


def compile_program(program: torch.export.ExportedProgram, folder: Path) -> None:
    """Write a program as a library for every processor of this machine's kind.

    Raises:
        UserError: TVM cannot compile it.
    """
    import tvm
    from tvm.target.codegen import llvm_get_system_triple

    target = tvm.target.Target({"kind": "llvm", "mtriple": llvm_get_system_triple()})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what PyTorch and TVM are going to rename
            plain = program.run_decompositions()
            with _silence():
                module = loops_of(plain)
            link(reordered(module), target, folder)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # its errors share no base class but this
        reason = _first_line(error)
        raise UserError(f"TVM {tvm.__version__} cannot compile this model ({reason}): use --format onnx") from None


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep back what TVM's C++ says: that numbers beyond a table are not checked. :class:`CompiledModel` does that."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def check_library(graph: Graph, folder: Path) -> None:
    """Compare a written folder with the graph that it was made of, over batches of several sizes.

    Raises:
        UserError: a logit differs by more than one in ten thousand.
    """
    model = CompiledModel.from_folder(folder)

    def run(*inputs: Tensor) -> np.ndarray:
        return model.compute({name: tensor.numpy() for name, tensor in zip(graph.inputs, inputs, strict=True)})

    for rows, length in _SHAPES:
        inputs = random_inputs(graph, rows, min(length, graph.positions), seed=length, full=True)
        right, found = logits_beside(graph, inputs, run)
        if not np.allclose(found, right, rtol=_TOLERANCE, atol=_TOLERANCE):
            apart = float(np.abs(found - right).max())
            raise UserError(f"TVM's logits are not the model's (apart by {apart:.2g}): use --format onnx")


class CompiledModel(ExportedModel):
    """A library of TVM with the interface of the head that it was exported from.

    To load a library is to run it. So load what you have exported yourself, or trust; the commands load none. It
    computes with as many threads as the variable ``TVM_NUM_THREADS`` says; by default with one for each core.

    Args:
        path, config, labels: as for :class:`~d2lbert.deploy.exported.ExportedModel`.
        threads: None.

    Raises:
        UserError: the file is damaged, for another kind of processor, or has another number of outputs, TVM is missing,
            or a number of threads was given.
    """

    file = LIBRARY_FILE

    def open(self, path: Path, threads: int | None) -> int:
        """Load the library, set ``inputs`` and return the number of outputs."""
        _require_tvm("a library of TVM")
        if threads is not None:
            raise UserError("TVM takes its number of threads from TVM_NUM_THREADS: set that, and give no threads here")
        # To load a file that was cut ends the process.
        if sha256_of(path) != read_json(path.parent / LIBRARY_FACTS).get("sha256"):
            raise UserError(f"{path} is not the library that {LIBRARY_FACTS} tells of: export it again")
        import tvm
        from tvm import relax

        try:
            machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
            count = int(machine.module["get_function_arity"]("main"))
            name_of = machine.module["get_function_param_name"]
            self.inputs = tuple(str(name_of("main", index)) for index in range(count))
            self._machine = machine
        except Exception as error:  # its errors share no base class but this
            reason = _first_line(error)
            raise UserError(f"{path} is no library that TVM can run here ({reason}): export it again") from None
        ones = ("attention_mask", "sequence_ids")  # one token of one text
        trial = {name: np.full((1, 1), int(name in ones)) for name in self.inputs}
        return int(self.compute(trial).shape[-1])

    def compute(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Return the output for integers by the names of the inputs.

        Raises:
            UserError: a number points beyond a table of the model, where the library would read what lies there.
        """
        config, length = self.config, inputs["input_ids"].shape[1]
        tables = {
            "input_ids": config.vocab_size,
            "token_type_ids": getattr(config, "type_vocab_size", 0) or None,  # a DistilBERT has no such table
            "position_ids": config.max_position_embeddings,
            COLUMNS: length,
        }
        for name, most in tables.items():
            numbers = inputs.get(name)
            if most is not None and numbers is not None and not ((numbers >= 0) & (numbers < most)).all():
                raise UserError(f"{name} has a number outside 0 to {most - 1}: is the tokenizer that of the model?")
        if "position_ids" not in inputs and length > config.max_position_embeddings:
            raise UserError(f"a text of {length} tokens, but the model has {config.max_position_embeddings} positions")
        import tvm

        found = self._machine["main"](*[tvm.runtime.tensor(np.ascontiguousarray(inputs[name])) for name in self.inputs])
        # A program returns a tensor or a list of one, as the versions of PyTorch have it.
        array: np.ndarray = (found if hasattr(found, "numpy") else found[0]).numpy()
        return array


def _first_line(error: BaseException) -> str:
    """Return the beginning of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:100]
