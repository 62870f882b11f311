"""Configurations: frozen dataclasses whose field names are those of Hugging Face's ``config.json``.

A configuration knows the sizes of a network and nothing else. It rejects unknown fields, checks that its sizes fit
together, and reads and writes JSON.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError, unknown_name

# Fields of a foreign config.json that change what the network computes, with the one value that we compute.
# Any other foreign field (training options, label names, version stamps) does not touch the forward pass.
_REQUIRED_VALUES: dict[str, tuple[Any, ...]] = {
    "model_type": ("bert",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}


@dataclass(frozen=True)
class BertConfig:
    """Sizes of a BERT encoder. The defaults are BERT-base, uncased (Devlin et al. 2019, section 3).

    Fields:
        vocab_size: V, the number of word pieces.
        hidden_size: D, the width of every hidden state.
        num_hidden_layers: the number of encoder blocks.
        num_attention_heads: H; must divide ``hidden_size``.
        intermediate_size: the width inside the feed-forward network, 4 D in the paper.
        hidden_act: ``"gelu"`` (exact, with erf), ``"gelu_new"`` (the tanh approximation) or ``"relu"``.
        hidden_dropout_prob, attention_probs_dropout_prob: dropout rates during training.
        max_position_embeddings: the longest input, in tokens.
        type_vocab_size: the number of segments.
        initializer_range: standard deviation of the initial weights.
        layer_norm_eps: the small constant in LayerNorm; 1e-12 in BERT, not the 1e-5 that PyTorch would take.
        pad_token_id: the id that fills the end of a short row.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size"):
            if getattr(self, name) < 1:
                raise UserError(f"configuration: {name} is {getattr(self, name)}; it must be at least 1")
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"configuration: {self.num_attention_heads} heads do not divide hidden_size {self.hidden_size}; "
                "choose num_attention_heads so that they do"
            )
        if self.hidden_act not in ("gelu", "gelu_new", "relu"):
            raise unknown_name("activation hidden_act", self.hidden_act, ("gelu", "gelu_new", "relu"))

    @property
    def head_size(self) -> int:
        """K, the width of one head: D / H."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> BertConfig:
        """Build a configuration from our own fields; an unknown field is an error."""
        known = {field.name for field in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise unknown_name("configuration field", name, known)
        return cls(**values)

    @classmethod
    def from_json(cls, path: str | Path) -> BertConfig:
        """Read a Hugging Face ``config.json``.

        Fields that do not change the forward pass are ignored. A field that does, with a value that this package
        does not compute (relative positions, a decoder, another architecture), is an error.
        """
        values = read_json(path)
        for name, allowed in _REQUIRED_VALUES.items():
            if name in values and values[name] not in allowed:
                raise UserError(
                    f"{path}: {name} is {values[name]!r}, which d2lbert does not compute; "
                    f"use a checkpoint where it is {allowed[0]!r}"
                )
        known = {field.name for field in dataclasses.fields(cls)}
        try:
            return cls(**{name: value for name, value in values.items() if name in known})
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, with the two that ``transformers`` needs to recognise the architecture."""
        return {"model_type": "bert", "architectures": ["BertModel"], **dataclasses.asdict(self)}

    def replace(self, **changes: Any) -> BertConfig:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def check_types(config: Any) -> None:
    """Refuse values of a configuration that are not of their defaults' type; an integer will do for a real number."""
    for field in dataclasses.fields(config):
        value, wanted = getattr(config, field.name), type(field.default)
        allowed = (int, float) if wanted is float else (wanted,)
        if isinstance(value, bool) != (wanted is bool) or not isinstance(value, allowed):
            raise UserError(f"configuration: {field.name} is {value!r}; it must be of type {wanted.__name__}")


def _preset(layers: int, hidden: int) -> BertConfig:
    """A preset of Turc et al. (2019): heads of 64, intermediate size 4 D."""
    return BertConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
    )


# tiny, mini and small are those of Turc et al. (2019); base and large those of Devlin et al. (2019).
PRESETS: dict[str, BertConfig] = {
    "tiny": _preset(2, 128),
    "mini": _preset(4, 256),
    "small": _preset(4, 512),
    "base": _preset(12, 768),
    "large": _preset(24, 1024),
}


def preset(name: str) -> BertConfig:
    """Return the named preset: tiny, mini, small, base or large."""
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return PRESETS[name]


def read_json(path: str | Path) -> dict[str, Any]:
    """Read one JSON object from a file, with one-line errors."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check the path") from None
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}; restore the file") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds a {type(values).__name__}, not a JSON object; restore the file")
    return values
