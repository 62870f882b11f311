"""What a model can be exported to. The command line reads this before PyTorch is imported."""

from __future__ import annotations

import importlib.util

from d2lbert.errors import UserError

# --format -> what is written.
FORMATS = {
    "torch": "a program of torch.export, model.pt2",
    "onnx": "model.onnx, in float32",
    "onnx-int8": "model.onnx with weights and products of 8 bits",
}
PROGRAM_FILE = "model.pt2"


def require(*packages: str) -> None:
    """Check that packages are installed.

    Raises:
        UserError: one is not.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise UserError(f"graphs of ONNX need {package}: run pip install 'd2lbert[deploy]'")
