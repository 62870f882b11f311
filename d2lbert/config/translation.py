"""Configurations of the models that turn one sequence into another: the Transformer and the recurrent Seq2Seq."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from d2lbert.config.base import ACTIVATIONS, BlockSizes, ModelConfig
from d2lbert.errors import UserError, unknown_name
from d2lbert.storage.files import read_json


@dataclass(frozen=True)
class TranslationConfig(ModelConfig):
    """What both kinds of model have.

    Fields:
        source_vocab_size, target_vocab_size: V of either language; equal where they share a vocabulary.
        hidden_size: D, the width of every hidden state.
        hidden_dropout_prob: dropout rate during training.
        pad_token_id, bos_token_id, eos_token_id: padding, the begin and the end of a sequence, in both languages.
    """

    model_type: ClassVar[str] = ""

    source_vocab_size: int = 37000
    target_vocab_size: int = 37000
    hidden_size: int = 512
    hidden_dropout_prob: float = 0.1
    pad_token_id: int = 0
    bos_token_id: int = 1
    eos_token_id: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least_one("source_vocab_size", "target_vocab_size", "hidden_size")
        self._rates("hidden_dropout_prob")
        smallest = min(self.source_vocab_size, self.target_vocab_size)
        self._ids_below(smallest, "pad_token_id", "bos_token_id", "eos_token_id")

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a ``config.json`` that ``save_pretrained`` wrote.

        Raises:
            UserError: the file is missing or damaged, or describes another kind of model.
        """
        values = read_json(path)
        found = values.pop("model_type", None)
        if found != cls.model_type:
            raise UserError(f"{path}: model_type is {found!r}, not {cls.model_type!r}; give a folder of such a model")
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
    """Sizes of a Transformer. The defaults are the base model of Vaswani et al. (2017, table 3).

    Fields besides those of :class:`TranslationConfig`:
        num_encoder_layers, num_decoder_layers: blocks of either stack.
        num_attention_heads: H; must divide ``hidden_size``.
        intermediate_size: F, the width inside the feed-forward network.
        hidden_act: ``"relu"``, ``"gelu"`` or ``"gelu_new"``.
        attention_probs_dropout_prob: dropout rate on attention weights.
        max_position_embeddings: the longest sequence, in tokens.
        layer_norm_eps: the small constant in LayerNorm.
        norm_first: False for post-LN as in the paper, True for pre-LN.
        share_embeddings: source and target have one table of embeddings.
        tie_word_embeddings: the output layer is the target's table of embeddings.
    """

    model_type: ClassVar[str] = "transformer"

    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    hidden_act: str = "relu"
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 1024
    layer_norm_eps: float = 1e-5
    norm_first: bool = False
    share_embeddings: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least_one("num_attention_heads", "intermediate_size", "max_position_embeddings")
        self._at_least_one("num_encoder_layers", "num_decoder_layers")
        self._rates("attention_probs_dropout_prob")
        self._same_vocabularies("share_embeddings")
        self._divides("num_attention_heads", "hidden_size")
        self._one_of("hidden_act", ACTIVATIONS, "activation")

    @property
    def block(self) -> BlockSizes:
        """The sizes of one block of either stack."""
        return BlockSizes(
            self.hidden_size,
            self.num_attention_heads,
            self.intermediate_size,
            self.hidden_act,
            self.hidden_dropout_prob,
            self.attention_probs_dropout_prob,
            self.layer_norm_eps,
            self.norm_first,
        )


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
    """Return the preset tiny, mini, base or big; with ``vocab_size``, for a shared vocabulary of that size."""
    if name not in TRANSFORMER_PRESETS:
        raise unknown_name("preset", name, TRANSFORMER_PRESETS)
    config = TRANSFORMER_PRESETS[name]
    return config if vocab_size is None else config.replace(source_vocab_size=vocab_size, target_vocab_size=vocab_size)


@dataclass(frozen=True)
class Seq2SeqConfig(TranslationConfig):
    """Sizes of a recurrent encoder-decoder. The defaults are half of those of Bahdanau et al. (2015, appendix A.2.3).

    Fields besides those of :class:`TranslationConfig`:
        embedding_size: E, the width of a token's vector.
        num_hidden_layers: recurrent layers of the encoder and of the decoder.
        cell: ``"gru"`` or ``"lstm"``.
        attention: ``"none"`` (one context vector for the whole source), ``"additive"`` or ``"dot"``.
        bidirectional: the encoder reads from both ends, each direction with half of ``hidden_size``.
    """

    model_type: ClassVar[str] = "seq2seq"

    embedding_size: int = 256
    num_hidden_layers: int = 1
    cell: str = "gru"
    attention: str = "additive"
    bidirectional: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least_one("embedding_size", "num_hidden_layers")
        self._one_of("cell", ("gru", "lstm"))
        self._one_of("attention", ("none", "additive", "dot"))
        if self.bidirectional and self.hidden_size % 2:
            raise UserError(
                f"configuration: hidden_size {self.hidden_size} cannot be halved for two directions; "
                "make it even or set bidirectional to false"
            )
