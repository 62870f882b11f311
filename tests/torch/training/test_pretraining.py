"""The pretraining loop: BERT and GPT learn in it, and no splitting of a step, no stop, no crash changes anything."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from d2lbert import UserError
from d2lbert.config import BertConfig, GptConfig
from d2lbert.data.pretraining import shards as shards_module
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.causal import CausalData
from d2lbert.data.pretraining.corpus import learn_vocabulary, read_documents
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.storage.checkpoints import DamagedCheckpointWarning
from d2lbert.torch.gpt import Gpt
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.training.pretraining import Pretrainable, Pretraining, Trainer

transformers = pytest.importorskip("transformers")

STATE = "state/shard-00001-model-00001-of-00001.safetensors"  # what torch.distributed.checkpoint calls the first part
QUICK = Pretraining(steps=12, learning_rate=3e-3, log_every=1, validate_every=6, save_every=4, validation_batches=3)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The networks are tiny: threads would wait for each other most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def shards(root: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    files = sorted((root / "data" / "samples" / "wikipedia_en").glob("*.txt"))
    folder = tmp_path_factory.mktemp("corpus")
    return prepare(files, folder, learn_vocabulary(files, 900), Preparation(dev_share=0.2, shard_characters=30_000))


def _trainer(
    shards: TokenShards,
    out: Path,
    settings: Pretraining = QUICK,
    batch_size: int = 8,
    dropout: float = 0.1,
    kind: str = "bert",
    packed: bool = True,
) -> Trainer:
    torch.manual_seed(settings.seed)
    examples = PretrainingSettings(
        max_length=40, batch_size=batch_size, seed=settings.seed, next_sentence=kind == "bert", packed=packed
    )
    data_class, model = (CausalData, _gpt(dropout)) if kind == "gpt" else (PretrainingData, _bert(dropout))
    data, dev = (data_class(shards, examples, split) for split in ("train", "dev"))
    return Trainer(model, data, dev, settings, out)


def _bert(dropout: float) -> Pretrainable:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), dropout)
    config = BertConfig(vocab_size=900, max_position_embeddings=48, initializer_range=0.05, **sizes, **rates)
    return BertForPretraining(config)


def _gpt(dropout: float) -> Pretrainable:
    sizes = {"n_positions": 48, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_inner": 64}
    special = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    return Gpt(GptConfig(vocab_size=900, initializer_range=0.05, **sizes, **special, **rates))


def _log(out: Path) -> list[dict[str, str]]:
    """The lines of the log, without the one column that is a time."""
    with (out / "log.csv").open() as stream:
        return [
            {name: value for name, value in row.items() if name != "tokens_per_second"}
            for row in csv.DictReader(stream)
        ]


def _bits(trainer: Trainer) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in trainer.model.state_dict().items()}


def test_it_learns(shards: TokenShards, tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, steps=150, validate_every=150, save_every=150, log_every=50)
    metrics = _trainer(shards, tmp_path, settings, batch_size=16).run(progress=False)
    rows = _log(tmp_path)
    assert [int(row["step"]) for row in rows] == [50, 100, 150]
    assert metrics["dev_masked_loss"] < 6.0  # a uniform guess has ln 900 = 6.8
    assert metrics["dev_masked_accuracy"] > 0.05
    assert float(rows[-1]["masked_loss"]) < float(rows[0]["masked_loss"])
    assert float(rows[-1]["dev_masked_loss"]) == metrics["dev_masked_loss"]


def test_gpt_learns_in_the_same_loop(shards: TokenShards, tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, steps=100, validate_every=100, save_every=100, log_every=50)
    metrics = _trainer(shards, tmp_path, settings, batch_size=16, kind="gpt").run(progress=False)
    rows = _log(tmp_path)
    assert list(rows[0]) == [
        *("step", "epoch", "tokens", "learning_rate", "next_token_loss", "dev_next_token_loss"),
        "dev_next_token_accuracy",
    ]
    assert metrics["dev_next_token_loss"] < 6.0  # a uniform guess has ln 900 = 6.8
    assert metrics["dev_next_token_accuracy"] > 0.05
    assert float(rows[-1]["dev_next_token_loss"]) == metrics["dev_next_token_loss"]


@pytest.mark.parametrize("kind", ["bert", "gpt"])
def test_packed_and_padded_rows_have_one_gradient(shards: TokenShards, tmp_path: Path, kind: str) -> None:
    gradients = []
    for packed in (True, False):
        trainer = _trainer(shards, tmp_path / str(packed), dropout=0.0, kind=kind, packed=packed)
        gradients.append(_gradient_of_a_step(trainer, trainer.data.batches()))
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-6), name


def test_a_step_of_many_gpt_batches_is_the_step_of_one(shards: TokenShards, tmp_path: Path) -> None:
    """Nothing is drawn at random, so four batches of four texts are the first batch of sixteen."""
    gradients = []
    for accumulation in (1, 4):
        settings = dataclasses.replace(QUICK, accumulation=accumulation)
        trainer = _trainer(shards, tmp_path / str(accumulation), settings, 16 // accumulation, 0.0, "gpt")
        gradients.append(_gradient_of_a_step(trainer, trainer.data.batches()))
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-6), name


def _gradient_of_a_step(trainer: Trainer, batches: Iterator[Any]) -> dict[str, torch.Tensor]:
    """Take a step that changes nothing, and return the gradients that it had."""
    trainer.optimizer.step = lambda: None  # type: ignore[method-assign, assignment]
    trainer.optimizer.zero_grad = lambda: None  # type: ignore[method-assign, assignment]
    trainer.train_step(batches)
    return {name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None}


def test_a_seed_gives_the_same_bits_and_another_seed_others(shards: TokenShards, tmp_path: Path) -> None:
    runs = []
    for number, seed in enumerate((5, 5, 6)):
        trainer = _trainer(shards, tmp_path / str(number), dataclasses.replace(QUICK, seed=seed))
        trainer.run(progress=False)
        runs.append(_bits(trainer))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize(("stop", "kind"), [(4, "bert"), (8, "bert"), (8, "gpt")])
def test_a_resumed_run_has_the_same_bits(shards: TokenShards, tmp_path: Path, stop: int, kind: str) -> None:
    whole = _trainer(shards, tmp_path / "whole", kind=kind)
    whole.run(progress=False)
    first = _trainer(shards, tmp_path / "cut", kind=kind)
    step = first.train_step

    def crash(batches: object) -> dict[str, float]:
        if first.step == stop + 2:  # two steps are lost, and their lines in the log are too many
            raise InterruptedError
        return step(batches)  # type: ignore[arg-type]

    first.train_step = crash  # type: ignore[method-assign]
    with pytest.raises(InterruptedError):
        first.run(progress=False)
    assert len(_log(tmp_path / "cut")) == stop + 2
    second = _trainer(shards, tmp_path / "cut", kind=kind)
    torch.manual_seed(99)  # whatever happened before in the process must not matter
    assert second.resume()
    assert second.step == stop
    second.run(progress=False)
    assert _bits(second) == _bits(whole)
    assert _log(tmp_path / "cut") == _log(tmp_path / "whole")
    names = [f"checkpoint-{step:08}" for step in (4, 8, 12)]
    for name in names:
        resumed, uncut = (tmp_path / run / "checkpoints" / name for run in ("cut", "whole"))
        for file in ("model.safetensors", "state.json"):
            assert (resumed / file).read_bytes() == (uncut / file).read_bytes(), (name, file)
        state, expected = load_file(resumed / STATE), load_file(uncut / STATE)  # their order in the file is random
        assert state.keys() == expected.keys()
        assert all(torch.equal(state[key], expected[key]) for key in expected), name


def test_nothing_to_resume_starts_anew(shards: TokenShards, tmp_path: Path) -> None:
    assert not _trainer(shards, tmp_path).resume()


def test_a_truncated_checkpoint_falls_back_to_the_one_before(shards: TokenShards, tmp_path: Path) -> None:
    whole = _trainer(shards, tmp_path)
    whole.run(progress=False)
    newest = tmp_path / "checkpoints" / "checkpoint-00000012" / STATE
    newest.write_bytes(newest.read_bytes()[:-100])
    again = _trainer(shards, tmp_path)
    with pytest.warns(DamagedCheckpointWarning, match=r"checkpoint-00000012 is damaged \(wrong sha256 of state/shard"):
        assert again.resume()
    assert again.step == 8
    again.run(progress=False)
    assert _bits(again) == _bits(whole)


def test_settings_must_be_those_of_the_run(shards: TokenShards, tmp_path: Path) -> None:
    _trainer(shards, tmp_path).run(progress=False)
    changed = [
        (
            _trainer(shards, tmp_path, dataclasses.replace(QUICK, learning_rate=1e-3)),
            "learning_rate was 0.003 and is now",
        ),
        (_trainer(shards, tmp_path, dataclasses.replace(QUICK, steps=20)), "steps was 12 and is now 20"),
        (_trainer(shards, tmp_path, batch_size=9), "data.batch_size was 8 and is now 9"),
        (_trainer(shards, tmp_path, dropout=0.2), "model.hidden_dropout_prob was 0.1 and is now 0.2"),
        (_trainer(shards, tmp_path, kind="gpt"), "data.next_sentence was True and is now False"),
    ]
    for trainer, message in changed:
        with pytest.raises(UserError, match=f"--resume: {message}"):
            trainer.resume()
    assert _trainer(shards, tmp_path, dataclasses.replace(QUICK, keep=1, log_every=5)).resume()


def test_a_step_of_many_batches_is_the_step_of_one(shards: TokenShards, tmp_path: Path) -> None:
    """Four batches of four pairs have the gradient of one of sixteen: each token and each pair weighs the same."""
    gradients = []
    for accumulation in (1, 4):
        settings = dataclasses.replace(QUICK, accumulation=accumulation)
        trainer = _trainer(shards, tmp_path / str(accumulation), settings, 16 // accumulation, dropout=0.0)
        # The masks depend on the number of the batch, so the batch of sixteen is put together from the four.
        batches = (
            list(_take(trainer, 4)) if accumulation == 4 else _joined(_take(_trainer(shards, tmp_path, QUICK, 4), 4))
        )
        gradients.append(_gradient_of_a_step(trainer, iter(batches)))
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-6), name


def _take(trainer: Trainer, count: int) -> list:  # type: ignore[type-arg]
    stream = trainer.data.batches()
    return [next(stream) for _ in range(count)]


def _joined(parts: list) -> list:  # type: ignore[type-arg]
    """One batch of the rows of several, padded to the same length."""
    import numpy as np

    from d2lbert.data.batching import Batch
    from d2lbert.data.pretraining.batches import PretrainingBatch

    length = max(batch.rows.token_ids.shape[1] for batch, _ in parts)
    grids: dict[str, list] = {}  # type: ignore[type-arg]
    positions, starts, first = [], [], 0
    for batch, _ in parts:
        rows, width = batch.rows.token_ids.shape
        for name in ("token_ids", "segment_ids", "mask", "position_ids", "sequence_ids"):
            grids.setdefault(name, []).append(np.pad(getattr(batch.rows, name), ((0, 0), (0, length - width))))
        positions.append((batch.masked_positions // width + first) * length + batch.masked_positions % width)
        starts.append(batch.rows.starts + np.array([first, 0]))
        first += rows
    rows = Batch(**{n: np.concatenate(g) for n, g in grids.items()}, starts=np.concatenate(starts), packed=True)
    ids, labels = (np.concatenate([getattr(b, n) for b, _ in parts]) for n in ("masked_ids", "next_labels"))
    return [(PretrainingBatch(rows, np.concatenate(positions), ids, labels), parts[-1][1])]


def test_a_checkpoint_is_a_model_folder(shards: TokenShards, tmp_path: Path) -> None:
    trainer = _trainer(shards, tmp_path)
    trainer.run(progress=False)
    folder = tmp_path / "checkpoints" / "checkpoint-00000012"
    model = transformers.BertForPreTraining.from_pretrained(folder)
    assert torch.equal(model.cls.predictions.bias, trainer.model.decoder_bias)
    assert transformers.BertTokenizerFast.from_pretrained(folder).vocab_size == 900
    gpt = _trainer(shards, tmp_path / "gpt", dataclasses.replace(QUICK, steps=4), kind="gpt")
    gpt.run(progress=False)
    twin = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt" / "checkpoints" / "checkpoint-00000004")
    assert torch.equal(twin.transformer.wte.weight, gpt.model.state_dict()["embeddings.word.weight"])
    state = json.loads((folder / "state.json").read_text())
    assert (state["step"], len(state["position"])) == (12, 3)


def test_a_loss_that_explodes_is_one_line(shards: TokenShards, tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, learning_rate=1e30, warmup=0.0, clip=1e30)
    with pytest.raises(UserError, match=r"the loss became nan at step \d+: lower the learning rate"):
        _trainer(shards, tmp_path, settings).run(progress=False)


@pytest.mark.parametrize(
    "change", [{"steps": 0}, {"learning_rate": float("nan")}, {"warmup": 1.5}, {"keep": 0}, {"accumulation": 0}]
)
def test_settings_that_cannot_be(change: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"pretraining: {next(iter(change))} is"):
        Pretraining(**change)


def test_bfloat16_is_another_run_with_nearly_the_same_losses(shards: TokenShards, tmp_path: Path) -> None:
    exact, rounded = QUICK, dataclasses.replace(QUICK, precision="bfloat16")
    losses = []
    for number, settings in enumerate((exact, rounded)):
        trainer = _trainer(shards, tmp_path / str(number), settings)
        trainer.run(progress=False)
        losses.append(trainer.validate()["dev_masked_loss"])
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
    with pytest.raises(UserError, match="precision was auto and is now bfloat16"):
        _trainer(shards, tmp_path / "0", rounded).resume()


def test_an_unknown_precision_of_pretraining_is_one_line() -> None:
    with pytest.raises(UserError, match="unknown precision 'half'"):
        Pretraining(precision="half")


def test_an_interrupted_run_ends_between_two_steps(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = _trainer(shards, tmp_path / "stopped")
    step = trainer.train_step

    def interrupted_at_the_second(batches: Any) -> dict[str, float]:
        trainer.interrupted = trainer.step == 1  # while the second step is in hand
        return step(batches)

    monkeypatch.setattr(trainer, "train_step", interrupted_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        trainer.run(progress=False)
    assert trainer.step == trainer.saved == 2
    again, whole = _trainer(shards, tmp_path / "stopped"), _trainer(shards, tmp_path / "whole")
    assert again.resume()
    assert again.step == again.saved == 2
    again.run(progress=False)
    whole.run(progress=False)
    assert _bits(again) == _bits(whole)
    assert _log(tmp_path / "stopped") == _log(tmp_path / "whole")


class _KilledError(BaseException):
    pass


@pytest.mark.parametrize("log_every", [1, 5])
@pytest.mark.parametrize("at", [4, 12])
def test_a_checkpoint_is_there_before_the_validation_of_its_step(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, log_every: int
) -> None:
    """Killed while it validates, a run loses no step, and its log no line."""
    settings = dataclasses.replace(QUICK, validate_every=4, log_every=log_every)
    whole, killed = (_trainer(shards, tmp_path / name, settings) for name in ("whole", "killed"))
    whole.run(progress=False)
    validate = killed.validate

    def kill() -> dict[str, float]:
        if killed.step == at:
            raise _KilledError
        return validate()

    monkeypatch.setattr(killed, "validate", kill)
    with pytest.raises(_KilledError):
        killed.run(progress=False)
    again = _trainer(shards, tmp_path / "killed", settings)
    assert again.resume()
    assert again.step == at
    metrics = again.run(progress=False)
    assert metrics["step"] == 12
    assert metrics["dev_masked_loss"] > 0
    assert _bits(again) == _bits(whole)
    assert _log(tmp_path / "killed") == _log(tmp_path / "whole")


def test_a_resumed_run_without_its_log_begins_a_new_one(shards: TokenShards, tmp_path: Path) -> None:
    _trainer(shards, tmp_path, dataclasses.replace(QUICK, steps=8)).run(progress=False)
    (tmp_path / "log.csv").unlink()
    numbers = tmp_path / "checkpoints" / "checkpoint-00000008" / "state.json"
    assert json.loads(numbers.read_text())["losses"]["masked_loss"] > 0
    again = _trainer(shards, tmp_path, dataclasses.replace(QUICK, steps=8))
    assert again.resume()
    assert again.run(progress=False)["dev_masked_loss"] > 0
    assert _log(tmp_path) == []


def test_data_without_batches_are_refused_beforehand(shards: TokenShards, tmp_path: Path) -> None:
    """Before there is a log, or a checkpoint: in the held-out part as in the other."""
    files = [tmp_path / "text"]
    files[0].write_text("\n\n".join(f"The cat {number} sat. The dog ran home." for number in range(100, 140)))
    lowest = min(shards_module._hash(document) for document in read_documents(files))
    few = prepare(files, tmp_path / "few", shards.tokenizer(), Preparation(dev_share=(lowest + 1) / 10_000))
    assert few.count("dev", "documents") == 1
    with pytest.raises(UserError, match=r"needs 2 dev documents of two sentences or more, and .*few has 1: prepare"):
        _trainer(few, tmp_path / "out")
    assert not (tmp_path / "out").exists()
