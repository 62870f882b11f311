"""What a model can be exported to. The command line reads this before PyTorch is imported."""

from __future__ import annotations

# --format -> what is written.
FORMATS = {
    "torch": "a program of torch.export, model.pt2",
    "onnx": "model.onnx, in float32",
    "onnx-int8": "model.onnx with weights and products of 8 bits",
    "tvm": "model.so, compiled by Apache TVM (pip install apache-tvm) for any processor of this machine's kind",
}
PROGRAM_FILE = "model.pt2"
LIBRARY_FILE = "model.so"
LIBRARY_FACTS = "tvm.json"  # beside the library: what it was compiled by and for, and its sha256

# Formats for ONNX Runtime Web, in a folder with a manifest.
BROWSER_FORMATS = {
    "onnx-web": "a folder for browsers, with nothing lost",
    "onnx-web-int8": "the same with weights and products of 8 bits",
}
BROWSER_FILE = "browser.json"

# Formats for Apache MXNet: two files that MXNet reads without this package.
MXNET_FORMATS = {
    "mxnet": "model-symbol.json and model-0000.params, in float32",
    "mxnet-int8": "the same with dense layers of 8 bits, calibrated on --texts",
}
SYMBOL_FILE = "model-symbol.json"
PARAMETERS_FILE = "model-0000.params"
