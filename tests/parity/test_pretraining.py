"""BertForPretraining equals transformers.BertForPreTraining: logits, losses, gradients, folders; bugs are caught."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from parity_support import BatchOfIds, small_config
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.data.batching import pack, pad
from d2lbert.outputs import PretrainingOutput, Rows
from d2lbert.torch.bert import BertModel
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_tensors
from d2lbert.torch.training import losses

transformers = pytest.importorskip("transformers")

LENGTHS = (5, 17, 3, 30, 11, 2, 24, 8)
NEXT_LABELS = torch.tensor([0, 1, 1, 0, -100, 1, 0, -100])
TOLERANCE = 1e-5


@pytest.fixture
def models() -> tuple[Any, BertForPretraining]:
    return _models()


def _models(**changes: Any) -> tuple[Any, BertForPretraining]:
    """The reference with random parameters, and ours with the same ones."""
    config = small_config(**changes)
    sizes = {name: value for name, value in config.to_dict().items() if name not in ("architectures", "model_type")}
    reference = transformers.BertForPreTraining(transformers.BertConfig(**sizes, attn_implementation="eager"))
    randomize(reference, seed=11)
    ours = BertForPretraining(config)
    state = {name.removeprefix("bert."): value.numpy() for name, value in reference.state_dict().items()}
    ours.load_tensors(state, "the reference")
    return reference.eval(), ours.eval()


def _encodings() -> list[Any]:
    generator = np.random.default_rng(3)
    return [BatchOfIds.encoding(generator, length) for length in LENGTHS]


def _masked_positions() -> list[list[int]]:
    """Positions of the masked tokens in each text; one text has none, one has its first token."""
    generator = np.random.default_rng(4)
    positions = [sorted(generator.choice(length, max(1, length // 4), replace=False).tolist()) for length in LENGTHS]
    positions[2], positions[6] = [], [0, 5, 23]
    return positions


def _inputs(collate: Callable[..., Any]) -> tuple[Rows[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Tensors of a batch with masked positions, text by text, and the ids to predict."""
    batch = collate(_encodings())
    length = batch.token_ids.shape[1]
    positions = [
        row * length + column + position
        for (row, column), masked in zip(batch.starts, _masked_positions(), strict=True)
        for position in masked
    ]
    targets = torch.from_numpy(np.random.default_rng(5).integers(1, 101, len(positions)))
    return to_tensors(batch), torch.tensor(positions), targets


def _packed(encodings: list[Any]) -> Any:
    return pack(encodings, width=37)


