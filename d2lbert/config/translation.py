"""Configurations of the sequence-to-sequence models: the Transformer and the recurrent Seq2Seq."""

from __future__ import annotations

import dataclasses
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
)
from d2lbert.config.settings import setting
from d2lbert.errors import UserError, unknown_name


@dataclass(frozen=True)
class TranslationConfig(ModelConfig):
    """The fields that both kinds of model have."""

    model_type: ClassVar[str] = ""

    source_vocab_size: int = setting(
        37000, "V of the source; equal to the target's where they share it", at_least=1, at_most=MOST_PIECES
    )
    target_vocab_size: int = setting(37000, "V of the target", at_least=1, at_most=MOST_PIECES)
    hidden_size: int = setting(512, "D, the width of every hidden state", at_least=1, at_most=WIDEST)
    hidden_dropout_prob: float = setting(0.1, "dropout rate during training", at_least=0, below=1)
    pad_token_id: int = setting(0, "padding, in both languages", at_least=0)
    bos_token_id: int = setting(1, "begin of a sequence, in both languages", at_least=0)
    eos_token_id: int = setting(2, "end of a sequence, in both languages", at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        smallest = min(self.source_vocab_size, self.target_vocab_size)
        self._ids_below(smallest, "pad_token_id", "bos_token_id", "eos_token_id")

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a ``config.json`` that ``save_pretrained`` wrote.

        Raises:
            UserError: the file is missing or damaged, or describes another kind of model.
        """
        from d2lbert.storage.files import read_json

        values = read_json(path)
        model_type = values.pop("model_type", None)
        if model_type != cls.model_type:
            raise UserError(
                f"{path}: model_type is {model_type!r}, not {cls.model_type!r}; give a folder of such a model"
            )
        try:
            return cls.from_dict(values)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the kind of model, for ``config.json``."""
        return {"model_type": self.model_type, **dataclasses.asdict(self)}

    def _same_vocabularies(self, name: str) -> None:
        if getattr(self, name) and self.source_vocab_size != self.target_vocab_size:
            raise UserError(
                f"configuration: {name} wants one vocabulary, but the sizes are {self.source_vocab_size} and "
                f"{self.target_vocab_size}; make them equal or set {name} to false"
            )


@dataclass(frozen=True)
class TransformerConfig(TranslationConfig):
    """Sizes of a Transformer. The defaults are the base model of Vaswani et al. (2017, table 3)."""

    model_type: ClassVar[str] = "transformer"

    num_encoder_layers: int = setting(6, "blocks of the encoder", at_least=1, at_most=MOST_LAYERS)
    num_decoder_layers: int = setting(6, "blocks of the decoder", at_least=1, at_most=MOST_LAYERS)
    num_attention_heads: int = setting(8, "H; must divide hidden_size", at_least=1, at_most=WIDEST)
    intermediate_size: int = setting(2048, "F, the width inside the feed-forward network", at_least=1, at_most=WIDEST)
    hidden_act: str = setting("relu", ACTIVATION, one_of=ACTIVATIONS)
    attention_probs_dropout_prob: float = setting(0.0, "dropout rate on attention weights", at_least=0, below=1)
    max_position_embeddings: int = setting(1024, "longest sequence, in tokens", at_least=1, at_most=MOST_POSITIONS)
    layer_norm_eps: float = setting(1e-5, "small constant in LayerNorm", above=0)
    norm_first: bool = setting(False, "False for post-LN as in the paper, True for pre-LN")
    share_embeddings: bool = setting(True, "source and target have one table of embeddings")
    tie_word_embeddings: bool = setting(True, "the output layer is the target's table of embeddings")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._same_vocabularies("share_embeddings")
        self._divides("num_attention_heads", "hidden_size")

    @property
    def block(self) -> BlockSizes:
        """The sizes of one block of either stack."""
        return self._block(BLOCK_FIELDS, self.norm_first)


# base and big are those of the paper. tiny and mini are for 30,000 sentence pairs: little capacity (Wu et al. 2021,
# section 3, found four heads of 32 enough for Multi30k), and LayerNorm first: in trials of 500 steps it learned several
# times as fast as LayerNorm last.
TRANSFORMER_PRESETS: dict[str, TransformerConfig] = {
    "tiny": TransformerConfig(
        hidden_size=128,
        num_encoder_layers=4,
        num_decoder_layers=4,
        num_attention_heads=4,
        intermediate_size=256,
        norm_first=True,
        hidden_dropout_prob=0.2,
    ),
    "mini": TransformerConfig(
        hidden_size=256,
        num_encoder_layers=3,
        num_decoder_layers=3,
        num_attention_heads=4,
        intermediate_size=512,
        norm_first=True,
        hidden_dropout_prob=0.2,
    ),
    "base": TransformerConfig(),
    "big": TransformerConfig(hidden_size=1024, num_attention_heads=16, intermediate_size=4096, hidden_dropout_prob=0.3),
}


def transformer_preset(name: str, vocab_size: int | None = None) -> TransformerConfig:
    """Return the preset tiny, mini, base or big.

    Args:
        name: of the preset.
        vocab_size: the size of a vocabulary that source and target share; None for that of the paper.

    Raises:
        UserError: there is no such preset.
    """
    if name not in TRANSFORMER_PRESETS:
        raise unknown_name("preset", name, TRANSFORMER_PRESETS)
    config = TRANSFORMER_PRESETS[name]
    return config if vocab_size is None else config.replace(source_vocab_size=vocab_size, target_vocab_size=vocab_size)


@dataclass(frozen=True)
class Seq2SeqConfig(TranslationConfig):
    """Sizes of a recurrent encoder-decoder. The defaults are half those of Bahdanau et al. (2015, appendix A.2.3)."""

    model_type: ClassVar[str] = "seq2seq"

    embedding_size: int = setting(256, "E, the width of a token's vector", at_least=1, at_most=WIDEST)
    num_hidden_layers: int = setting(
        1, "recurrent layers of the encoder and of the decoder", at_least=1, at_most=MOST_LAYERS
    )
    cell: str = setting("gru", "gru or lstm", one_of=("gru", "lstm"))
    attention: str = setting(
        "additive",
        "none (one vector for the whole source), additive or dot",
        one_of=("none", "additive", "dot"),
    )
    bidirectional: bool = setting(True, "the encoder reads from both ends, each direction with half of hidden_size")
    share_embeddings: bool = setting(False, "source and target have one table of embeddings")
    tie_word_embeddings: bool = setting(False, "the output layer's matrix is the target's table of embeddings")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._same_vocabularies("share_embeddings")
        if self.bidirectional and self.hidden_size % 2:
            raise UserError(
                f"configuration: hidden_size {self.hidden_size} cannot be halved for two directions; "
                "make it even or set bidirectional to false"
            )
