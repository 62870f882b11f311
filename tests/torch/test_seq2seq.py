"""Recurrent cells, the language model, the encoder-decoder: by hand, against torch.nn, and on a task to learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from random_parameters import randomize
from torch import Tensor, nn
from torch.nn import functional

from d2lbert import UserError
from d2lbert.config import Seq2SeqConfig
from d2lbert.torch.generation import beam_search, greedy_search
from d2lbert.torch.seq2seq import GruCell, LanguageModel, LstmCell, Seq2Seq, unroll

B, M, L, E, D = 4, 9, 6, 5, 8


def _config(**changes: Any) -> Seq2SeqConfig:
    sizes = {"source_vocab_size": 23, "target_vocab_size": 19, "hidden_size": D, "embedding_size": E}
    return Seq2SeqConfig(**{**sizes, "num_hidden_layers": 2, **changes})


def _model(**changes: Any) -> Seq2Seq:
    model = Seq2Seq(_config(**changes)).eval()
    randomize(model, standard_deviation=0.5)
    return model


def _inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    mask = (torch.arange(M) < M - 2 * torch.arange(B).unsqueeze(1)).long()
    return torch.randint(3, 23, (B, M)) * mask, torch.randint(3, 19, (B, L)), mask


kinds = pytest.mark.parametrize("attention", ["none", "additive", "dot"])
cells = pytest.mark.parametrize("cell", ["gru", "lstm"])


@pytest.mark.parametrize(("cell_class", "reference_class"), [(GruCell, nn.GRU), (LstmCell, nn.LSTM)])
def test_cells_equal_those_of_torch(cell_class: type, reference_class: type) -> None:
    cell, reference = cell_class(E, D), reference_class(E, D, batch_first=True)
    randomize(reference)
    cell.input.load_state_dict({"weight": reference.weight_ih_l0, "bias": reference.bias_ih_l0})
    cell.hidden.load_state_dict({"weight": reference.weight_hh_l0, "bias": reference.bias_hh_l0})
    x = torch.randn(B, L, E, requires_grad=True)
    first = tuple(torch.randn(B, D) for _ in range(2 if cell_class is LstmCell else 1))
    given = tuple(h.unsqueeze(0) for h in first)
    expected, last = reference(x, given if len(given) == 2 else given[0])
    got, state = unroll(cell, x, first)
    assert (expected - got).abs().max() < 1e-6
    for theirs, ours in zip(last if isinstance(last, tuple) else (last,), state, strict=True):
        assert (theirs[0] - ours).abs().max() < 1e-6
    direction = torch.randn_like(got) / got.numel() ** 0.5
    for a, b in zip(
        torch.autograd.grad((expected * direction).sum(), [x, reference.weight_hh_l0, reference.bias_hh_l0]),
        torch.autograd.grad((got * direction).sum(), [x, cell.hidden.weight, cell.hidden.bias]),
        strict=True,
    ):
        assert (a - b).abs().max() < 1e-6
        assert a.abs().max() > 1e-4


@cells
def test_language_model_goes_on_from_its_state(cell: str) -> None:
    model = LanguageModel(11, E, D, cell)
    ids = torch.randint(0, 11, (B, 7))
    whole, _ = model(ids)
    first, state = model(ids[:, :3])
    second, _ = model(ids[:, 3:], state)
    assert torch.allclose(whole, torch.cat([first, second], dim=1), atol=1e-6)


@cells
def test_language_model_learns_a_sentence_by_heart(cell: str) -> None:
    torch.manual_seed(0)
    text = "this is deep learning"
    letters = sorted(set(text))
    ids = torch.tensor([[letters.index(letter) for letter in text]])
    model = LanguageModel(len(letters), 8, 32, cell)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(80):
        loss = functional.cross_entropy(model(ids[:, :-1])[0][0], ids[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    said = model.generate(ids[0, :2].tolist(), len(text) - 2, temperature=0)
    assert "".join(letters[index] for index in said) == text


def test_temperature_makes_draws_differ_and_a_seed_makes_them_equal() -> None:
    torch.manual_seed(0)
    model = LanguageModel(11, E, D)
    drawn = [model.generate([1], 30, 1.0, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 31


@kinds
@cells
@pytest.mark.parametrize("bidirectional", [False, True])
def test_steps_equal_teacher_forcing(attention: str, cell: str, bidirectional: bool) -> None:
    model, (sources, targets, mask) = _model(attention=attention, cell=cell, bidirectional=bidirectional), _inputs()
    with torch.no_grad():
        whole = model(sources, targets, mask).logits
        state = model.start(sources, mask)
        for position in range(L - 1):
            assert (model.step(targets[:, position], state) - whole[:, position]).abs().max() < 1e-5
        rows = torch.tensor([3, 1, 1])
        state.select(rows)
        assert (model.step(targets[rows, L - 1], state) - whole[rows, L - 1]).abs().max() < 1e-5


@kinds
@cells
def test_padding_changes_nothing(attention: str, cell: str) -> None:
    model, (sources, targets, mask) = _model(attention=attention, cell=cell), _inputs()
    together = model(sources, targets, mask)
    for row in range(B):
        length = int(mask[row].sum())
        alone = model(sources[row : row + 1, :length], targets[row : row + 1])
        assert (alone.logits[0] - together.logits[row]).abs().max() < 1e-5
        if attention != "none":
            assert (alone.attentions[0] - together.attentions[row, :, :length]).abs().max() < 1e-5
            assert together.attentions[row, :, length:].abs().sum() == 0


@pytest.mark.parametrize("attention", ["none", "additive", "dot"])
def test_decoder_by_hand(attention: str) -> None:
    """The formulas of the papers, one row and one step at a time, with our own cell."""
    model, (sources, targets, _) = _model(attention=attention, num_hidden_layers=1, bidirectional=False), _inputs()
    got = model(sources, targets)
    cell = {"encoder": GruCell(E, D), "decoder": GruCell(E + D, D)}
    for name, own in cell.items():
        layer = getattr(model, name)
        own.input.load_state_dict({"weight": layer.weight_ih_l0, "bias": layer.bias_ih_l0})
        own.hidden.load_state_dict({"weight": layer.weight_hh_l0, "bias": layer.bias_hh_l0})
    for row in range(B):
        memory, (state,) = unroll(cell["encoder"], model.source_embedding(sources[row])[None], (torch.zeros(1, D),))
        last = state[0]
        state = last
        for position in range(L):
            weights = torch.zeros(M)
            if attention == "dot":
                weights = (memory[0] @ state / D**0.5).softmax(0)
            elif attention == "additive":
                network = model.attention
                hidden = torch.tanh(network.query.weight @ state + memory[0] @ network.key.weight.T)
                weights = (hidden @ network.score.weight[0]).softmax(0)
            context = last if attention == "none" else weights @ memory[0]
            x = torch.cat([model.target_embedding(targets[row, position]), context])
            state = cell["decoder"](x[None], (state[None],))[0][0]
            logits = model.output(torch.tanh(model.readout(torch.cat([state, context]))))
            assert (logits - got.logits[row, position]).abs().max() < 1e-5
            if attention != "none":
                assert (weights - got.attentions[row, position]).abs().max() < 1e-5


def test_both_directions_of_the_encoder_are_those_of_two_encoders() -> None:
    model, (sources, _, _) = _model(num_hidden_layers=1), _inputs()
    state = model.start(sources)
    there, back = nn.GRU(E, D // 2, batch_first=True), nn.GRU(E, D // 2, batch_first=True)
    parameters = model.encoder.state_dict()
    there.load_state_dict({name: value for name, value in parameters.items() if "reverse" not in name})
    back.load_state_dict({name[:-8]: value for name, value in parameters.items() if "reverse" in name})
    x = model.source_embedding(sources)
    forward, backward = there(x)[0], back(x.flip(1))[0].flip(1)
    assert (state.memory - torch.cat([forward, backward], dim=-1)).abs().max() < 1e-6
    assert (state.hidden[0][-1] - torch.cat([forward[:, -1], backward[:, 0]], dim=-1)).abs().max() < 1e-6


@kinds
def test_searches_share_their_code_with_the_transformer(attention: str) -> None:
    model, (sources, _, mask) = _model(attention=attention), _inputs()
    greedy = greedy_search(model, sources, mask, max_length=8)
    beam = beam_search(model, sources, mask, beam_size=1, alpha=0.0, max_length=8)
    assert [hypothesis.ids for hypothesis in greedy] == [hypothesis.ids for hypothesis in beam]


def test_attention_learns_to_turn_a_sequence_round() -> None:
    torch.manual_seed(0)
    config = _config(hidden_size=32, embedding_size=16, num_hidden_layers=1, hidden_dropout_prob=0.0)
    model = Seq2Seq(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(250):
        sources = torch.randint(3, 19, (32, 6))
        targets = torch.cat([torch.ones(32, 1, dtype=torch.long), sources.flip(1)], dim=1)
        loss = functional.cross_entropy(model(sources, targets[:, :-1]).logits.flatten(0, 1), targets[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    sources = torch.randint(3, 19, (50, 6))
    targets = torch.cat([torch.ones(50, 1, dtype=torch.long), sources.flip(1)], dim=1)
    output = model.eval()(sources, targets[:, :-1])
    assert (output.logits.argmax(-1) == targets[:, 1:]).float().mean() > 0.95
    looked = output.attentions.mean(0).argmax(-1)
    assert (looked - torch.arange(5, -1, -1)).abs().max() <= 1


@pytest.mark.parametrize("changes", [{}, {"cell": "lstm", "attention": "dot"}, {"attention": "none"}])
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    model, (sources, targets, mask) = _model(**changes), _inputs()
    model.save_pretrained(tmp_path)
    loaded = Seq2Seq.from_pretrained(tmp_path)
    assert loaded.config == model.config
    assert torch.equal(loaded(sources, targets, mask).logits, model(sources, targets, mask).logits)


def test_another_configuration_is_one_line(tmp_path: Path) -> None:
    _model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"additive"', '"dot"'))
    with pytest.raises(UserError, match=r"the weights hold 'attention.key.weight', which the configuration has no"):
        Seq2Seq.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "rnn"}, "unknown cell 'rnn'"),
        ({"attention": "luong"}, "unknown attention 'luong'"),
        ({"hidden_size": 9}, "hidden_size 9 cannot be halved for two directions"),
        ({"embedding_size": 0}, "embedding_size is 0; it must be at least 1"),
    ],
)
def test_wrong_sizes_are_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _config(**changes)