def _expected(reference: Any, targets: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """What the reference computes, on padded rows: its output, labels (B, L), positions (P,)."""
    inputs, positions, _ = _inputs(pad)
    labels = torch.full_like(inputs.token_ids, -100)
    labels.view(-1)[positions] = targets
    output = reference(
        input_ids=inputs.token_ids,
        token_type_ids=inputs.segment_ids,
        attention_mask=inputs.mask,
        labels=labels,
        next_sentence_label=NEXT_LABELS,
    )
    return output, labels, positions


def _differences(reference: Any, ours: BertForPretraining, collate: Callable[..., Any]) -> dict[str, float]:
    """Largest differences of logits, of the loss, and of every gradient."""
    inputs, positions, targets = _inputs(collate)
    expected, _, padded_positions = _expected(reference, targets)
    logits = ours.objectives(inputs, positions)
    parts = losses.pretraining_losses(logits, {"masked": targets, "next_sentence": NEXT_LABELS})
    total = parts["masked"] + parts["next_sentence"]
    differences = {
        "token logits": expected.prediction_logits.flatten(0, 1)[padded_positions] - logits["masked"],
        "next logits": expected.seq_relationship_logits - logits["next_sentence"],
        "loss": expected.loss - total,
    }
    reference.zero_grad()
    ours.zero_grad()
    expected.loss.backward()
    total.backward()
    expected_gradients = {name: value.grad for name, value in reference.named_parameters()}
    gradients = _gradients(ours)
    assert set(gradients) == set(expected_gradients)
    differences |= {name: expected_gradients[name] - gradients[name] for name in expected_gradients}
    return {name: float(value.detach().abs().max()) for name, value in differences.items()}


def _gradients(ours: BertForPretraining) -> dict[str, torch.Tensor]:
    """Our gradients under the reference's names: swap them in for the values, and take the tensors out."""
    values = {name: parameter.data for name, parameter in ours.named_parameters()}
    for parameter in ours.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    gradients = {name: torch.from_numpy(array.copy()) for name, array in ours.tensors().items()}
    for name, parameter in ours.named_parameters():
        parameter.data = values[name]
    return gradients


@pytest.mark.parametrize("collate", [pad, _packed])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_logits_losses_and_all_gradients(collate: Callable[..., Any], activation: str) -> None:
    differences = _differences(*_models(hidden_act=activation), collate)
    assert len(differences) > 50
    assert max(differences.values()) < TOLERANCE, differences


def test_each_loss_by_itself(models: tuple[Any, BertForPretraining]) -> None:
    reference, ours = models
    inputs, positions, targets = _inputs(_packed)
    expected, labels, _ = _expected(reference, targets)
    logits = ours.objectives(inputs, positions)
    parts = losses.pretraining_losses(logits, {"masked": targets, "next_sentence": NEXT_LABELS})
    cross_entropy = torch.nn.functional.cross_entropy
    masked = cross_entropy(expected.prediction_logits.flatten(0, 1), labels.flatten())
    follows = cross_entropy(expected.seq_relationship_logits, NEXT_LABELS)
    assert abs(float((masked - parts["masked"]).detach())) < TOLERANCE
    assert abs(float((follows - parts["next_sentence"]).detach())) < TOLERANCE


def test_logits_of_every_position(models: tuple[Any, BertForPretraining]) -> None:
    reference, ours = models
    inputs, positions, targets = _inputs(pad)
    expected, _, _ = _expected(reference, targets)
    output = ours(inputs)
    kept = inputs.mask.bool()
    assert (expected.prediction_logits - output.token_logits)[kept].abs().max() < TOLERANCE
    assert (expected.seq_relationship_logits - output.next_logits).abs().max() < TOLERANCE
    alone = ours(inputs, masked_positions=positions)
    assert (output.token_logits.flatten(0, 1)[positions] - alone.token_logits).abs().max() < TOLERANCE
    assert (output.next_logits - alone.next_logits).abs().max() < TOLERANCE


def test_nothing_masked_and_no_label_is_loss_zero(models: tuple[Any, BertForPretraining]) -> None:
    """The mean of nothing would be NaN and spoil the weights."""
    _, ours = models
    inputs, _, _ = _inputs(_packed)
    nothing = torch.zeros(0, dtype=torch.long)
    unlabelled = {"masked": nothing, "next_sentence": torch.full((8,), -100)}
    parts = losses.pretraining_losses(ours.objectives(inputs, nothing), unlabelled)
    assert (float(parts["masked"]), float(parts["next_sentence"])) == (0.0, 0.0)
    (parts["masked"] + parts["next_sentence"]).backward()
    gradients = [parameter.grad for parameter in ours.parameters() if parameter.grad is not None]
    assert all((gradient == 0).all() for gradient in gradients)


def test_folders_go_both_ways(models: tuple[Any, BertForPretraining], tmp_path: Path) -> None:
    reference, ours = models
    ours.save_pretrained(tmp_path / "ours")
    loaded, info = transformers.BertForPreTraining.from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert max(_differences(loaded.eval(), ours, pad).values()) < TOLERANCE
    reference.save_pretrained(tmp_path / "theirs")
    back = BertForPretraining.from_pretrained(tmp_path / "theirs")
    for name, value in ours.state_dict().items():
        assert torch.equal(value, back.state_dict()[name]), name
    assert torch.equal(BertModel.from_pretrained(tmp_path / "ours").pooler.weight, ours.bert.pooler.weight)


def test_half_the_bits_half_the_file(models: tuple[Any, BertForPretraining], tmp_path: Path) -> None:
    models[1].save_pretrained(tmp_path / "full")
    models[1].save_pretrained(tmp_path / "half", half=True)
    sizes = [(tmp_path / kind / "model.safetensors").stat().st_size for kind in ("full", "half")]
    assert 0.45 < sizes[1] / sizes[0] < 0.75  # the header stays
    for name, value in BertForPretraining.from_pretrained(tmp_path / "half").state_dict().items():
        torch.testing.assert_close(value, models[1].state_dict()[name], atol=1e-3, rtol=1e-3)


def test_an_encoder_without_heads_is_refused(models: tuple[Any, BertForPretraining], tmp_path: Path) -> None:
    models[1].bert.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="lacks 7 of 7 tensors"):
        BertForPretraining.from_pretrained(tmp_path)


def transform_norm_missing(model: BertForPretraining, _: pytest.MonkeyPatch) -> None:
    model.norm = torch.nn.Identity()  # type: ignore[assignment]


