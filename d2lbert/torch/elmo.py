"""ELMo: a language model in both directions over words that are read character by character (Peters et al. 2018).

Shape legend: B batch, T words of the longest sentence with its two markers, W characters of a word, D size of a word's
vector in one direction, C size of an LSTM's cell, N layers. In every mask, True means that a word stands there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from d2lbert.config.elmo import ElmoConfig
from d2lbert.outputs import ElmoOutput
from d2lbert.text.characters import WordCharacters
from d2lbert.torch.folder import load_named, to_arrays

State = tuple[Tensor, Tensor]  # projected state (B, D) and cell (B, C) of one layer


class Highway(nn.Module):
    """A layer that may let its input pass: g * relu(W x + b) + (1 - g) * x with a gate g (Srivastava et al. 2015)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.gate = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., size) to (..., size)."""
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x


class CharacterCnn(nn.Module):
    """A word's vector from its characters: convolutions, the largest answer of each, highways (Kim et al. 2016)."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.characters = nn.Embedding(config.num_characters, config.char_embedding_size, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.char_embedding_size, number, width) for width, number in config.filters
        )
        self.activation = torch.relu if config.activation == "relu" else torch.tanh
        self.highways = nn.ModuleList(Highway(config.num_filters) for _ in range(config.num_highway_layers))
        self.projection = nn.Linear(config.num_filters, config.projection_size)

    def forward(self, char_ids: Tensor) -> Tensor:
        """Map the characters (B, T, W) of words to vectors (B, T, D)."""
        # A text repeats its words, and a vector depends on the word alone: each different word is computed once.
        words, positions = torch.unique(char_ids.flatten(0, -2), dim=0, return_inverse=True)  # (U, W), (B * T,)
        x = self.characters(words).transpose(1, 2)  # (U, characters' size, W)
        x = torch.cat([self.activation(convolve(x).amax(dim=-1)) for convolve in self.convolutions], dim=-1)
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)[positions].view(*char_ids.shape[:-1], -1)


