"""ELMo: a language model in both directions over words that are read character by character (Peters et al. 2018).

Shape legend: B batch, T words of the longest sentence with its two markers, W characters of a word, D size of a word's
vector in one direction, C size of an LSTM's cell, N layers. In every mask, True means that a word stands there.

The twin of :mod:`d2lbert.torch.elmo`, for use, not for training its language model. Character ids and masks come as
NumPy arrays; the vectors are MXNet's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from mxnet import gluon, nd
from mxnet.gluon import nn

from d2lbert.config.elmo import ElmoConfig
from d2lbert.mxnet.blocks import Embedding
from d2lbert.outputs import ElmoOutput
from d2lbert.text.characters import WordCharacters

State = tuple[nd.NDArray, nd.NDArray]  # projected state (B, D) and cell (B, C) of one layer


class Highway(gluon.Block):
    """A layer that may let its input pass: g * relu(W x + b) + (1 - g) * x with a gate g (Srivastava et al. 2015)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.transform = nn.Dense(size, in_units=size, flatten=False)
        self.gate = nn.Dense(size, in_units=size, flatten=False)

    def forward(self, x: nd.NDArray) -> nd.NDArray:
        """Map (..., size) to (..., size)."""
        gate = nd.sigmoid(self.gate(x))
        return gate * nd.relu(self.transform(x)) + (1 - gate) * x


