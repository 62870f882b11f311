"""Configurations: frozen dataclasses whose field names are those of Hugging Face's ``config.json``.

A configuration knows the sizes of a network and nothing else. It rejects unknown fields, checks that its sizes fit
together, and reads and writes JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from d2lbert.errors import UserError, unknown_name

ACTIVATIONS = ("gelu", "gelu_new", "relu")

# Fields of a foreign config.json that change what the network computes, with the one value that we compute.
# Any other foreign field (training options, label names, version stamps) does not touch the forward pass.
REQUIRED_VALUES: dict[str, tuple[Any, ...]] = {
    "model_type": ("bert",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}


@dataclass(frozen=True)
class ModelConfig:
    """What the configurations of all models share: a copy with changes, no unknown fields, and checks of sizes."""

    def __post_init__(self) -> None:
        check_types(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build a configuration from our own fields; an unknown field is an error."""
        known = {field.name for field in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise unknown_name("configuration field", name, known)
        return cls(**values)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def _at_least_one(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 1:
                raise UserError(f"configuration: {name} is {getattr(self, name)}; it must be at least 1")

    def _above_zero(self, *names: str) -> None:
        for name in names:
            if not getattr(self, name) > 0:
                raise UserError(f"configuration: {name} is {getattr(self, name)}; it must be above 0")

    def _rates(self, *names: str) -> None:
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"configuration: {name} is {getattr(self, name)}; it is a rate, from 0 to below 1")

    def _one_of(self, name: str, known: Sequence[str], what: str = "") -> None:
        if getattr(self, name) not in known:
            raise unknown_name(f"{what} {name}".strip(), getattr(self, name), known)

    def _divides(self, heads: str, width: str) -> None:
        if getattr(self, width) % getattr(self, heads):
            raise UserError(
                f"configuration: {getattr(self, heads)} heads do not divide {width} {getattr(self, width)}; "
                f"choose {heads} so that they do"
            )

    def _ids_below(self, size: int, *names: str) -> None:
        for name in names:
            if not 0 <= getattr(self, name) < size:
                raise UserError(
                    f"configuration: {name} is {getattr(self, name)}, outside the vocabulary of {size}; "
                    "give the id of one of its tokens"
                )


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
    def num_groups(self) -> int:
        """How many blocks have weights of their own: in BERT all of them, in ALBERT as many as there are groups."""
        return self.num_hidden_layers

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


@dataclass(frozen=True)
class ElmoConfig(ModelConfig):
    """Sizes of an ELMo language model. The defaults are the published one's (Peters et al. 2018, section 3.4).

    Fields:
        num_characters: rows of the character table: 256 bytes, five markers, and row 0 for "no word".
        char_embedding_size: the width of a character's vector.
        filters: (width in characters, number) of each group of convolution filters.
        num_highway_layers: layers that mix the filters' answers.
        activation: after the convolutions, ``"relu"`` or ``"tanh"``.
        max_characters: characters of a word, its two markers included; the rest is cut off.
        projection_size: D, the width of a word's vector in every layer, for one direction.
        hidden_size: C, the width of an LSTM's cell.
        num_layers: LSTM layers in each direction.
        cell_clip, projection_clip: largest absolute value of a cell and of a projected state; 0 for no limit.
        skip_connections: whether a layer above the first adds its input to its output.
    """

    num_characters: int = 262
    char_embedding_size: int = 16
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    num_highway_layers: int = 2
    activation: str = "relu"
    max_characters: int = 50
    projection_size: int = 512
    hidden_size: int = 4096
    num_layers: int = 2
    cell_clip: float = 3.0
    projection_clip: float = 3.0
    skip_connections: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least_one("char_embedding_size", "projection_size", "hidden_size", "num_layers", "max_characters")
        self._one_of("activation", ("relu", "tanh"))
        widest = max((width for width, _ in self.filters), default=0)
        if not 0 < widest <= self.max_characters:
            raise UserError(
                f"configuration: the widest filter spans {widest} characters; it must be from 1 to max_characters "
                f"({self.max_characters})"
            )

    @property
    def num_filters(self) -> int:
        """The number of all convolution filters."""
        return sum(number for _, number in self.filters)

    @classmethod
    def from_options(cls, path: str | Path) -> ElmoConfig:
        """Read the ``options.json`` that comes with AllenNLP's ELMo weights.

        Raises:
            UserError: the file is missing, not JSON, or lacks a size.
        """
        values = read_json(path)
        try:
            cnn, lstm = values["char_cnn"], values["lstm"]
            return cls(
                num_characters=cnn["n_characters"],
                char_embedding_size=cnn["embedding"]["dim"],
                filters=tuple((width, number) for width, number in cnn["filters"]),
                num_highway_layers=cnn["n_highway"],
                activation=cnn["activation"],
                max_characters=cnn["max_characters_per_token"],
                projection_size=lstm["projection_dim"],
                hidden_size=lstm["dim"],
                num_layers=lstm["n_layers"],
                cell_clip=float(lstm["cell_clip"] or 0),
                projection_clip=float(lstm["proj_clip"] or 0),
                skip_connections=lstm["use_skip_connections"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} holds no ELMo options ({error!r}): give the options.json of the weights") from None
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    def to_options(self) -> dict[str, Any]:
        """Return the content of an ``options.json``."""
        return {
            "lstm": {
                "cell_clip": self.cell_clip,
                "use_skip_connections": self.skip_connections,
                "n_layers": self.num_layers,
                "proj_clip": self.projection_clip,
                "projection_dim": self.projection_size,
                "dim": self.hidden_size,
            },
            "char_cnn": {
                "embedding": {"dim": self.char_embedding_size},
                "filters": [list(group) for group in self.filters],
                "n_highway": self.num_highway_layers,
                "n_characters": self.num_characters,
                "max_characters_per_token": self.max_characters,
                "activation": self.activation,
            },
        }


def check_types(config: Any) -> None:
    """Refuse values of a configuration that are not of their defaults' type; an integer will do for a real number."""
    for field in dataclasses.fields(config):
        value, wanted = getattr(config, field.name), type(field.default)
        allowed = (int, float) if wanted is float else (wanted,)
        if isinstance(value, bool) != (wanted is bool) or not isinstance(value, allowed):
            raise UserError(f"configuration: {field.name} is {value!r}; it must be of type {wanted.__name__}")


def refuse_other_values(
    path: str | Path, values: dict[str, Any], required: Mapping[str, tuple[Any, ...]], kind: str
) -> None:
    """Refuse a foreign ``config.json`` with a value that we do not compute; the first of the allowed ones is named."""
    for name, allowed in required.items():
        if name in values and values[name] not in allowed:
            raise UserError(
                f"{path}: {name} is {values[name]!r}, which d2lbert does not compute for {kind}; "
                f"use a checkpoint where it is {allowed[0]!r}"
            )


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
