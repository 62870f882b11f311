"""The loop of ELMo's language model: it learns, and a stopped run ends like one that was not stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from d2lbert import UserError
from d2lbert.config import ElmoConfig
from d2lbert.data.elmo import SentenceBatches, word_vocabulary
from d2lbert.storage.checkpoints import DamagedCheckpointWarning
from d2lbert.torch.elmo import BidirectionalLanguageModel, Elmo
from d2lbert.torch.training import elmo as elmo_training
from d2lbert.torch.training.elmo import LanguageModelTraining, perplexities, train_language_model

CONFIG = ElmoConfig(
    char_embedding_size=4, filters=((1, 8), (2, 8)), max_characters=8, projection_size=12, hidden_size=16
)
SENTENCES = [["the", "cat", "sat"], ["the", "dog", "ran", "home"], ["a", "cat", "ran"], ["a", "dog", "sat"]] * 6
SETTINGS = LanguageModelTraining(epochs=2, learning_rate=0.02, save_every=3)


def start() -> tuple[BidirectionalLanguageModel, SentenceBatches]:
    torch.manual_seed(1)
    vocabulary = word_vocabulary(SENTENCES, 50)
    model = BidirectionalLanguageModel(Elmo(CONFIG), len(vocabulary), samples=4)
    return model, SentenceBatches(SENTENCES, vocabulary, CONFIG.max_characters, 20)


def test_the_perplexity_falls_in_both_directions() -> None:
    model, batches = start()
    before = perplexities(model, batches)
    settings = LanguageModelTraining(epochs=8, learning_rate=0.02, save_every=3)
    history = train_language_model(model, batches, settings, progress=False)
    after = perplexities(model, batches)
    assert before[0] > 1.5 * after[0] > 1.5
    assert before[1] > 1.5 * after[1] > 1.5
    assert history[-1]["words"] == 8 * sum(len(sentence) + 1 for sentence in SENTENCES)
    assert [record["step"] for record in history[:-1]] == list(range(3, history[-1]["step"], 3))


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, batches = start()
    expected = train_language_model(whole, batches, SETTINGS, progress=False)

    class StoppedError(Exception):
        pass

    calls, descend = [], elmo_training.descend

    def stop_at_the_eighth(*arguments: object) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 8:
            raise StoppedError
        return descend(*arguments)

    monkeypatch.setattr(elmo_training, "descend", stop_at_the_eighth)
    stopped, batches = start()
    with pytest.raises(StoppedError):
        train_language_model(stopped, batches, SETTINGS, tmp_path / "run", progress=False)
    again, batches = start()
    history = train_language_model(again, batches, SETTINGS, tmp_path / "run", progress=False)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    keys = ("step", "words", "forward", "backward")
    assert [[record[key] for key in keys] for record in history] == [[r[key] for key in keys] for r in expected]
    steps = history[-1]["step"]
    assert len(calls) == 8 + steps - 6  # six steps were saved, the seventh and eighth were lost


def test_a_checkpoint_without_a_part_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = elmo_training.save_checkpoint
    model, batches = start()
    with monkeypatch.context() as patched:
        patched.setattr(
            elmo_training, "save_checkpoint", lambda *run: save(*run[:3], {"model": run[3]["model"], "progress": []})
        )
        train_language_model(model, batches, SETTINGS, folder=tmp_path, progress=False)
    with pytest.raises(UserError, match=r"checkpoint-\d+ does not hold the state of this run \(KeyError\)"):
        train_language_model(model, batches, SETTINGS, folder=tmp_path, progress=False)


def test_a_foreign_checkpoint_is_one_line_and_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    model, batches = start()
    train_language_model(model, batches, SETTINGS, tmp_path / "run", progress=False)
    other = LanguageModelTraining(epochs=3, learning_rate=0.02, save_every=3)
    with pytest.raises(UserError, match="of another run: epochs was 2 and is now 3") as caught:
        train_language_model(model, batches, other, tmp_path / "run", progress=False)
    assert "\n" not in str(caught.value)
    foreign = SentenceBatches([*SENTENCES[:-1], ["a", "dog", "ran"]], batches.vocabulary, CONFIG.max_characters, 20)
    with pytest.raises(UserError, match=r"of another run: sentences was '\w+' and is now '\w+'"):
        train_language_model(model, foreign, SETTINGS, tmp_path / "run", progress=False)
    fewer = SentenceBatches(SENTENCES, batches.vocabulary, CONFIG.max_characters, 10)
    with pytest.raises(UserError, match="of another run: words_per_batch was 20 and is now 10"):
        train_language_model(model, fewer, SETTINGS, tmp_path / "run", progress=False)
    newest = sorted((tmp_path / "run").iterdir())[-1] / "state.pt"
    newest.write_bytes(newest.read_bytes()[:1000])
    again, batches = start()
    with pytest.warns(DamagedCheckpointWarning, match="going back to the one before"):
        train_language_model(again, batches, SETTINGS, tmp_path / "run", progress=False)
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_bad_settings_and_a_lost_loss_are_one_line() -> None:
    with pytest.raises(UserError, match="epochs is 0"):
        LanguageModelTraining(epochs=0)
    model, batches = start()
    with torch.no_grad():
        model.output.bias.fill_(torch.nan)
    with pytest.raises(UserError, match=r"the loss became nan at step \d+"):
        train_language_model(model, batches, SETTINGS, progress=False)


def test_a_last_step_that_ruins_the_weights_is_not_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model, batches = start()
    descend = elmo_training.descend

    def ruin(*arguments: object) -> torch.Tensor:
        loss = descend(*arguments)
        torch.nn.init.constant_(model.output.bias, float("nan"))
        return loss

    monkeypatch.setattr(elmo_training, "descend", ruin)
    settings = LanguageModelTraining(epochs=1, save_every=1)
    with pytest.raises(UserError, match=r"output\.bias became NaN or infinite at step 1: lower the learning rate$"):
        train_language_model(model, batches, settings, tmp_path, progress=False)
    assert not list(tmp_path.iterdir())