def transform_activation_missing(model: BertForPretraining, _: pytest.MonkeyPatch) -> None:
    model.activation = lambda x: x


def wrong_epsilon(model: BertForPretraining, _: pytest.MonkeyPatch) -> None:
    model.norm.eps = 1e-5


def decoder_bias_missing(model: BertForPretraining, _: pytest.MonkeyPatch) -> None:
    model.decoder_bias.data.zero_()


def decoder_untied(model: BertForPretraining, _: pytest.MonkeyPatch) -> None:
    """The same numbers, but the gradient of the decoder does not reach the embeddings."""
    forward = torch.nn.functional.linear
    weight = model.bert.embeddings.word.weight

    def logits(states: torch.Tensor) -> torch.Tensor:
        return forward(model.norm(model.activation(model.dense(states))), weight.detach(), model.decoder_bias)

    model.token_logits = logits  # type: ignore[method-assign]


def next_sentence_without_pooler(model: BertForPretraining, _: pytest.MonkeyPatch) -> None:
    model.bert.pooler = torch.nn.Identity()  # type: ignore[assignment]


def one_position_off(model: BertForPretraining, _: pytest.MonkeyPatch) -> None:
    forward = model.forward
    model.forward = lambda *a, masked_positions, **b: forward(*a, masked_positions=masked_positions + 1, **b)  # type: ignore[method-assign]


def packed_texts_see_each_other(model: BertForPretraining, _: pytest.MonkeyPatch) -> None:
    forward = model.forward

    def leaky(rows: Rows[torch.Tensor], **rest: Any) -> PretrainingOutput[torch.Tensor]:
        return forward(dataclasses.replace(rows, sequence_ids=rows.sequence_ids.clamp(max=1)), **rest)

    model.forward = leaky  # type: ignore[method-assign]


def positions_run_through_the_row(model: BertForPretraining, _: pytest.MonkeyPatch) -> None:
    forward = model.forward
    model.forward = lambda rows, **rest: forward(dataclasses.replace(rows, position_ids=None), **rest)  # type: ignore[method-assign]


def _with_other_labels(monkeypatch: pytest.MonkeyPatch, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Let the loss of the next sentence see other labels."""
    right = losses.pretraining_losses

    def wrong(logits: dict[str, torch.Tensor], targets: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return right(logits, {**targets, "next_sentence": change(targets["next_sentence"])})

    monkeypatch.setattr(losses, "pretraining_losses", wrong)


def shared_ignore_of_zero(_: BertForPretraining, monkeypatch: pytest.MonkeyPatch) -> None:
    """NSP never sees a true pair: its accuracy stays at one half."""
    _with_other_labels(monkeypatch, lambda labels: torch.where(labels == 0, -100, labels))


def labels_inverted(_: BertForPretraining, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_other_labels(monkeypatch, lambda labels: torch.where(labels >= 0, 1 - labels, labels))


def unlabelled_pairs_counted(_: BertForPretraining, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_other_labels(monkeypatch, lambda labels: labels.clamp(min=0))


BUGS = [
    transform_norm_missing,
    transform_activation_missing,
    wrong_epsilon,
    decoder_bias_missing,
    decoder_untied,
    next_sentence_without_pooler,
    one_position_off,
    packed_texts_see_each_other,
    positions_run_through_the_row,
    shared_ignore_of_zero,
    labels_inverted,
    unlabelled_pairs_counted,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_bug_is_caught(
    bug: Callable[[BertForPretraining, pytest.MonkeyPatch], None],
    models: tuple[Any, BertForPretraining],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference, ours = models
    bug(ours, monkeypatch)
    inputs, positions, targets = _inputs(_packed)
    expected, _, padded_positions = _expected(reference, targets)
    logits = ours.objectives(inputs, positions)
    # Looked up in the module at each call, so that a bug can replace it.
    parts = losses.pretraining_losses(logits, {"masked": targets, "next_sentence": NEXT_LABELS})
    total = parts["masked"] + parts["next_sentence"]
    expected.loss.backward()
    total.backward()
    word = reference.bert.embeddings.word_embeddings.weight.grad - ours.bert.embeddings.word.weight.grad
    differences = [
        expected.prediction_logits.flatten(0, 1)[padded_positions] - logits["masked"],
        expected.seq_relationship_logits - logits["next_sentence"],
        expected.loss - total,
        word,
    ]
    assert max(float(value.detach().abs().max()) for value in differences) > TOLERANCE
