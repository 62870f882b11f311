"""Sizes of BERT, and the presets that have names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from d2lbert.config.base import ACTIVATIONS, BlockSizes, ModelConfig, refuse_other_values
from d2lbert.errors import UserError, unknown_name
from d2lbert.storage.files import read_json

# Fields of a foreign config.json that change what the network computes, with the one value that we compute.
# Any other foreign field (training options, label names, version stamps) does not touch the forward pass.
REQUIRED_VALUES: dict[str, tuple[Any, ...]] = {
    "model_type": ("bert",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}


@dataclass(frozen=True)
class BertConfig(ModelConfig):
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

    model_type: ClassVar[str] = "bert"
    architecture: ClassVar[str] = "BertModel"
    required_values: ClassVar[Mapping[str, tuple[Any, ...]]] = REQUIRED_VALUES
    foreign_names: ClassVar[Mapping[str, str]] = {}  # our field -> its name in config.json, where that is another

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
        super().__post_init__()
        self._at_least_one("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size")
        self._divides("num_attention_heads", "hidden_size")
        self._one_of("hidden_act", ACTIVATIONS, "activation")
        self._rates("hidden_dropout_prob", "attention_probs_dropout_prob")
        self._above_zero("initializer_range")

    @property
    def head_size(self) -> int:
        """K, the width of one head: D / H."""
        return self.hidden_size // self.num_attention_heads

    @property
    def block(self) -> BlockSizes:
        """The sizes of one block."""
        return BlockSizes(
            self.hidden_size,
            self.num_attention_heads,
            self.intermediate_size,
            self.hidden_act,
            self.hidden_dropout_prob,
            self.attention_probs_dropout_prob,
            self.layer_norm_eps,
        )

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a Hugging Face ``config.json``.

        Fields that do not change the forward pass are ignored. A field that does, with a value that this package
        does not compute (relative positions, a decoder, another architecture), is an error.
        """
        values = read_json(path)
        refuse_other_values(path, values, cls.required_values, cls.architecture)
        known = {cls.foreign_names.get(field.name, field.name): field.name for field in dataclasses.fields(cls)}
        try:
            return cls(**{known[name]: value for name, value in values.items() if name in known})
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, with the two that ``transformers`` needs to recognise the architecture."""
        kind = {"model_type": self.model_type, "architectures": [self.architecture]}
        fields = dataclasses.asdict(self).items()
        return {**kind, **{self.foreign_names.get(name, name): value for name, value in fields}}


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
