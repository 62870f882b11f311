"""Models in a reader's browser: graphs for ONNX Runtime Web, and JavaScript that reads text and results."""
