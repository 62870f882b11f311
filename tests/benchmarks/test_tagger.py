"""The tagger: padding changes nothing, it learns what the words beside a word say, and the mix finds the layer."""

from __future__ import annotations

import torch

from benchmarks.tagger import BiLstmCrf


def test_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    tagger = BiLstmCrf(feature_size=4, num_labels=3, num_layers=2, hidden_size=5).eval()
    for parameter in tagger.parameters():
        torch.nn.init.normal_(parameter)
    short, long = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 6, 4)
    both = torch.full((2, 2, 6, 4), 7.0)
    both[:, :1, :3], both[:, 1:] = short, long
    mask = torch.tensor([[True] * 3 + [False] * 3, [True] * 6])
    labels = torch.tensor([[0, 2, 1, 0, 0, 0], [1, 1, 0, 2, 2, 0]])
    alone = [
        tagger(short, labels[:1, :3], torch.ones(1, 3, dtype=torch.bool)),
        tagger(long, labels[1:], torch.ones(1, 6, dtype=torch.bool)),
    ]
    torch.testing.assert_close(tagger(both, labels, mask), sum(alone) / 2)
    assert tagger.decode(both, mask)[0] == tagger.decode(short, torch.ones(1, 3, dtype=torch.bool))[0]
    assert [len(found) for found in tagger.decode(both, mask)] == [3, 6]


def test_it_learns_from_both_sides_and_mixes_what_helps() -> None:
    """A word's tag says whether the next word is greater. Layer 1 holds the words, layer 0 is noise."""
    torch.manual_seed(0)
    tagger = BiLstmCrf(feature_size=1, num_labels=2, num_layers=2, hidden_size=16, dropout=0.0)
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.02)
    mask = torch.ones(64, 6, dtype=torch.bool)
    for _ in range(250):
        words = torch.rand(64, 6)
        labels = torch.zeros(64, 6, dtype=torch.long)
        labels[:, :-1] = (words[:, 1:] > words[:, :-1]).long()
        layers = torch.stack([torch.rand(64, 6), words]).unsqueeze(-1)  # (N, B, T, F)
        loss = tagger(layers, labels, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = torch.tensor(tagger.eval().decode(layers, mask))
    assert (found == labels).float().mean() > 0.9
    assert tagger.mix.scores.softmax(0)[1] > 0.8
