"""Settings beyond rate and epochs: resuming, early stopping, layer decay, weights of labels, regression."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data import ScoredPair, Sentence
from d2lbert.data.batching import pack, pad
from d2lbert.storage.checkpoints import DamagedCheckpointWarning
from d2lbert.tasks.base import IGNORED, Loss
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.pair import PairRegression
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import to_tensors
from d2lbert.torch.training import finetuning
from d2lbert.torch.training.evaluation import evaluate
from d2lbert.torch.training.finetuning import Training, fine_tune
from d2lbert.torch.training.losses import by_token, compute_loss
from d2lbert.torch.training.optim import UncorrectedAdamW, layer_groups

WORDS = ["good", "fine", "bad", "poor", "film", "plot", "the", "a"]
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
TASK = Classification(["negative", "positive"])
QUICK = Training(epochs=4, batch_size=8, learning_rate=3e-3)


def _sentences(count: int, seed: int) -> list[Sentence]:
    generator = np.random.default_rng(seed)
    return [
        Sentence(f"the {WORDS[index]} {generator.choice(WORDS[4:])}", TASK.labels[int(index < 2)])
        for index in generator.integers(4, size=count)
    ]


def _model(labels: tuple[str, ...] = TASK.labels) -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(TOKENIZER.vocab), initializer_range=0.1, **sizes)
    return BertForSequenceClassification(BertModel(config), labels)


def _run(settings: Training, checkpoint: Path | None = None) -> tuple[dict[str, torch.Tensor], list[dict[str, float]]]:
    model = _model()
    data = _sentences(50, 1), _sentences(40, 2)
    history = fine_tune(model, TASK, TOKENIZER, *data, settings, progress=False, checkpoint=checkpoint)
    return model.state_dict(), history


def test_bfloat16_trains_nearly_the_same_model_in_float32_weights() -> None:
    exact, history = _run(QUICK)
    rounded, rounded_history = _run(dataclasses.replace(QUICK, precision="bfloat16"))
    assert _run(dataclasses.replace(QUICK, precision="auto"))[1][0]["loss"] == history[0]["loss"]  # on a processor
    assert rounded_history[0]["loss"] != history[0]["loss"]
    assert rounded_history[0]["loss"] == pytest.approx(history[0]["loss"], rel=1e-2)
    assert all(weight.dtype == exact[name].dtype for name, weight in rounded.items())
    assert rounded_history[-1]["accuracy"] == pytest.approx(history[-1]["accuracy"], abs=0.1)


def test_an_unknown_precision_is_one_line() -> None:
    with pytest.raises(UserError, match="unknown precision 'float16': did you mean bfloat16 or float32"):
        Training(precision="float16")


class Stopped(Exception):
    """The power failed."""


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, history = _run(QUICK)
    original, epochs = finetuning.train_epoch, []

    def fail_in_the_third_epoch(*arguments):
        epochs.append(0)
        if len(epochs) == 3:
            torch.rand(7)  # random numbers that the resumed run must not see
            raise Stopped
        return original(*arguments)

    monkeypatch.setattr(finetuning, "train_epoch", fail_in_the_third_epoch)
    with pytest.raises(Stopped):
        _run(QUICK, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-00000001", "checkpoint-00000002"]
    resumed, resumed_history = _run(QUICK, tmp_path)
    assert len(epochs) == 3 + 2
    assert [record["loss"] for record in resumed_history] == [record["loss"] for record in history]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_checkpoints_that_cannot_be_used(tmp_path: Path) -> None:
    _run(dataclasses.replace(QUICK, epochs=1), tmp_path)
    with pytest.raises(UserError, match=r"of another run: epochs was 1 and is now 4; give the same, or remove"):
        _run(QUICK, tmp_path)
    state = tmp_path / "checkpoint-00000001" / "state.pt"
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)
    with pytest.warns(DamagedCheckpointWarning), pytest.raises(UserError, match=r"is damaged: remove .* to start anew"):
        _run(dataclasses.replace(QUICK, epochs=1), tmp_path)


def test_patience_stops_a_run_that_no_longer_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = iter([0.0, 0.5, 0.7, 0.6, 0.7, 0.9])  # the first is taken before the training
    monkeypatch.setattr(Classification, "score", lambda *_: {"accuracy": next(accuracies), "f1": 0.0})
    _, history = _run(dataclasses.replace(QUICK, epochs=5, patience=2))
    assert [record["accuracy"] for record in history] == [0.5, 0.7, 0.6, 0.7]


def test_best_by_chooses_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [{"accuracy": 0.9, "f1": 0.1}, {"accuracy": 0.1, "f1": 0.9}]
    kept = {}
    for best_by in ("", "f1"):
        remaining = iter([scores[0], *scores])  # the first is taken before the training
        monkeypatch.setattr(Classification, "score", lambda *_, remaining=remaining: next(remaining))
        kept[best_by], _ = _run(dataclasses.replace(QUICK, epochs=2, best_by=best_by))
    assert not torch.equal(kept[""]["classifier.weight"], kept["f1"]["classifier.weight"])
    monkeypatch.setattr(Classification, "score", lambda *_: scores[0])
    with pytest.raises(UserError, match="unknown score best_by 'f2': did you mean f1"):
        _run(dataclasses.replace(QUICK, best_by="f2"))


def test_layer_decay_by_hand() -> None:
    model = _model()
    groups = layer_groups(model, 0.01, 1.0, 0.5)
    rates = {id(parameter): (group["lr"], group["weight_decay"]) for group in groups for parameter in group["params"]}
    assert len(rates) == len(list(model.parameters()))
    names = dict(model.named_parameters())
    assert rates[id(names["classifier.weight"])] == rates[id(names["bert.pooler.weight"])] == (1.0, 0.01)
    assert rates[id(names["bert.encoder.blocks.1.attention.query.weight"])] == (0.5, 0.01)
    assert rates[id(names["bert.encoder.blocks.0.attention.query.bias"])] == (0.25, 0.0)
    assert rates[id(names["bert.embeddings.word.weight"])] == (0.125, 0.01)


def test_layer_decay_moves_low_layers_less() -> None:
    start = _model().state_dict()
    moved = {}
    for decay in (1.0, 0.1):
        end, _ = _run(dataclasses.replace(QUICK, epochs=1, layer_decay=decay))
        moved[decay] = (end["bert.embeddings.word.weight"] - start["bert.embeddings.word.weight"]).abs().max()
    assert moved[0.1] < moved[1.0] / 20


def test_adam_without_bias_correction_by_hand() -> None:
    weight, rate, decay, epsilon = torch.nn.Parameter(torch.tensor([2.0, -1.0])), 0.1, 0.5, 1e-6
    optimizer = UncorrectedAdamW([weight], lr=rate, weight_decay=decay, eps=epsilon)
    expected, first, second = np.array([2.0, -1.0]), np.zeros(2), np.zeros(2)
    for gradient in (np.array([3.0, -0.2]), np.array([-1.0, 0.0])):
        weight.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        expected = expected - rate * (first / (np.sqrt(second) + epsilon) + decay * expected)
        assert weight.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_uncorrected_steps_are_the_corrected_ones_at_a_higher_rate() -> None:
    """The factor of the docstring: 6.6 at most, more than 3 for the first hundred steps."""
    steps = np.arange(1, 101)
    factors = (1 - 0.9**steps) / np.sqrt(1 - 0.999**steps)
    assert factors.max() == pytest.approx(6.57, abs=0.01)
    assert factors[-1] > 3
    plain, corrected = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    optimizers = (
        UncorrectedAdamW([plain], lr=0.01, weight_decay=0.0, eps=1e-12),
        torch.optim.AdamW([corrected], lr=0.01, weight_decay=0.0, eps=1e-12),
    )
    generator = torch.Generator().manual_seed(0)
    for factor in factors[:20]:
        before = plain.detach().clone(), corrected.detach().clone()
        gradient = torch.randn(3, generator=generator)
        for parameter, optimizer in zip((plain, corrected), optimizers, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
        assert torch.allclose(plain - before[0], float(factor) * (corrected - before[1]), rtol=1e-4)


def test_bias_correction_is_on_unless_it_is_switched_off(tmp_path: Path) -> None:
    by_default, _ = _run(dataclasses.replace(QUICK, epochs=1))
    with_it, _ = _run(dataclasses.replace(QUICK, epochs=1, bias_correction=True))
    settings = dataclasses.replace(QUICK, epochs=2, bias_correction=False)
    without, history = _run(settings, tmp_path)
    assert torch.equal(by_default["classifier.weight"], with_it["classifier.weight"])
    start = _model().state_dict()["bert.embeddings.word.weight"]
    moved = [(end["bert.embeddings.word.weight"] - start).abs().mean() for end in (without, with_it)]
    assert moved[0] > 1.5 * moved[1]
    _, again = _run(settings, tmp_path)  # the moments are in the checkpoint
    assert [record["loss"] for record in again] == [record["loss"] for record in history]


def test_balanced_weights_are_inverse_to_frequency() -> None:
    sentences = [Sentence("good film", "positive")] * 6 + [Sentence("bad film", "negative")] * 2
    inputs = TASK.inputs(sentences, TOKENIZER, 8)
    weights = finetuning._class_weights(TASK, inputs, "cpu")
    assert weights.tolist() == pytest.approx([8 / (2 * 2), 8 / (2 * 6)])
    batch = pack([item.encodings[0] for item in inputs])
    logits = torch.zeros(8, 2)
    logits[:, 1] = 1.0
    loss = compute_loss(Loss.LABEL, logits, [item.target for item in inputs], batch, weights)
    surprise = np.log(1 + np.e) - np.array([0.0, 1.0])
    assert float(loss) == pytest.approx(surprise.mean())  # both labels count the same
    with pytest.raises(UserError, match="balanced weighs labels"):
        finetuning._class_weights(PairRegression(), inputs, "cpu")


def test_regression_learns_to_count_praise_in_both_texts() -> None:
    generator = np.random.default_rng(3)
    pairs = []
    for _ in range(200):
        first, second = generator.choice(["good", "bad"], 2)
        score = 2.5 * ((first == "good") + (second == "good"))
        pairs.append(ScoredPair(f"the {first} film", f"a {second} film", score))
    model, task = _model(("score",)), PairRegression()
    settings = Training(epochs=12, batch_size=8, learning_rate=5e-3)
    history = fine_tune(model, task, TOKENIZER, pairs[:160], pairs[160:], settings, progress=False)
    assert history[-1]["loss"] < 0.5
    assert history[-1]["mean_squared_error"] < 0.5  # the scores have a variance of 3
    scores, predictions = evaluate(model, task, TOKENIZER, pairs[160:])
    assert scores["spearman"] == max(record["spearman"] for record in history) > 0.95
    assert len(predictions) == 40
    assert all(np.isfinite(prediction["score"]) for prediction in predictions)


@pytest.mark.parametrize("collate", [pack, pad])
def test_logits_of_tokens_come_out_in_the_order_of_the_texts(collate) -> None:
    encodings = TOKENIZER.encode_batch(["good film", "the bad plot a", "poor"])
    batch = collate(encodings)
    ids = to_tensors(batch).token_ids
    flat = by_token(ids[..., None].float(), batch)[:, 0]
    assert flat.tolist() == [index for encoding in encodings for index in encoding.ids]
    # A loss over tokens: those without a label count for nothing.
    logits = torch.nn.functional.one_hot(ids, len(TOKENIZER.vocab)).float() * 50
    targets = [np.array(encoding.ids) for encoding in encodings]
    assert float(compute_loss(Loss.TOKENS, logits, targets, batch)) < 1e-6
    targets[1][2] = 0
    assert float(compute_loss(Loss.TOKENS, logits, targets, batch)) == pytest.approx(50 / 13, rel=1e-3)
    targets[1][2] = IGNORED
    assert float(compute_loss(Loss.TOKENS, logits, targets, batch)) < 1e-6


@pytest.mark.parametrize("change", [{"layer_decay": 0.0}, {"layer_decay": 1.5}, {"patience": -1}])
def test_settings_that_cannot_be(change: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"training: {next(iter(change))} is"):
        Training(**change)
