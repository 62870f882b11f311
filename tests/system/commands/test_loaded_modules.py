"""What a command loads: nothing that it does not use. A count of modules holds what a clock could not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from d2lbert.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, file=sys.stderr)
"""
# Neither helps to answer for a text, and each takes a tenth of a second or several.
NOT_TO_PREDICT = ("matplotlib", "transformers", "pandas", "scipy", "sklearn", "onnx", "onnxruntime", "huggingface_hub")
NOT_TO_PREDICT += ("mxnet", "IPython", "requests", "pooch", "torch.distributed.fsdp", "torch._dynamo", "sympy")
NOT_TO_PREDICT += (
    "d2lbert.commands.finetune",
    "d2lbert.commands.pretrain",
    "d2lbert.data.pretraining",
    "d2lbert.mxnet",
)


def loaded(*words: str) -> tuple[str, set[str]]:
    """Run a command in a fresh process; return what it printed, and the modules that it had loaded at its end."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True)
    return run.stdout, set(run.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("data", "--help")])
def test_help_loads_no_numpy_no_data_and_no_command(words: tuple[str, ...]) -> None:
    output, modules = loaded(*words)
    assert output
    unwanted = ("numpy", "torch", "matplotlib", "tokenizers", "d2lbert.data", "d2lbert.text", "d2lbert.zoo")
    assert not [name for name in unwanted if name in modules]
    assert sorted(name for name in modules if name.startswith("d2lbert.commands.")) == [
        "d2lbert.commands.data",
        "d2lbert.commands.group",
    ]


def test_lists_load_no_framework() -> None:
    for words in (("data", "list"), ("models",)):
        _, modules = loaded(*words)
        assert not modules & {"torch", "mxnet", "matplotlib"}


def test_predict_loads_what_it_computes_with(classifier: Path) -> None:
    output, modules = loaded("predict", "classification", "--model", str(classifier), "--text", "a fine film")
    assert json.loads(output)["label"]
    assert "torch" in modules
    assert not [name for name in NOT_TO_PREDICT if name in modules]
