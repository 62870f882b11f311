"""A model that was exported to ONNX, run by ONNX Runtime in place of a head of PyTorch; and how either is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from d2lbert.deploy.formats import BROWSER_FILE, LIBRARY_FILE, PROGRAM_FILE, SYMBOL_FILE
from d2lbert.deploy.graphs import COLUMNS, OUTPUT, arguments, texts_of
from d2lbert.errors import UserError, require
from d2lbert.models import tokenizer_of
from d2lbert.outputs import Rows
from d2lbert.storage.files import read_json
from d2lbert.text import Tokenizer
from d2lbert.torch.heads import BertWithHead, head_class
from d2lbert.torch.relatives import encoder_class
from d2lbert.weights.folder import CONFIG_FILE, ONNX_FILE
from d2lbert.weights.heads import read_null_threshold, read_trained_length
from d2lbert.zoo.folders import locate


class ExportedModel(nn.Module):
    """An ONNX graph with the interface of the head that it was exported from.

    Args:
        path: the file of the graph.
        config: of the encoder.
        labels: the names of the C outputs.
        threads: how many to compute with; None for as many as PyTorch uses.

    Attributes:
        inputs: the names of the inputs of the graph, in its order.
        packed: whether the graph takes rows of several texts.

    Raises:
        UserError: the file is damaged, has another number of outputs, or a package is missing.
    """

    file = ONNX_FILE
    inputs: tuple[str, ...]

    def __init__(self, path: Path, config: Any, labels: list[str], threads: int | None = None) -> None:
        super().__init__()
        self.config = config
        self.labels = tuple(labels)
        self.null_threshold: float | None = None
        self.trained_length: int | None = None
        outputs = self.open(path, threads)
        if outputs != len(labels):
            raise UserError(f"{path} has {outputs} outputs, but its config.json names {len(labels)}: export it again")
        self.packed = "sequence_ids" in self.inputs

    def open(self, path: Path, threads: int | None) -> int:
        """Load the graph, set ``inputs`` and return the number of outputs."""
        require("a graph of ONNX", "deploy", "onnxruntime")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or torch.get_num_threads()
        try:
            self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors share no base class but this
            reason = str(error)[:100]
            raise UserError(f"{path} is no graph that ONNX Runtime can run ({reason}): export it again") from None
        self.inputs = tuple(one.name for one in self.session.get_inputs())
        return int(self.session.get_outputs()[0].shape[-1])

    def compute(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Return the output for integers by the names of the inputs."""
        array: np.ndarray = self.session.run([OUTPUT], inputs)[0]
        return array

    @classmethod
    def from_folder(
        cls, folder: str | Path, head: type[BertWithHead] | None = None, threads: int | None = None
    ) -> Self:
        """Load what ``d2lbert export`` has written.

        Args:
            head: which must have been exported; by default the one that ``config.json`` names.
            threads: as above.

        Raises:
            UserError: a file is missing or damaged, or is of another head.
        """
        path = Path(folder) / CONFIG_FILE
        content = read_json(path)
        head = head or head_class(path)
        config = encoder_class(str(content.get("model_type", "bert"))).config_class.from_json(path)
        model = cls(Path(folder) / cls.file, config, head.read_labels(path, {}), threads)
        model.null_threshold, model.trained_length = read_null_threshold(path), read_trained_length(path)
        return model

    def forward(self, rows: Rows[Tensor]) -> Tensor:
        """Return logits: (N, C), or (B, L, C) of a head that scores tokens.

        Args:
            rows: packed ones if the graph takes these, else padded ones.
        """
        inputs = {name: tensor.cpu().numpy() for name, tensor in arguments(rows, self.inputs).items()}
        logits = torch.from_numpy(self.compute(inputs))
        return texts_of(logits, rows) if COLUMNS in self.inputs else logits


def load_trained(source: str, head: type[BertWithHead] | None = None) -> tuple[BertWithHead | ExportedModel, Tokenizer]:
    """Load a fine-tuned model and its tokenizer.

    Args:
        source: a folder, of weights, of adapters or exported to ONNX, or a name of the zoo such as ``minilm-sst2``.
            Adapters are merged into their encoder.
        head: the model's class; by default the one that ``config.json`` names.

    Raises:
        UserError: there is no such model, a file is missing or damaged, or the head is another one.
    """
    folder = locate(source)
    if (folder / BROWSER_FILE).is_file():
        raise UserError(f"{folder} is for browsers: name the model that it was made of")
    if (folder / PROGRAM_FILE).is_file():
        raise UserError(f"{folder} is for torch.export.load: name the model that it was made of, or one in ONNX")
    if (folder / LIBRARY_FILE).is_file():  # to load it is to run what it brings along
        raise UserError(
            f"{folder} is for d2lbert.deploy.tvm.CompiledModel: name the model that it was made of, or one in ONNX"
        )
    if (folder / SYMBOL_FILE).is_file():
        raise UserError(f"{folder} is a graph of MXNet: add --edition mxnet, or name the model that it was made of")
    kind = head or head_class(folder / CONFIG_FILE)
    exported = (folder / ONNX_FILE).is_file()
    model = ExportedModel.from_folder(folder, kind) if exported else kind.from_pretrained(folder)
    return model, tokenizer_of(folder, model.config)
