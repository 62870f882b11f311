"""Sizes of ELMo, read from and written as AllenNLP's ``options.json``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d2lbert.config.base import MOST_LAYERS, MOST_PIECES, MOST_POSITIONS, WIDEST, ModelConfig
from d2lbert.config.settings import setting
from d2lbert.errors import UserError


@dataclass(frozen=True)
class ElmoConfig(ModelConfig):
    """Sizes of an ELMo language model. The defaults are the published one's (Peters et al. 2018, section 3.4)."""

    num_characters: int = setting(
        262,
        'rows of the character table: 256 bytes, five markers, and row 0 for "no word"',
        at_least=1,
        at_most=MOST_PIECES,
    )
    char_embedding_size: int = setting(16, "width of a character's vector", at_least=1, at_most=WIDEST)
    filters: tuple[tuple[int, int], ...] = setting(
        ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
        "(width in characters, number) of each group of convolution filters",
    )
    num_highway_layers: int = setting(2, "layers that mix what the filters say", at_least=0, at_most=MOST_LAYERS)
    activation: str = setting("relu", "after the convolutions, relu or tanh", one_of=("relu", "tanh"))
    max_characters: int = setting(
        50, "characters of a word, its two markers included; the rest is cut off", at_least=1, at_most=MOST_POSITIONS
    )
    projection_size: int = setting(
        512, "D, the width of a word's vector in every layer, for one direction", at_least=1, at_most=WIDEST
    )
    hidden_size: int = setting(4096, "C, the width of an LSTM's cell", at_least=1, at_most=WIDEST)
    num_layers: int = setting(2, "LSTM layers in each direction", at_least=1, at_most=MOST_LAYERS)
    cell_clip: float = setting(3.0, "largest absolute value of a cell; 0: no limit", at_least=0)
    projection_clip: float = setting(3.0, "largest absolute value of a projected state; 0: no limit", at_least=0)
    skip_connections: bool = setting(True, "whether a layer above the first adds its input to its output")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(isinstance(number, int) and 1 <= number <= WIDEST for group in self.filters for number in group):
            raise UserError(f"configuration: filters is {self.filters}; give pairs of a width and a number from 1 on")
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
        from d2lbert.storage.files import read_json

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
