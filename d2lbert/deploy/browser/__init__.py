"""Models in a reader's browser: graphs for ONNX Runtime Web, and JavaScript that reads text and results."""

# What a browser downloads of ONNX Runtime Web 1.30.0, its WebAssembly packed by gzip: site/extra/onnxruntime.
RUNTIME_BYTES = 3_732_981
