"""Every module has a test file of its name at the mirrored place, and every test file says whose it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

# These belong to no module: comparisons with other implementations, rules, and the whole as users meet it.
FREE = ("parity", "structure", "system", "benchmarks")
# Modules without a test file of their own: where they are proved (below tests/), and why there.
ELSEWHERE = {
    "__init__": ("test_models.py", "hands on to models"),
    "cli": ("system/commands/test_commands.py", "run as a user runs it"),
    "commands/data": ("system/commands/test_commands.py", "run as a user runs it"),
    "commands/doctor": ("system/commands/test_doctor.py", "run as a user runs it"),
    "commands/editions": ("system/commands/test_editions.py", "run as a user runs it"),
    "commands/export": ("system/commands/test_export.py", "run as a user runs it"),
    "commands/fill_mask": ("system/commands/test_fill_mask.py", "run as a user runs it"),
    "commands/finetune": ("system/commands/test_finetune.py", "run as a user runs it"),
    "commands/inspect": ("system/commands/test_inspect.py", "run as a user runs it"),
    "commands/models": ("system/commands/test_commands.py", "run as a user runs it"),
    "commands/predict": ("system/commands/test_predict.py", "run as a user runs it"),
    "commands/pretrain": ("system/commands/test_pretrain.py", "run as a user runs it"),
    "commands/stopping": ("system/commands/test_finetune_stops.py", "run as a user runs it"),
    "commands/serve": ("system/server/test_serving.py", "run as a user runs it"),
    "deploy/server/run": ("system/server/test_serving.py", "run as a user runs it"),
    "mxnet/decoder": ("parity/test_translation_editions.py", "equals its twin in outputs and gradients"),
    "mxnet/encoder": ("parity/test_editions.py", "equals its twin in outputs and gradients"),
    "mxnet/gpt": ("parity/test_gpt_editions.py", "equals its twin in outputs, gradients and files"),
    "mxnet/heads": ("parity/test_head_editions.py", "equal their twins in logits, gradients and files"),
    "mxnet/pretraining": ("parity/test_head_editions.py", "equals its twin in logits, gradients and files"),
    "mxnet/generation": ("parity/test_gpt_editions.py", "equals its twin in distributions"),
}


def has_public_names(source: str) -> bool:
    """Whether a module defines a class or function for others."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    return any(isinstance(node, kinds) and not node.name.startswith("_") for node in ast.parse(source).body)


def mirror_of(module: str) -> str:
    """Return the test file of a module: that of ``torch/bert`` is ``torch/test_bert.py``."""
    folder, slash, name = module.rpartition("/")
    return f"{folder}{slash}test_{name.strip('_')}.py"


def module_of(test: str, first_line: str, modules: set[str]) -> str | None:
    """Return the module that a test file belongs to.

    Its name is the module's, or begins with it (``test_finetuning_refusals.py``), or its first line names the module
    with its folder (``zoo/files``).
    """
    folder, slash, name = test.rpartition("/")
    words = name.removeprefix("test_").removesuffix(".py").split("_")
    for count in range(len(words), 0, -1):
        for module in (f"{folder}{slash}{'_'.join(words[:count])}", f"{folder}{slash}__{'_'.join(words[:count])}__"):
            if module in modules:
                return module
    return next((module for module in sorted(modules) if "/" in module and module in first_line), None)


@pytest.fixture(scope="module")
def modules(root: Path) -> dict[str, Path]:
    """Every module of the package, by its path without the ending."""
    package = root / "d2lbert"
    return {str(path.relative_to(package).with_suffix("")): path for path in sorted(package.rglob("*.py"))}


def test_every_module_has_its_test(root: Path, modules: dict[str, Path]) -> None:
    public = {module for module, path in modules.items() if has_public_names(path.read_text(encoding="utf-8"))}
    missing = {module for module in public if not (root / "tests" / mirror_of(module)).is_file()}
    assert sorted(missing - set(ELSEWHERE)) == [], "write a test at the mirrored place"
    assert sorted(set(ELSEWHERE) - missing) == [], "these have a test, or are gone: strike them out"


@pytest.mark.parametrize("module", ELSEWHERE)
def test_what_is_proved_elsewhere_is_proved_there(root: Path, module: str) -> None:
    assert (root / "tests" / ELSEWHERE[module][0]).is_file()


def test_every_test_says_whose_it_is(root: Path, modules: dict[str, Path]) -> None:
    stray = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        test = path.relative_to(root / "tests")
        first_line = path.read_text(encoding="utf-8").splitlines()[0]
        if test.parts[0] not in FREE and module_of(str(test), first_line, set(modules)) is None:
            stray.append(str(test))
    assert not stray


def test_what_the_rules_see() -> None:
    known = {"metrics", "torch/training/finetuning", "zoo/files", "mxnet/__init__"}
    assert has_public_names("def f(): ...")
    assert not has_public_names("from a import b\nX = 1\ndef _f(): ...")
    assert mirror_of("torch/bert") == "torch/test_bert.py"
    assert mirror_of("mxnet/__init__") == "mxnet/test_init.py"
    assert module_of("test_metrics.py", "", known) == "metrics"
    assert module_of("torch/training/test_finetuning_refusals.py", "", known) == "torch/training/finetuning"
    assert module_of("mxnet/test_init.py", "", known) == "mxnet/__init__"
    assert module_of("zoo/test_old.py", '"""Old files (zoo/files)."""', known) == "zoo/files"
    assert module_of("torch/test_finetuning.py", '"""In another folder."""', known) is None
    assert module_of("test_metric.py", '"""Metrics."""', known) is None
