"""Configuration of GPT, its fields named as in Hugging Face's ``config.json`` for GPT-2; and how text is drawn."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from d2lbert.config.base import (
    ACTIVATION,
    ACTIVATIONS,
    MOST_LAYERS,
    MOST_PIECES,
    MOST_POSITIONS,
    WIDEST,
    BlockSizes,
    ModelConfig,
    refuse_other_values,
)
from d2lbert.config.settings import Settings, setting
from d2lbert.errors import UserError, unknown_name

# Fields of a foreign config.json that change what the network computes, with the one value that we compute.
_REQUIRED_VALUES: dict[str, tuple[Any, ...]] = {
    "model_type": ("gpt2",),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
}
_OTHER_NAMES = {"gelu_pytorch_tanh": "gelu_new"}  # two names of one formula


@dataclass(frozen=True)
class GptConfig(ModelConfig):
    """Sizes of a GPT. The defaults are the smallest GPT-2 (Radford et al. 2019, table 2), with its vocabulary."""

    vocab_size: int = setting(50257, "V, the number of tokens", at_least=1, at_most=MOST_PIECES)
    n_positions: int = setting(1024, "longest text, in tokens", at_least=1, at_most=MOST_POSITIONS)
    n_embd: int = setting(768, "D, the width of every hidden state", at_least=1, at_most=WIDEST)
    n_layer: int = setting(12, "number of blocks", at_least=1, at_most=MOST_LAYERS)
    n_head: int = setting(12, "H; must divide n_embd", at_least=1, at_most=WIDEST)
    n_inner: int = setting(
        3072, "F, the width inside the feed-forward network, 4 D in the paper", at_least=1, at_most=WIDEST
    )
    activation_function: str = setting("gelu_new", ACTIVATION, one_of=ACTIVATIONS)
    resid_pdrop: float = setting(0.1, "dropout rate on the output of a sublayer", at_least=0, below=1)
    embd_pdrop: float = setting(0.1, "dropout rate on the embeddings", at_least=0, below=1)
    attn_pdrop: float = setting(0.1, "dropout rate on attention weights", at_least=0, below=1)
    layer_norm_epsilon: float = setting(1e-5, "small constant in LayerNorm; 1e-5, where BERT has 1e-12", above=0)
    initializer_range: float = setting(0.02, "standard deviation of the initial weights", above=0)
    bos_token_id: int = setting(50256, "the token before a text", at_least=0)
    eos_token_id: int = setting(50256, "the token after a text; GPT-2 has one for both", at_least=0)
    pad_token_id: int = setting(50256, "id that fills the end of a short row", at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._divides("n_head", "n_embd")
        self._ids_below(self.vocab_size, "bos_token_id", "eos_token_id", "pad_token_id")

    @property
    def max_position_embeddings(self) -> int:
        """The longest text under BERT's name for it."""
        return self.n_positions

    @property
    def block(self) -> BlockSizes:
        """The sizes of one block."""
        sizes = ("n_embd", "n_head", "n_inner", "activation_function")
        return self._block((*sizes, "resid_pdrop", "attn_pdrop", "layer_norm_epsilon"), norm_first=True)

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a Hugging Face ``config.json`` of a GPT-2. Fields that do not change the forward pass are ignored.

        Raises:
            UserError: the file is missing or damaged, a size is not allowed, or a field asks for a forward pass that
                this package does not compute (an untied output layer, cross-attention, another architecture).
        """
        from d2lbert.storage.files import read_json

        values = read_json(path)
        refuse_other_values(path, values, _REQUIRED_VALUES, "GPT")
        known = {field.name for field in dataclasses.fields(cls)}
        # In GPT-2's file, null stands for a default: four times the width, and no token for padding.
        fields = {name: value for name, value in values.items() if name in known and value is not None}
        width = fields.get("n_embd", cls.n_embd)
        fields.setdefault("n_inner", 4 * width if isinstance(width, int) else cls.n_inner)
        fields.setdefault("pad_token_id", fields.get("eos_token_id", cls.eos_token_id))
        activation = fields.get("activation_function", cls.activation_function)
        fields["activation_function"] = _OTHER_NAMES.get(str(activation), activation)
        try:
            return cls(**fields)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, with those that ``transformers`` needs to recognise the architecture."""
        kind = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "tie_word_embeddings": True}
        return {**kind, **dataclasses.asdict(self)}


@dataclass(frozen=True)
class Sampling(Settings):
    """How the next token is drawn. The defaults draw from the model's own distribution.

    Sources: Fan et al. 2018, section 5, for top-k; Holtzman et al. 2020, section 3.1, for top-p, which is counted after
    temperature and top-k.
    """

    kind: ClassVar[str] = "sampling"

    temperature: float = setting(
        1.0, "scores are divided by it: below 1 likely tokens gain, above 1 they lose; 0 takes the best", at_least=0
    )
    top_k: int = setting(0, "only the k most probable tokens stay; 0 keeps all", at_least=0)
    top_p: float = setting(
        1.0, "of the most probable tokens as few stay as together reach this probability", above=0, at_most=1
    )
    seed: int = setting(0, "of the draws; the same seed gives the same text", at_least=0, below=2**32)


def _preset(layers: int, hidden: int, positions: int) -> GptConfig:
    """Heads of 64 and an intermediate size of 4 D."""
    return GptConfig(n_positions=positions, n_embd=hidden, n_layer=layers, n_head=hidden // 64, n_inner=4 * hidden)


# The sizes are those of BERT's presets, so that the two can be compared. Base and large then equal the two smaller
# models of GPT-2 (Radford et al. 2019, table 2), which read 1,024 tokens.
GPT_PRESETS: dict[str, GptConfig] = {
    "tiny": _preset(2, 128, 512),
    "mini": _preset(4, 256, 512),
    "small": _preset(4, 512, 512),
    "base": _preset(12, 768, 1024),
    "large": _preset(24, 1024, 1024),
}


def gpt_preset(name: str) -> GptConfig:
    """Return the preset with a name: tiny, mini, small, base or large.

    Raises:
        UserError: there is no such preset.
    """
    if name not in GPT_PRESETS:
        raise unknown_name("preset", name, GPT_PRESETS)
    return GPT_PRESETS[name]
