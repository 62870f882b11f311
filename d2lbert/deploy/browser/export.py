"""Write a folder for ONNX Runtime Web: one graph, the vocabulary, small files of adapters, and a manifest.

``browser.json``, the manifest, says what a page must know before it downloads anything else: which tasks there are,
their labels, how long a text may be, and of every file its bytes and its SHA-256. Beside adapters the encoder is
written once, without any of them, and each adapter is a file of some hundred kilobytes: a page that offers three tasks
downloads one encoder, not three. Any other fine-tuned model is a graph of its own, as in :mod:`d2lbert.deploy.export`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from d2lbert.deploy.browser.graphs import TEXTS, TOKENS, Gaps, SharedTexts, adapter_inputs, layers_with_adapters
from d2lbert.deploy.export import to_onnx, write_onnx
from d2lbert.deploy.formats import BROWSER_FILE, BROWSER_FORMATS
from d2lbert.deploy.graphs import OUTPUT, Exportable, graph_of
from d2lbert.deploy.quantize import quantize
from d2lbert.errors import UserError, unknown_name
from d2lbert.storage.claims import claimed, publish
from d2lbert.storage.files import sha256_of
from d2lbert.tasks.base import longest_input
from d2lbert.tasks.table import NAMED
from d2lbert.text import WordPiece
from d2lbert.text.encoding import SPECIAL_TOKENS
from d2lbert.text.tokenizer_json import SETTINGS_FILE, TOKENIZER_FILE, VOCABULARY_FILE, has_word_pieces
from d2lbert.torch.adapters import load_adapters
from d2lbert.torch.heads import BertWithHead, head_class
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.weights.adapters import is_adapter_folder
from d2lbert.weights.folder import CONFIG_FILE, ONNX_FILE, in_half, write_json, write_tensors
from d2lbert.weights.header import read_header
from d2lbert.zoo.folders import encoder_folder, locate

FILL_MASK = "fill_mask"
# The class of a head -> the task, as the command line calls it. A classifier may read a pair of texts, too.
_TASKS = {
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "question_answering",
}
_GAP_HEAD = "cls.predictions.transform.dense.weight"
_SMALL = 1000  # a tensor with fewer numbers stays as it is


@dataclasses.dataclass(frozen=True)
class _Parts:
    """What a folder is made of.

    Fields:
        graph: to be exported.
        config: of the encoder.
        tasks: name -> what the manifest says of it, but for its file.
        adapters: name -> the tensors of its file.
    """

    graph: Exportable
    config: Any
    tasks: dict[str, dict[str, Any]]
    adapters: dict[str, dict[str, np.ndarray]]


def export_for_browser(sources: Mapping[str, str], out: str | Path, format: str = "onnx-web") -> Path:
    """Write models for ONNX Runtime Web as a new folder.

    Args:
        sources: name in the manifest -> folder, or name of the zoo: one model, fine-tuned or with the head for masked
            words; or several sets of adapters of one encoder.
        out: the new folder.
        format: one of :data:`~d2lbert.deploy.formats.BROWSER_FORMATS`. ``onnx-web`` loses nothing: a matrix whose
            numbers all fit into 16 bits is stored in 16 and computed in 32. ``onnx-web-int8`` has 8 bits.

    Returns:
        the manifest.

    Raises:
        UserError: there is no such format or model, several models are not adapters of one encoder, a tokenizer or a
            head is none that the browser has, or the folder is not new or empty.
    """
    if format not in BROWSER_FORMATS:
        raise unknown_name("format", format, BROWSER_FORMATS)
    folders = {name: locate(source) for name, source in sources.items()}
    tokenizer = _tokenizer(folders)
    parts = _parts(folders)
    with claimed(out) as folder:
        publish(folder, lambda staging: _write(parts, tokenizer, format, staging))
    return folder / BROWSER_FILE


def _tokenizer(folders: Mapping[str, Path]) -> WordPiece:
    """Return the tokenizer of the one encoder.

    Raises:
        UserError: there are several encoders, or the tokenizer is not WordPiece.
    """
    for folder in folders.values():
        if (folder / BROWSER_FILE).is_file():
            raise UserError(f"{folder} is for browsers: name the model that it was made of")
    first, *others = folders
    for name in others:
        adapters = is_adapter_folder(folders[name]) and is_adapter_folder(folders[first])
        if not adapters or encoder_folder(folders[name]).resolve() != encoder_folder(folders[first]).resolve():
            raise UserError(f"{first} and {name} are not adapters of one encoder: export each into a folder of its own")
    folder = encoder_folder(folders[first])
    if not has_word_pieces(folder):
        raise UserError(f"{first} has no {VOCABULARY_FILE}: the browser reads text with WordPiece alone, choose a BERT")
    return WordPiece.from_pretrained(folder)


def _parts(folders: Mapping[str, Path]) -> _Parts:
    (name, folder), *_ = folders.items()
    if is_adapter_folder(folder):
        return _with_adapters(folders)
    if (folder / CONFIG_FILE).is_file() and not (folder / ONNX_FILE).is_file() and _GAP_HEAD in read_header(folder):
        model = BertForPretraining.from_pretrained(folder).eval()
        task = {"task": FILL_MASK, "longest": model.config.max_position_embeddings}
        return _Parts(Gaps(model).eval(), model.config, {name: task}, {})
    if (folder / ONNX_FILE).is_file():
        raise UserError(f"{name} is exported already: name the model that it was made of")
    head = head_class(folder / CONFIG_FILE).from_pretrained(folder)
    return _Parts(graph_of(head), head.config, {name: {**_task(name, head), "output": OUTPUT}}, {})


def _with_adapters(folders: Mapping[str, Path]) -> _Parts:
    """Return one encoder, and the adapters and heads beside it."""
    models = {name: load_adapters(head_class(path / CONFIG_FILE), path) for name, path in folders.items()}
    layers = layers_with_adapters(models.values())
    tasks = {
        name: {**_task(name, model), "output": TEXTS if model.uses_pooler else TOKENS} for name, model in models.items()
    }
    adapters = {name: in_half(adapter_inputs(model, layers)) for name, model in models.items()}
    bert = next(iter(models.values())).bert
    if bert.pooler is None:
        raise UserError(f"adapters of a {bert.config.model_type} cannot share an encoder here: choose those of a BERT")
    return _Parts(SharedTexts(bert, layers).eval(), bert.config, tasks, adapters)


def _task(name: str, model: BertWithHead) -> dict[str, Any]:
    """Return what a page must know to use a head.

    Raises:
        UserError: the browser has no such task.
    """
    kind = type(model).__name__
    if kind not in _TASKS:
        raise UserError(f"{name} is a {kind}, which the browser does not have: choose {', '.join(_TASKS.values())}")
    longest = longest_input(model, NAMED[_TASKS[kind]].max_length)
    task = {"task": _TASKS[kind], "labels": list(model.labels), "longest": longest}
    return {**task, "null_threshold": getattr(model, "null_threshold", None)}


def _write(parts: _Parts, tokenizer: WordPiece, format: str, folder: Path) -> None:
    graph = folder / ONNX_FILE
    proto = to_onnx(parts.graph)
    if format == "onnx-web":
        store_in_half(proto)
    write_onnx(proto, graph)
    if format == "onnx-web-int8":
        quantize(graph, graph)
    tokenizer.save_pretrained(folder)
    for name in (TOKENIZER_FILE, SETTINGS_FILE):
        (folder / name).unlink()  # the manifest says it
    tasks = {}
    for name, task in parts.tasks.items():
        tasks[name] = {**task, "adapter": None}
        if name in parts.adapters:
            file = f"{name}.safetensors"
            write_tensors(folder, parts.adapters[name], file)
            tasks[name]["adapter"] = _described(folder / file)
    manifest = {
        "format": format,
        "graph": _described(graph),
        "vocabulary": _described(folder / VOCABULARY_FILE),
        "lowercase": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "special_ids": {token: tokenizer.token_to_id[token] for token in SPECIAL_TOKENS},
        "positions": int(parts.config.max_position_embeddings),
        "layers": int(parts.config.num_hidden_layers),
        "heads": int(parts.config.num_attention_heads),
        "tasks": tasks,
    }
    write_json(folder / BROWSER_FILE, manifest)


def _described(path: Path) -> dict[str, Any]:
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}


def store_in_half(proto: Any) -> None:
    """Store the large tensors of a graph in 16 bits where no number changes; the graph turns them back into 32.

    Args:
        proto: a ``ModelProto``; changed in place.
    """
    from onnx import TensorProto, helper, numpy_helper

    casts = []
    for tensor in proto.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or np.prod(tensor.dims) < _SMALL:
            continue
        whole = numpy_helper.to_array(tensor)
        half = in_half({tensor.name: whole})[tensor.name]
        if not np.array_equal(half.astype(np.float32), whole):
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(half, f"{name}_half"))
        casts.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    rest = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend([*casts, *rest])
