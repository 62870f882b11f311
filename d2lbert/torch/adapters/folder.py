"""Folders of low-rank adapters: the head and the small matrices alone, in the layout of the package ``peft``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import nn

from d2lbert.errors import UserError
from d2lbert.torch.adapters.layer import LoraLinear, adapted_layers
from d2lbert.torch.folder import load_named, named_arrays, to_arrays

if TYPE_CHECKING:
    from d2lbert.torch.bert import BertModel
    from d2lbert.torch.heads import BertWithHead
    from d2lbert.weights.adapters import AdapterFolder

_TASK_TYPES = {  # what peft calls them; it has none for choices
    "BertForSequenceClassification": "SEQ_CLS",
    "BertForTokenClassification": "TOKEN_CLS",
    "BertForQuestionAnswering": "QUESTION_ANS",
}

Head = TypeVar("Head", bound="BertWithHead")


def save_adapters(model: BertWithHead, folder: str | Path, base: str, half: bool = False) -> None:
    """Write the adapters and the head, but not the encoder: what ``peft`` and :func:`load_adapters` read.

    Args:
        model: with adapters.
        folder: created if it does not exist.
        base: the name or the folder of the encoder.
        half: write float16 instead of float32: half the size, and about three decimals.

    Raises:
        UserError: the model has no adapters, a number is NaN or infinite, or the folder cannot be written.
    """
    from d2lbert.weights.adapters import AdapterFolder, write_adapters
    from d2lbert.weights.folder import CONFIG_FILE, write_json

    layers = adapted_layers(model)
    if not layers:
        raise UserError("the model has no adapters to save: add them first, or save the whole model")
    head = named_arrays(model, model.head_names())
    tensors = dict(head)
    first = next(iter(layers.values()))
    for name, theirs in _file_names(model.bert, layers).items():
        pair = {f"{theirs}.lora_A.weight": layers[name].down, f"{theirs}.lora_B.weight": layers[name].up}
        tensors |= to_arrays(pair)
    rank = first.down.shape[0]
    content = AdapterFolder(base, rank, first.scale * rank, tensors)
    task = _TASK_TYPES.get(type(model).__name__)
    write_adapters(Path(folder), content, model.bert.config.model_type, list(head), task, half)
    write_json(Path(folder) / CONFIG_FILE, {**model.bert.config.to_dict(), **model.config_fields()})


def load_adapters(head_class: type[Head], folder: str | Path) -> Head:
    """Load an encoder, and beside it the adapters and the head of a folder; nothing is merged yet.

    Args:
        head_class: such as :class:`~d2lbert.torch.heads.BertForSequenceClassification`.
        folder: of :func:`save_adapters` or ``peft``, which names the encoder.

    Raises:
        UserError: a file is missing or damaged, the adapters are of another kind, of another encoder or another head.
    """
    from d2lbert.torch.relatives import encoder_class
    from d2lbert.weights.adapters import read_adapters
    from d2lbert.weights.folder import CONFIG_FILE, check_tensors
    from d2lbert.zoo.folders import locate

    path = locate(folder)
    content = read_adapters(path)
    base = locate(content.base)
    encoder = encoder_class(_model_type(base)).from_pretrained(base, initialize=False)
    model = head_class(encoder, head_class.read_labels(path / CONFIG_FILE, content.tensors))
    shapes = {theirs: model.get_parameter(ours).shape for ours, theirs in model.head_names().items()}
    layers = _layers_of_file(encoder, content, path)
    for theirs, layer in layers.items():
        shapes[f"{theirs}.lora_A.weight"] = torch.Size((content.rank, layer.in_features))
        shapes[f"{theirs}.lora_B.weight"] = torch.Size((layer.out_features, content.rank))
    check_tensors(content.tensors, {name: tuple(shape) for name, shape in shapes.items()}, path)
    load_named(model, model.head_names(), content.tensors, path)
    encoder.requires_grad_(False)
    names = {layer: name for name, layer in encoder.named_modules()}
    for theirs, layer in layers.items():
        adapted = LoraLinear(layer, content.rank, content.alpha)
        adapted.down.data = torch.from_numpy(content.tensors[f"{theirs}.lora_A.weight"])
        adapted.up.data = torch.from_numpy(content.tensors[f"{theirs}.lora_B.weight"])
        encoder.set_submodule(names[layer], adapted)
    model.read_fields(path / CONFIG_FILE)
    return model.eval()


def _model_type(folder: Path) -> str:
    """Return the ``model_type`` of a model folder."""
    from d2lbert.storage.files import read_json
    from d2lbert.weights.folder import CONFIG_FILE

    return str(read_json(folder / CONFIG_FILE).get("model_type", "bert"))


def _file_names(encoder: BertModel, layers: Iterable[str]) -> dict[str, str]:
    """Return the name in Hugging Face's files of each layer, given by our names."""
    names = encoder.names()
    return {name: names[f"{name}.weight"].removesuffix(".weight") for name in layers}


def _layers_of_file(encoder: BertModel, content: AdapterFolder, origin: Path) -> dict[str, nn.Linear]:
    """Return the layer of the encoder for each adapter of a folder, by its name in the file.

    Raises:
        UserError: there is no adapter, or the encoder has no such layer.
    """
    linear = {name: layer for name, layer in encoder.named_modules() if isinstance(layer, nn.Linear)}
    ours = {theirs: name for name, theirs in _file_names(encoder, linear).items()}
    unknown = [name for name in content.layers if name not in ours]
    if unknown or not content.layers:
        what = f"adapts {unknown[0]}, which {content.base} does not have" if unknown else "holds no adapters"
        raise UserError(f"{origin} {what}: give the encoder that they were trained with as base_model_name_or_path")
    return {theirs: linear[ours[theirs]] for theirs in content.layers}
