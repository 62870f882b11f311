"""Sizes of BERT, and its named presets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from d2lbert.config.base import (
    ACTIVATION,
    ACTIVATIONS,
    BLOCK_FIELDS,
    MOST_LAYERS,
    MOST_PIECES,
    MOST_POSITIONS,
    WIDEST,
    BlockSizes,
    ModelConfig,
    refuse_other_values,
)
from d2lbert.config.settings import setting
from d2lbert.errors import UserError, unknown_name

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
    """Sizes of a BERT encoder. The defaults are BERT-base, uncased (Devlin et al. 2019, section 3)."""

    model_type: ClassVar[str] = "bert"
    architecture: ClassVar[str] = "BertModel"
    required_values: ClassVar[Mapping[str, tuple[Any, ...]]] = REQUIRED_VALUES
    foreign_names: ClassVar[Mapping[str, str]] = {}  # our field -> its name in config.json, where that is another

    vocab_size: int = setting(30522, "V, the number of word pieces", at_least=1, at_most=MOST_PIECES)
    hidden_size: int = setting(768, "D, the width of every hidden state", at_least=1, at_most=WIDEST)
    num_hidden_layers: int = setting(12, "number of encoder blocks", at_least=1, at_most=MOST_LAYERS)
    num_attention_heads: int = setting(12, "H; must divide hidden_size", at_least=1, at_most=WIDEST)
    intermediate_size: int = setting(
        3072, "width inside the feed-forward network, 4 D in the paper", at_least=1, at_most=WIDEST
    )
    hidden_act: str = setting("gelu", ACTIVATION, one_of=ACTIVATIONS)
    hidden_dropout_prob: float = setting(0.1, "dropout rate during training", at_least=0, below=1)
    attention_probs_dropout_prob: float = setting(0.1, "dropout rate on attention weights", at_least=0, below=1)
    max_position_embeddings: int = setting(512, "longest input, in tokens", at_least=1, at_most=MOST_POSITIONS)
    type_vocab_size: int = setting(2, "number of segments", at_least=0, at_most=MOST_PIECES)
    initializer_range: float = setting(0.02, "standard deviation of the initial weights", above=0)
    layer_norm_eps: float = setting(
        1e-12, "small constant in LayerNorm; 1e-12 in BERT, not the 1e-5 that PyTorch would take", above=0
    )
    pad_token_id: int = setting(0, "id that fills the end of a short row", at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._divides("num_attention_heads", "hidden_size")
        self._ids_below(self.vocab_size, "pad_token_id")

    @property
    def head_size(self) -> int:
        """K, the width of one head: D / H."""
        return self.hidden_size // self.num_attention_heads

    @property
    def block(self) -> BlockSizes:
        """The sizes of one block."""
        return self._block(BLOCK_FIELDS)

    @property
    def blocks(self) -> tuple[BlockSizes, ...]:
        """The sizes of the block of each layer, from the first on."""
        return (self.block,) * self.num_hidden_layers

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a Hugging Face ``config.json``. Fields that do not change the forward pass are ignored.

        Raises:
            UserError: the file is missing or damaged, a size is not allowed, or a field asks for a forward pass that
                this package does not compute (relative positions, a decoder, another architecture).
        """
        from d2lbert.storage.files import read_json

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
    """Return the preset with a name: tiny, mini, small, base or large.

    Raises:
        UserError: there is no such preset.
    """
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return PRESETS[name]
