"""A small classifier that is no Transformer: word vectors and convolutions over runs of words (Kim 2014).

Shape legend: N texts, L length of the longest, V vocabulary, E size of a word vector, F filters of a width, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from d2lbert.outputs import Rows
from d2lbert.torch.compression.lstm import separate_texts
from d2lbert.torch.encoder import Embedding


class CnnClassifier(nn.Module):
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
        super().__init__()
        self.labels = tuple(labels)
        table = torch.tensor(vectors, dtype=torch.float32)  # a copy: training must not change the given array
        self.embedding = Embedding.from_pretrained(table, freeze=False)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(table.shape[1], filters, width, padding=width - 1) for width in widths
        )
        self.classifier = nn.Linear(len(widths) * filters, len(self.labels))
        self.dropout = nn.Dropout(dropout)

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
        outside = torch.arange(ids.shape[1], device=ids.device) >= lengths.unsqueeze(1)  # (N, L)
        x = self.embedding(ids).masked_fill(outside.unsqueeze(2), 0).transpose(1, 2)  # (N, E, L)
        largest = torch.cat([largest_of_runs(one, x, lengths) for one in self.convolutions], dim=1)
        return self.classifier(self.dropout(largest))  # (N, widths F) -> (N, C)


def largest_of_runs(convolution: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
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
