"""A tagger over vectors of words, whatever made them: a bidirectional LSTM and a CRF (Lample et al. 2016).

It is the model in which Peters et al. (2018, section 4) compared ELMo with vectors that know no context.

Shape legend: N layers of vectors, B sentences, T words of the longest, F size of a vector, C labels.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from d2lbert.torch.crf import LinearChainCrf
from d2lbert.torch.elmo import ScalarMix


class BiLstmCrf(nn.Module):
    """Tags from vectors of words. The vectors are given and do not learn.

    Args:
        feature_size: F.
        num_labels: C.
        num_layers: N, layers of vectors to mix with learned weights; 1 where there is nothing to mix.
        hidden_size: of the LSTM in each direction.
        dropout: rate on the vectors and on the states of the LSTM.
    """

    def __init__(
        self, feature_size: int, num_labels: int, num_layers: int = 1, hidden_size: int = 100, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.mix = ScalarMix(num_layers)
        self.lstm = nn.LSTM(feature_size, hidden_size, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * hidden_size, num_labels)
        self.dropout = nn.Dropout(dropout)
        self.crf = LinearChainCrf(num_labels)

    def forward(self, layers: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the mean of -log p(labels) over the sentences.

        Args:
            layers: (N, B, T, F).  labels: (B, T), any valid label at padding.  mask: (B, T), True = a word; padding
                stands at the end.
        """
        return self.crf(self.emissions(layers, mask), labels, mask).mean()

    def decode(self, layers: Tensor, mask: Tensor) -> list[list[int]]:
        """Return the most probable labels of each sentence."""
        return self.crf.decode(self.emissions(layers, mask), mask)

    def emissions(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Return scores (B, T, C) of each label at each word, before the CRF."""
        mixed = self.dropout(self.mix(list(layers)))  # (B, T, F)
        packed = pack_padded_sequence(mixed, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
        return self.output(self.dropout(states))