class ProjectedLstm(nn.Module):
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
        self.input = nn.Linear(input_size, 4 * hidden_size)
        self.recurrent = nn.Linear(projection_size, 4 * hidden_size, bias=False)
        self.projection = nn.Linear(hidden_size, projection_size, bias=False)
        self.cell_clip = cell_clip or torch.inf
        self.projection_clip = projection_clip or torch.inf
        # A forget gate that begins open lets the first gradients through (Jozefowicz et al. 2015).
        nn.init.zeros_(self.input.bias)
        nn.init.ones_(self.input.bias[hidden_size : 2 * hidden_size])

    def forward(self, x: Tensor, mask: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return the projected states (B, T, D), zero where no word stands, and the state after each last word.

        Args:
            x: (B, T, input size).  mask: (B, T).  state: where to begin; zeros by default.
        """
        gates_of_x = self.input(x)  # (B, T, 4 C), all positions at once
        if state is None:
            state = x.new_zeros(len(x), self.projection.out_features), x.new_zeros(len(x), self.projection.in_features)
        hidden, cell = state
        outputs = []
        for position in range(x.shape[1]):
            keep = mask[:, position, None]  # (B, 1)
            i, f, g, o = (gates_of_x[:, position] + self.recurrent(hidden)).chunk(4, dim=-1)  # (B, C) each
            new_cell = torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f) * cell
            new_cell = new_cell.clamp(-self.cell_clip, self.cell_clip)
            new_hidden = self.projection(torch.sigmoid(o) * torch.tanh(new_cell))
            new_hidden = new_hidden.clamp(-self.projection_clip, self.projection_clip)
            hidden, cell = torch.where(keep, new_hidden, hidden), torch.where(keep, new_cell, cell)
            outputs.append(new_hidden * keep)
        return torch.stack(outputs, dim=1), (hidden, cell)


class Elmo(nn.Module):
    """ELMo's network: characters to words, then N LSTM layers in each direction (Peters et al. 2018, section 3).

    The two directions share the character network and nothing else.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.words = CharacterCnn(config)
        sizes = config.projection_size, config.hidden_size, config.projection_size
        clips = config.cell_clip, config.projection_clip
        self.forward_layers = nn.ModuleList(ProjectedLstm(*sizes, *clips) for _ in range(config.num_layers))
        self.backward_layers = nn.ModuleList(ProjectedLstm(*sizes, *clips) for _ in range(config.num_layers))

    def forward(self, char_ids: Tensor, mask: Tensor, state: Sequence[State] | None = None) -> ElmoOutput[Tensor]:
        """Return all layers for the characters of words.

        Args:
            char_ids: (B, T, W), from :class:`d2lbert.text.characters.WordCharacters`.
            mask: (B, T); padding stands at the end.
            state: ``.state`` of the batch before, if its rows go on in this one. The published vectors were made so.
        """
        words = self.words(char_ids) * mask.unsqueeze(-1)  # (B, T, D)
        count = self.config.num_layers
        begin = list(state) if state is not None else [None] * (2 * count)
        ahead, ahead_state = self.run_layers(self.forward_layers, words, mask, begin[:count])
        reversed_outputs, back_state = self.run_layers(self.backward_layers, reverse(words, mask), mask, begin[count:])
        back = [reverse(x, mask) for x in reversed_outputs]
        layers = [torch.cat([words, words], dim=-1)]
        layers += [torch.cat(pair, dim=-1) for pair in zip(ahead, back, strict=True)]  # (B, T, 2 D)
        return ElmoOutput(tuple(layers), mask, (*ahead_state, *back_state))

    def run_layers(
        self, stack: nn.ModuleList, x: Tensor, mask: Tensor, begin: Sequence[State | None]
    ) -> tuple[list[Tensor], list[State]]:
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
        model.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()})
        return model.eval()

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Elmo:
        """Load a folder that :meth:`save_pretrained` has written, or a name of the zoo.

        Raises:
            UserError: a file is missing or damaged, or options and weights are not of one model.
        """
        from d2lbert.weights.folder import OPTIONS_FILE, check_tensors, read_tensors
        from d2lbert.weights.header import read_header
        from d2lbert.weights.shapes import elmo_shapes
        from d2lbert.zoo.folders import locate

        path = locate(folder)
        config = ElmoConfig.from_options(path / OPTIONS_FILE)
        check_tensors(read_header(path), elmo_shapes(config), path)
        model = cls(config)
        load_named(model, {name: name for name in model.state_dict()}, read_tensors(path), path)
        return model.eval()

    def save_pretrained(self, folder: str | Path, half: bool = False) -> None:
        """Write ``options.json`` and ``model.safetensors``; ``half`` stores 16 bits a number, half the size."""
        from d2lbert.weights.folder import OPTIONS_FILE, in_half, write_json, write_tensors

        tensors = to_arrays(self.state_dict())
        write_tensors(folder, in_half(tensors) if half else tensors)
        write_json(Path(folder) / OPTIONS_FILE, self.config.to_options())

    @torch.inference_mode()
    def embed(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Return for each sentence, a list of words, the array (N + 1, words, 2 D) of its layers, without markers."""
        device = next(self.parameters()).device
        ids, mask = (torch.from_numpy(array) for array in WordCharacters(self.config.max_characters).batch(sentences))
        layers = torch.stack(self(ids.to(device), mask.to(device)).layers).cpu().numpy()  # (N + 1, B, T, 2 D)
        return [layers[:, row, 1 : len(sentence) + 1] for row, sentence in enumerate(sentences)]


def reverse(x: Tensor, mask: Tensor) -> Tensor:
    """Reverse the order of each row's words (B, T, D); the padding stays at the end."""
    lengths = mask.sum(dim=1, keepdim=True)  # (B, 1)
    positions = torch.arange(x.shape[1], device=x.device).unsqueeze(0)  # (1, T)
    order = torch.where(mask, lengths - 1 - positions, positions)  # (B, T)
    return x.gather(1, order.unsqueeze(-1).expand_as(x))


class ScalarMix(nn.Module):
    """One vector from all layers: gamma * sum_k softmax(w)_k h_k, with learned w and gamma (equation 1).

    Args:
        num_layers: how many layers there are to mix, N + 1.
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(num_layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """Mix tensors of one shape."""
        weights = self.scores.softmax(dim=0)
        return self.gamma * sum(weight * layer for weight, layer in zip(weights, layers, strict=True))


class BidirectionalLanguageModel(nn.Module):
    """ELMo's training task: each direction guesses its next word (Peters et al. 2018, section 3.1).

    The loss is the sum over both directions of -log p(next word). The two share the softmax, as they share the
    character network.

    Args:
        elmo: the network.
        vocab_size: V, the number of words that can be guessed.
        dropout: rate on the inputs of the LSTMs' softmax.
        noise: probability (V,) of each word as a wrong answer in the sampled softmax; proportional to its count, say.
        samples: wrong answers drawn for each batch; 0 for the full softmax.
    """

    def __init__(
        self, elmo: Elmo, vocab_size: int, dropout: float = 0.1, noise: Tensor | None = None, samples: int = 0
    ) -> None:
        super().__init__()
        self.elmo = elmo
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(elmo.config.projection_size, vocab_size)
        self.samples = samples
        self.noise: Tensor
        self.register_buffer("noise", noise if noise is not None else torch.full((vocab_size,), 1 / vocab_size))

    def forward(self, char_ids: Tensor, mask: Tensor, word_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return -log p of every guessed word, forward (n,) and backward (n,); n = words + one marker a sentence.

        Forward guesses all but the first marker, backward all but the last one. In training mode with ``samples``
        the probability is that of the sampled softmax; in evaluation it is always the full one.

        Args:
            char_ids: (B, T, W).  mask: (B, T).  word_ids: (B, T), what is to be guessed, markers included.
        """
        top = self.dropout(self.elmo(char_ids, mask).layers[-1])  # (B, T, 2 D)
        ahead, back = top.chunk(2, dim=-1)
        follows = mask[:, 1:]  # (B, T - 1): positions that have a next word
        forward = self._loss(ahead[:, :-1][follows], word_ids[:, 1:][follows])
        backward = self._loss(back[:, 1:][follows], word_ids[:, :-1][follows])
        return forward, backward

    def _loss(self, states: Tensor, targets: Tensor) -> Tensor:
        """Return -log p of the targets (n,) from states (n, D)."""
        if self.training and self.samples:
            return sampled_softmax_loss(states, targets, self.output, self.noise, self.samples)
        return nn.functional.cross_entropy(self.output(states), targets, reduction="none")


def sampled_softmax_loss(states: Tensor, targets: Tensor, output: nn.Linear, noise: Tensor, samples: int) -> Tensor:
    """Return -log of a softmax over the right word and some wrong ones (Jean et al. 2015, section 3.2).

    One set of wrong words serves the whole batch. A word that is drawn often would be pushed down often: subtracting
    the logarithm of its expected count from its score makes up for that, and the sum below the line becomes an unbiased
    estimate of the full one. The right word is always there, its count is one. (The paper corrects it, too.) A drawn
    word that is the right one does not count as wrong.

    Args:
        states: (n, D).  targets: (n,).  output: the full softmax, V rows.  noise: (V,), probabilities of drawing.
        samples: S, how many are drawn, with replacement.
    """
    drawn = torch.multinomial(noise, samples, replacement=True)  # (S,)
    right = (states * output.weight[targets]).sum(-1) + output.bias[targets]  # (n,)
    wrong = states @ output.weight[drawn].T + output.bias[drawn] - (noise[drawn] * samples).log()  # (n, S)
    wrong = wrong.masked_fill(drawn == targets.unsqueeze(1), -torch.inf)
    return torch.cat([right.unsqueeze(1), wrong], dim=1).logsumexp(dim=1) - right
