"""Small classifiers that are no Transformers: word vectors, and an LSTM in each direction or convolutions over them.

Shape legend: N texts, L length of the longest, V vocabulary, E size of a word vector, S size of a state, F filters of a
width, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from d2lbert.outputs import Rows
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.torch.encoder import Embedding


class _WordClassifier(nn.Module):
    """What both share: a table of word vectors, which is trained, and each text read by itself.

    Args:
        vectors: (V, E), the first values of the table.
        labels: the names of the C labels, in the order of the logits.
    """

    def __init__(self, vectors: np.ndarray, labels: Sequence[str]) -> None:
        super().__init__()
        self.labels = tuple(labels)
        table = torch.tensor(vectors, dtype=torch.float32)  # a copy: training must not change the given array
        self.embedding = Embedding.from_pretrained(table, freeze=False)

    def forward(
        self, token_ids: Tensor | Rows[Tensor], segment_ids: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Return logits (N, C). Rows may be packed: each text is read by itself.

        Args:
            token_ids: (N, L), integers below V; or all tensors of a batch as :class:`~d2lbert.outputs.Rows`.
            segment_ids: not used.
            mask: (N, L), 1 for a token and 0 for the padding at the end; all 1 by default.
        """
        ids, lengths = separate_texts(Rows.of(token_ids, segment_ids, mask))  # (N, L), (N,)
        return self.logits_of(self.embedding(ids), lengths)

    def logits_of(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return logits (N, C) of word vectors (N, L, E); what follows the words of a text may be anything."""
        raise NotImplementedError


class BiLstmClassifier(_WordClassifier):
    """The last state of an LSTM in each direction, one layer with ReLU, logits (Tang et al. 2019).

    Args:
        vectors: (V, E), the first values of the table of word vectors, which is trained.
        labels: the names of the C labels, in the order of the logits.
        state_size: S, of each direction.
        inner_size: of the layer between states and logits.
        dropout: rate on word vectors and on the inner layer; the paper has it on the inner layer alone.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        labels: Sequence[str],
        state_size: int = 150,
        inner_size: int = 200,
        dropout: float = 0.1,
    ) -> None:
        super().__init__(vectors, labels)
        self.lstm = nn.LSTM(self.embedding.embedding_dim, state_size, batch_first=True, bidirectional=True)
        self.inner = nn.Linear(2 * state_size, inner_size)
        self.classifier = nn.Linear(inner_size, len(self.labels))
        self.dropout = nn.Dropout(dropout)

    def logits_of(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.dropout(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)  # (2, N, S): after the last word, and after the first one read backwards
        both = torch.cat([last[0], last[1]], dim=1)  # (N, 2 S)
        return self.classifier(self.dropout(torch.relu(self.inner(both))))


class CnnClassifier(_WordClassifier):
    """Filters over runs of words, the largest value of each filter, dropout, logits (Kim 2014, figure 1).

    A filter of width w is a linear function of w neighbouring word vectors. It is computed for every run that has a
    word of the text; what such a run has before the first word and behind the last one counts as zeros.

    Args:
        vectors: (V, E), the first values of the table of word vectors, which is trained.
        labels: the names of the C labels, in the order of the logits.
        widths: of the filters, in words.
        filters: F, so many of each width.
        dropout: rate before the last layer.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        labels: Sequence[str],
        widths: Sequence[int] = (3, 4, 5),
        filters: int = 100,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(vectors, labels)
        size = self.embedding.embedding_dim
        self.convolutions = nn.ModuleList(nn.Conv1d(size, filters, width, padding=width - 1) for width in widths)
        self.classifier = nn.Linear(len(widths) * filters, len(self.labels))
        self.dropout = nn.Dropout(dropout)

    def logits_of(self, x: Tensor, lengths: Tensor) -> Tensor:
        outside = torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)  # (N, L)
        x = x.masked_fill(outside.unsqueeze(2), 0).transpose(1, 2)  # (N, E, L)
        largest = torch.cat([_largest_of_runs(one, x, lengths) for one in self.convolutions], dim=1)
        return self.classifier(self.dropout(largest))  # (N, widths F) -> (N, C)


def _largest_of_runs(convolution: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    """Return the largest value of each filter over the runs of a text, or 0 where all are negative, (N, F).

    Args:
        convolution: filters of one width w, with w - 1 zeros before and behind a row.
        x: (N, E, L), zero behind the end of each text.
        lengths: (N,), words of each text.
    """
    values = convolution(x)  # (N, F, L + w - 1): the i-th run ends with word i
    runs = lengths + values.shape[2] - x.shape[2]  # (N,), those with a word of the text
    beyond = torch.arange(values.shape[2], device=x.device) >= runs.unsqueeze(1)  # (N, L + w - 1)
    return values.masked_fill(beyond.unsqueeze(1), -torch.inf).amax(dim=2).relu()


def separate_texts(rows: Rows[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the token ids of each text in a row of its own, (N, L), and the number of tokens of each, (N,).

    What follows the end of a text in its row is no part of it and may be anything.
    """
    if rows.sequence_ids is None or rows.starts is None:
        ones = torch.ones_like(rows.token_ids) if rows.mask is None else rows.mask
        return rows.token_ids, ones.sum(1)
    row, column = rows.starts[:, 0], rows.starts[:, 1]
    own = rows.sequence_ids[row, column]  # (N,), the number of each text in its row
    lengths = (rows.sequence_ids[row] == own.unsqueeze(1)).sum(1)  # (N,)
    steps = torch.arange(int(lengths.max()), device=row.device)
    columns = (column.unsqueeze(1) + steps).clamp(max=rows.token_ids.shape[1] - 1)  # (N, L)
    return rows.token_ids[row.unsqueeze(1), columns], lengths


def word_tokenizer(words: Sequence[str], matrix: np.ndarray, seed: int = 0) -> tuple[WordPiece, np.ndarray]:
    """Return a tokenizer of whole words, and the vectors (V, E) of its vocabulary.

    It splits texts as BERT's does, but its pieces are words; one that it does not know is ``[UNK]``.

    Args:
        words: different ones, in lower case, such as those of GloVe.
        matrix: (words, E), the vector of each.
        seed: of the vectors of ``[CLS]`` and the other special tokens, which no file has; ``[PAD]`` is zero.
    """
    kept = [number for number, word in enumerate(words) if word not in SPECIAL_TOKENS]
    vectors = np.asarray(matrix[kept], dtype=np.float32)
    generator = np.random.default_rng(seed)
    special = generator.normal(0, float(vectors.std()), (len(SPECIAL_TOKENS), vectors.shape[1])).astype(np.float32)
    special[0] = 0
    tokenizer = WordPiece([*SPECIAL_TOKENS, *(words[number] for number in kept)])
    return tokenizer, np.concatenate([special, vectors])
