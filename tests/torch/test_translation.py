"""The loop: both kinds of model learn in it, and a run that was interrupted ends like one that was not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from d2lbert import UserError
from d2lbert.config import Seq2SeqConfig, TransformerConfig
from d2lbert.data import Translation
from d2lbert.data.translation import EncodedPair, PairBatches, encode_pairs, learn_vocabulary
from d2lbert.storage.checkpoints import DamagedCheckpointWarning
from d2lbert.torch import translation
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer
from d2lbert.torch.translation import SequenceTraining, evaluate_sequences, train_sequences, translate

V = 17
SETTINGS = SequenceTraining(
    steps=12, tokens=60, learning_rate=0.01, warmup_steps=4, label_smoothing=0.1, evaluate_every=4, seed=5
)


# A rate that grows and grows: on every processor each evaluation is far worse than the first.
DIVERGING = replace(SETTINGS, steps=24, learning_rate=5.0, warmup_steps=24)


def _model(kind: str, vocabulary: int = V, dropout: float = 0.1) -> Any:
    torch.manual_seed(0)
    if kind == "transformer":
        sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
        return Transformer(TransformerConfig(vocabulary, vocabulary, 32, hidden_dropout_prob=dropout, **sizes))
    return Seq2Seq(Seq2SeqConfig(vocabulary, vocabulary, 32, embedding_size=16, hidden_dropout_prob=dropout))


def _pairs(count: int, seed: int) -> list[EncodedPair]:
    """Copy what is there: the easiest task."""
    generator = np.random.default_rng(seed)
    texts = [generator.integers(3, V, generator.integers(1, 8)).tolist() for _ in range(count)]
    return [EncodedPair([*text, 2], [1, *text, 2]) for text in texts]


def _train(model: Any, settings: SequenceTraining = SETTINGS, **options: Any) -> list[dict[str, float]]:
    return train_sequences(model, _pairs(70, 0), _pairs(20, 1), settings, progress=False, **options)


kinds = pytest.mark.parametrize("kind", ["transformer", "seq2seq"])


@kinds
def test_both_kinds_learn_to_translate_word_for_word(kind: str) -> None:
    words = {"one": "eins", "two": "zwei", "three": "drei", "dog": "Hund", "cat": "Katze", "red": "rot"}
    generator = np.random.default_rng(0)
    drawn = [generator.choice(list(words), generator.integers(1, 5)).tolist() for _ in range(300)]
    examples = [Translation(" ".join(text), " ".join(words[word] for word in text)) for text in drawn]
    tokenizer = learn_vocabulary(examples, 60)
    pairs = encode_pairs(examples, tokenizer)
    model = _model(kind, len(tokenizer), dropout=0.0)
    settings = SequenceTraining(400, tokens=300, learning_rate=0.01, warmup_steps=50, label_smoothing=0.0)
    history = train_sequences(model, pairs[:250], pairs[250:], settings, progress=False)
    assert [record["step"] for record in history] == [250, 400]
    assert history[-1]["dev_loss"] < 0.2
    texts, references = zip(*((example.source, example.target) for example in examples[250:]), strict=True)
    translations = translate(model, tokenizer, texts, beam_size=2, batch_size=16)
    correct = [text == reference for text, reference in zip(translations, references, strict=True)]
    assert np.mean(correct) > 0.9


@kinds
def test_an_interrupted_run_ends_like_an_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    assert 8 % len(PairBatches(_pairs(70, 0), SETTINGS.tokens)), "the break must fall into an epoch"
    whole, broken = _model(kind), _model(kind)
    expected = _train(whole, folder=tmp_path / "whole")
    _train(broken, replace(SETTINGS, steps=8), folder=tmp_path / "broken")
    torch.manual_seed(99)  # what happens between must not matter
    again = _model(kind)
    for parameter in again.parameters():
        torch.nn.init.normal_(parameter)
    history = _train(again, folder=tmp_path / "broken", resume=True)
    assert len(history) == 3
    for record, resumed in zip(expected, history, strict=True):
        assert {**record, "seconds": 0} == {**resumed, "seconds": 0}
    assert history[2]["seconds"] > history[1]["seconds"] > 0
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    assert (tmp_path / "whole/model.safetensors").read_bytes() == (tmp_path / "broken/model.safetensors").read_bytes()


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    model = _model("seq2seq")
    history = _train(model, DIVERGING, folder=tmp_path)
    losses = [record["dev_loss"] for record in history]
    assert min(losses) < losses[-1], "a learning rate far too high must make the last evaluation a bad one"
    assert evaluate_sequences(model, _pairs(20, 1)) == pytest.approx(min(losses), abs=1e-6)
    assert not model.training
    best = Seq2Seq.from_pretrained(tmp_path)
    assert evaluate_sequences(best, _pairs(20, 1)) == pytest.approx(min(losses), abs=1e-6)


def test_the_best_weights_outlive_a_break(tmp_path: Path) -> None:
    _train(_model("seq2seq"), DIVERGING, folder=tmp_path)
    model = _model("seq2seq")
    history = _train(model, replace(DIVERGING, steps=28), folder=tmp_path, resume=True)
    losses = [record["dev_loss"] for record in history]
    assert min(losses) < min(losses[-2:]), "the best evaluation must lie before the break"
    assert evaluate_sequences(model, _pairs(20, 1)) == pytest.approx(min(losses), abs=1e-6)


@kinds
def test_loss_on_dev_is_the_mean_over_tokens(kind: str) -> None:
    model, pairs = _model(kind).eval(), _pairs(9, 4)
    total, tokens = 0.0, 0
    for pair in pairs:
        target = torch.tensor([pair.target])
        logits = model(torch.tensor([pair.source]), target[:, :-1]).logits.detach()
        total += float(functional.cross_entropy(logits[0], target[0, 1:], reduction="sum"))
        tokens += len(pair.target) - 1
    assert evaluate_sequences(model, pairs) == pytest.approx(total / tokens, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.02}, "of another run: learning_rate was 0.01 and is now 0.02; give the same, or remove"),
        ({"seed": 6}, "of another run: seed was 5 and is now 6"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    _train(_model("seq2seq"), folder=tmp_path)
    with pytest.raises(UserError, match=message):
        _train(_model("seq2seq"), replace(SETTINGS, **change), folder=tmp_path, resume=True)


def test_a_rate_that_falls_to_nothing_at_the_last_step() -> None:
    settings = replace(SETTINGS, decay="linear")
    assert [settings.rate_factor(step) for step in (0, 3, 4, 8, 12)] == [0.25, 1, 1, 0.5, 0]
    assert [SETTINGS.rate_factor(step) for step in (0, 3, 15)] == [0.25, 1, 0.5]
    starts = []
    for steps in (4, 8):  # four steps of warm-up, and four in which the rate falls
        model = _model("seq2seq", dropout=0.0)
        _train(model, replace(settings, steps=steps))
        starts.append([value.clone() for value in model.parameters()])
    again = _model("seq2seq", dropout=0.0)
    _train(again, replace(SETTINGS, steps=4))
    assert all(torch.equal(one, two) for one, two in zip(starts[0], again.parameters(), strict=True))
    root = _model("seq2seq", dropout=0.0)
    _train(root, replace(SETTINGS, steps=8))
    assert not all(torch.equal(one, two) for one, two in zip(starts[1], root.parameters(), strict=True))


def test_steps_may_change_only_where_the_rate_does_not_end_with_them(tmp_path: Path) -> None:
    settings = replace(SETTINGS, decay="linear")
    _train(_model("seq2seq"), settings, folder=tmp_path)
    with pytest.raises(UserError, match="of another run: steps was 12 and is now 16"):
        _train(_model("seq2seq"), replace(settings, steps=16), folder=tmp_path, resume=True)


def test_a_checkpoint_of_other_pairs_is_refused(tmp_path: Path) -> None:
    _train(_model("seq2seq"), folder=tmp_path)
    for train, dev, name in [(_pairs(70, 9), _pairs(20, 1), "train"), (_pairs(70, 0), _pairs(20, 9), "dev")]:
        with pytest.raises(UserError, match=rf"of another run: {name} was '\w+' and is now '\w+'"):
            train_sequences(_model("seq2seq"), train, dev, SETTINGS, folder=tmp_path, resume=True, progress=False)


def test_a_new_run_does_not_push_out_the_checkpoints_of_another(tmp_path: Path) -> None:
    _train(_model("seq2seq"), folder=tmp_path)
    before = sorted((tmp_path / "checkpoints").iterdir())
    with pytest.raises(UserError, match="holds the checkpoints of a run: resume it, or choose another folder"):
        _train(_model("seq2seq"), replace(SETTINGS, steps=4), folder=tmp_path)
    assert sorted((tmp_path / "checkpoints").iterdir()) == before


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    _train(_model("seq2seq"), folder=tmp_path)
    with pytest.raises(UserError, match="of another run: model_type was 'seq2seq' and is now 'transformer'"):
        _train(_model("transformer"), folder=tmp_path, resume=True)


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.999])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, fraction: float) -> None:
    _train(_model("seq2seq"), folder=tmp_path)
    for path in (tmp_path / "checkpoints").glob("*/state.pt"):
        content = bytearray(path.read_bytes())
        content[int(fraction * len(content))] ^= 64
        path.write_bytes(content)
    with (
        pytest.warns(DamagedCheckpointWarning, match="wrong sha256"),
        pytest.raises(UserError, match=r"every checkpoint in .* is damaged: remove") as caught,
    ):
        _train(_model("seq2seq"), folder=tmp_path, resume=True)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_without_a_part_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = translation.save_checkpoint
    with monkeypatch.context() as patched:
        patched.setattr(translation, "save_checkpoint", lambda *run: save(*run[:3], {**run[3], "run": {"steps": 3}}))
        _train(_model("seq2seq"), folder=tmp_path)
    with pytest.raises(UserError, match=r"checkpoint-\d+ does not hold the state of this run \(TypeError\)"):
        _train(_model("seq2seq"), folder=tmp_path, resume=True)


def test_what_cannot_be_resumed_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="start the run without resume"):
        _train(_model("seq2seq"), folder=tmp_path, resume=True)
    with pytest.raises(UserError, match="to resume needs the folder of the run"):
        _train(_model("seq2seq"), resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps is 0; it must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan; it must be above 0"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0; it must be at least 0 and below 1"),
        ({"seed": -1}, "seed is -1"),
        ({"decay": "cosine"}, "unknown decay 'cosine'"),
    ],
)
def test_wrong_settings_are_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(SETTINGS, **change)


def test_a_loss_that_is_no_number_is_one_line() -> None:
    model = _model("seq2seq")
    torch.nn.init.constant_(model.output.bias, float("nan"))
    with pytest.raises(UserError, match=r"the loss became nan at step \d+: lower the learning rate"):
        _train(model)


def test_a_last_step_that_ruins_the_weights_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The loss of the step is finite, the weights that it makes are not."""
    model, step = _model("transformer"), translation.train_step

    def ruin(*arguments: Any) -> torch.Tensor:
        loss = step(*arguments)
        torch.nn.init.constant_(model.output.weight, float("inf"))
        return loss

    monkeypatch.setattr(translation, "train_step", ruin)
    with pytest.raises(UserError, match=r" became NaN or infinite at step 1: lower the learning rate$"):
        _train(model, replace(SETTINGS, steps=1), folder=tmp_path)
    assert not list(tmp_path.iterdir())