class CharacterCnn(gluon.Block):
    """A word's vector from its characters: convolutions, the largest answer of each, highways (Kim et al. 2016)."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.characters = Embedding(config.num_characters, config.char_embedding_size)
        self.convolutions, self.highways = nn.Sequential(), nn.Sequential()
        for width, number in config.filters:
            self.convolutions.add(nn.Conv1D(number, width, in_channels=config.char_embedding_size))
        for _ in range(config.num_highway_layers):
            self.highways.add(Highway(config.num_filters))
        self.activation = config.activation
        self.projection = nn.Dense(config.projection_size, in_units=config.num_filters, flatten=False)

    def forward(self, char_ids: np.ndarray) -> nd.NDArray:
        """Map the characters (B, T, W) of words to vectors (B, T, D)."""
        # A text repeats its words, and a vector depends on the word alone: each different word is computed once.
        words, positions = np.unique(char_ids.reshape(-1, char_ids.shape[-1]), axis=0, return_inverse=True)  # (U, W)
        x = self.characters(nd.array(words, dtype="int32")).transpose((0, 2, 1))  # (U, characters' size, W)
        pooled = [nd.Activation(_largest(convolve(x)), self.activation) for convolve in self.convolutions]
        x = nd.concat(*pooled, dim=-1)
        for highway in self.highways:
            x = highway(x)
        rows = nd.array(positions.reshape(-1), dtype="int32")
        return self.projection(x).take(rows).reshape((*char_ids.shape[:-1], -1))


def _largest(x: nd.NDArray) -> nd.NDArray:
    """Return the largest value of the last axis. ``max`` would give its gradient to each of several equal ones."""
    return nd.pick(x, x.argmax(axis=-1), axis=-1)


class ProjectedLstm(gluon.Block):
    """An LSTM whose state is projected to fewer numbers than its cell has (Sak et al. 2014), from left to right.

    Args:
        input_size: of what comes in.
        hidden_size: C.
        projection_size: D.
        cell_clip, projection_clip: largest absolute values of cell and projected state; 0 for no limit.
    """

    def __init__(
        self, input_size: int, hidden_size: int, projection_size: int, cell_clip: float, projection_clip: float
    ) -> None:
        super().__init__()
        self.input = nn.Dense(4 * hidden_size, in_units=input_size, flatten=False)
        self.recurrent = nn.Dense(4 * hidden_size, in_units=projection_size, use_bias=False, flatten=False)
        self.projection = nn.Dense(projection_size, in_units=hidden_size, use_bias=False, flatten=False)
        self.sizes = projection_size, hidden_size
        self.cell_clip = cell_clip or float("inf")
        self.projection_clip = projection_clip or float("inf")

    def forward(self, x: nd.NDArray, mask: np.ndarray, state: State | None = None) -> tuple[nd.NDArray, State]:
        """Return the projected states (B, T, D), zero where no word stands, and the state after each last word.

        Args:
            x: (B, T, input size).  mask: (B, T).  state: where to begin; zeros by default.
        """
        gates_of_x = self.input(x)  # (B, T, 4 C), all positions at once
        hidden, cell = state or tuple(nd.zeros((len(mask), size)) for size in self.sizes)
        outputs = []
        for position in range(mask.shape[1]):
            keep = nd.array(mask[:, position, None], dtype="float32")  # (B, 1)
            gates = gates_of_x[:, position] + self.recurrent(hidden)
            i, f, g, o = gates.split(num_outputs=4, axis=-1)  # (B, C) each
            new_cell = nd.sigmoid(i) * nd.tanh(g) + nd.sigmoid(f) * cell
            new_cell = new_cell.clip(-self.cell_clip, self.cell_clip)
            new_hidden = self.projection(nd.sigmoid(o) * nd.tanh(new_cell))
            new_hidden = new_hidden.clip(-self.projection_clip, self.projection_clip)
            hidden, cell = keep * new_hidden + (1 - keep) * hidden, keep * new_cell + (1 - keep) * cell
            outputs.append(keep * new_hidden)
        return nd.stack(*outputs, axis=1), (hidden, cell)


class Elmo(gluon.Block):
    """ELMo's network: characters to words, then N LSTM layers in each direction (Peters et al. 2018, section 3).

    The two directions share the character network and nothing else.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.words = CharacterCnn(config)
        sizes = config.projection_size, config.hidden_size, config.projection_size
        clips = config.cell_clip, config.projection_clip
        self.forward_layers, self.backward_layers = nn.Sequential(), nn.Sequential()
        for _ in range(config.num_layers):
            self.forward_layers.add(ProjectedLstm(*sizes, *clips))
            self.backward_layers.add(ProjectedLstm(*sizes, *clips))

    def forward(
        self, char_ids: np.ndarray, mask: np.ndarray, state: Sequence[State] | None = None
    ) -> ElmoOutput[nd.NDArray]:
        """Return all layers for the characters of words.

        Args:
            char_ids: (B, T, W), from :class:`d2lbert.text.characters.WordCharacters`.
            mask: (B, T); padding stands at the end.
            state: ``.state`` of the batch before, if its rows go on in this one. The published vectors were made so.
        """
        words = self.words(char_ids) * nd.array(mask[..., None], dtype="float32")  # (B, T, D)
        count = self.config.num_layers
        begin = list(state) if state is not None else [None] * (2 * count)
        ahead, ahead_state = self.run_layers(self.forward_layers, words, mask, begin[:count])
        reversed_outputs, back_state = self.run_layers(self.backward_layers, reverse(words, mask), mask, begin[count:])
        back = [reverse(x, mask) for x in reversed_outputs]
        layers = [nd.concat(words, words, dim=-1)]
        layers += [nd.concat(*pair, dim=-1) for pair in zip(ahead, back, strict=True)]  # (B, T, 2 D)
        return ElmoOutput(tuple(layers), mask, (*ahead_state, *back_state))

    def run_layers(
        self, stack: nn.Sequential, x: nd.NDArray, mask: np.ndarray, begin: Sequence[State | None]
    ) -> tuple[list[nd.NDArray], list[State]]:
        """Return the output (B, T, D) and the last state of each layer of one direction."""
        outputs, states = [], []
        for number, (lstm, first) in enumerate(zip(stack, begin, strict=True)):
            y, last = lstm(x, mask, first)
            x = y + x if number and self.config.skip_connections else y
            outputs.append(x)
            states.append(last)
        return outputs, states

    @classmethod
    def from_files(cls, options: str | Path, weights: str | Path) -> Elmo:
        """Load the ``options.json`` and the weights (``.hdf5``) that AllenNLP published.

        Raises:
            UserError: a file is missing or damaged, or the two are not of one model.
        """
        from d2lbert.weights.elmo import elmo_parameters, read_elmo
        from d2lbert.weights.shapes import elmo_shapes

        config = ElmoConfig.from_options(options)
        arrays = elmo_parameters(read_elmo(weights), config, elmo_shapes(config), weights)
        model = cls(config)
        model._load(arrays)
        return model

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Elmo:
        """Load a folder that :meth:`save_pretrained` of either edition has written, or a name of the zoo.

        Raises:
            UserError: a file is missing or damaged, or options and weights are not of one model.
        """
        from d2lbert.weights.folder import OPTIONS_FILE, check_tensors, read_tensors
        from d2lbert.weights.header import read_header
        from d2lbert.weights.shapes import elmo_shapes
        from d2lbert.zoo.folders import locate

        path = locate(folder)
        config = ElmoConfig.from_options(path / OPTIONS_FILE)
        shapes = elmo_shapes(config)
        check_tensors(read_header(path), shapes, path)
        tensors = read_tensors(path)
        check_tensors(tensors, shapes, path)
        model = cls(config)
        model._load(tensors)
        return model

    def save_pretrained(self, folder: str | Path, half: bool = False) -> None:
        """Write ``options.json`` and ``model.safetensors``; ``half`` stores 16 bits a number, half the size."""
        from d2lbert.weights.folder import OPTIONS_FILE, in_half, write_json, write_tensors

        tensors = {name: value.data().asnumpy() for name, value in self._collect_params_with_prefix().items()}
        write_tensors(folder, in_half(tensors) if half else tensors)
        write_json(Path(folder) / OPTIONS_FILE, self.config.to_options())

    def _load(self, arrays: dict[str, np.ndarray]) -> None:
        self.initialize()
        for name, parameter in self._collect_params_with_prefix().items():
            parameter.set_data(nd.array(arrays[name]))

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Return for each sentence, a list of words, the array (N + 1, words, 2 D) of its layers, without markers."""
        ids, mask = WordCharacters(self.config.max_characters).batch(sentences)
        layers = np.stack([layer.asnumpy() for layer in self(ids, mask).layers])  # (N + 1, B, T, 2 D)
        return [layers[:, row, 1 : len(sentence) + 1] for row, sentence in enumerate(sentences)]


def reverse(x: nd.NDArray, mask: np.ndarray) -> nd.NDArray:
    """Reverse the order of each row's words (B, T, D); the padding stays at the end."""
    lengths = nd.array(mask.sum(axis=1), dtype="float32")
    return nd.SequenceReverse(x.swapaxes(0, 1), lengths, use_sequence_length=True).swapaxes(0, 1)


class ScalarMix(gluon.Block):
    """One vector from all layers: gamma * sum_k softmax(w)_k h_k, with learned w and gamma (equation 1).

    Args:
        num_layers: how many layers there are to mix, N + 1.
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.scores = self.params.get("scores", shape=(num_layers,), init="zeros")
        self.gamma = self.params.get("gamma", shape=(1,), init="ones")
        self.initialize()

    def forward(self, layers: Sequence[nd.NDArray]) -> nd.NDArray:
        """Mix arrays of one shape."""
        weights = nd.softmax(self.scores.data())
        return self.gamma.data() * sum(weights[number] * layer for number, layer in enumerate(layers))
