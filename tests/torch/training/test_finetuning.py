"""The fine-tuning loop on a tiny encoder: it learns, repeats itself for a seed, and packing changes nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data import Sentence
from d2lbert.tasks.classification import Classification
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.training.evaluation import compute_logits, evaluate, predict
from d2lbert.torch.training.finetuning import History, Training, fine_tune
from d2lbert.torch.training.optim import linear_warmup_and_decay

WORDS = ["good", "fine", "bad", "poor", "film", "plot", "the", "a"]
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
TASK = Classification(["negative", "positive"])
QUICK = Training(epochs=6, batch_size=8, learning_rate=3e-3)


def _sentences(count: int, seed: int) -> list[Sentence]:
    """The label is in one word; its place and its company vary."""
    generator = np.random.default_rng(seed)
    examples = []
    for _ in range(count):
        label = int(generator.integers(2))
        words = list(generator.choice(WORDS[4:], int(generator.integers(1, 7))))
        words.insert(int(generator.integers(len(words) + 1)), WORDS[int(generator.integers(2)) + 2 * (1 - label)])
        examples.append(Sentence(" ".join(words), TASK.labels[label]))
    return examples


def _model(seed: int = 0, dropout: float = 0.1) -> BertForSequenceClassification:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(TOKENIZER.vocab),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.1,
    )
    return BertForSequenceClassification(BertModel(config), TASK.labels)


@pytest.mark.filterwarnings("ignore:.*texts cut after", "ignore:A single label")
def test_what_is_trained_on_few_tokens_reads_as_few() -> None:
    model, settings = _model(), dataclasses.replace(QUICK, epochs=1, max_length=5)
    assert model.trained_length is None
    fine_tune(model, TASK, TOKENIZER, _sentences(16, 1), _sentences(8, 2), settings, progress=False)
    assert model.trained_length == 5
    rest = [[Sentence(f"the film a {last}", "positive")] for last in ("good good", "bad bad")]
    for ask in (
        lambda one, *length: evaluate(model, TASK, TOKENIZER, one, *length)[1],
        lambda one, *length: predict(model, TASK, TOKENIZER, one, *length),
    ):
        assert ask(rest[0]) == ask(rest[1])
        assert ask(rest[0], 16) != ask(rest[1], 16)


def _run(settings: Training, dropout: float = 0.1) -> tuple[BertForSequenceClassification, list[dict[str, float]]]:
    model = _model(dropout=dropout)
    history = fine_tune(model, TASK, TOKENIZER, _sentences(160, 1), _sentences(60, 2), settings, progress=False)
    return model, history


def test_it_learns() -> None:
    model, history = _run(QUICK)
    assert [record["epoch"] for record in history] == [1, 2, 3, 4, 5, 6]
    assert history[-1]["loss"] < history[0]["loss"] / 2
    assert max(record["accuracy"] for record in history) > 0.95
    answer = compute_logits(model, TASK.encode([Sentence("the film a good plot", None)], TOKENIZER, 20), TOKENIZER)
    assert TASK.describe(answer[0])["label"] == "positive"
    assert not model.training
    texts = [Sentence("a film"), Sentence("the film a good plot")]
    found = predict(model, TASK, TOKENIZER, texts)[1]
    assert found["probabilities"] == pytest.approx(TASK.describe(answer[0])["probabilities"])


def test_a_seed_gives_the_same_run_and_another_seed_another() -> None:
    runs = [_run(dataclasses.replace(QUICK, epochs=2, seed=seed))[1] for seed in (5, 5, 6)]
    losses = [[record["loss"] for record in run] for run in runs]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_packed_and_padded_training_agree() -> None:
    settings = dataclasses.replace(QUICK, epochs=2)
    packed, _ = _run(settings, dropout=0.0)
    padded, _ = _run(dataclasses.replace(settings, packed=False), dropout=0.0)
    for (name, one), (_, two) in zip(packed.named_parameters(), padded.named_parameters(), strict=True):
        assert torch.allclose(one, two, atol=1e-3), name


def test_a_history_knows_its_best_epoch() -> None:
    history = History("f1", [{"epoch": 1, "f1": 0.5}])
    assert history.best == {"epoch": 1, "f1": 0.5}
    history += [{"epoch": 2, "f1": 0.7}, {"epoch": 3, "f1": 0.7}, {"epoch": 4, "f1": 0.6}]
    assert history.best == {"epoch": 3, "f1": 0.7}  # the last of those that are equal
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]


@pytest.mark.parametrize(("given", "best_by"), [("", "accuracy"), ("f1_macro", "f1_macro")])
def test_a_run_says_which_epoch_it_kept_and_by_which_score(given: str, best_by: str) -> None:
    model = _model()
    settings = dataclasses.replace(QUICK, epochs=3, best_by=given)
    history = fine_tune(model, TASK, TOKENIZER, _sentences(60, 1), _sentences(60, 2), settings, progress=False)
    assert isinstance(history, History)
    assert history.best_by == best_by
    assert history.best[best_by] == max(record[best_by] for record in history)
    assert evaluate(model, TASK, TOKENIZER, _sentences(60, 2))[0][best_by] == history.best[best_by]


def test_the_best_epoch_is_kept() -> None:
    """After a collapse in a late epoch the weights of the good one come back."""
    model, history = _run(dataclasses.replace(QUICK, epochs=4, learning_rate=0.5, warmup=1.0, clip=100.0))
    encodings = TASK.encode(_sentences(60, 2), TOKENIZER, 128)
    scores = TASK.metrics(TASK.targets(_sentences(60, 2)), compute_logits(model, encodings, TOKENIZER))
    assert scores["accuracy"] == max(record["accuracy"] for record in history)
    assert history[-1]["accuracy"] < scores["accuracy"]


def test_a_loss_that_explodes_is_one_line() -> None:
    with pytest.raises(UserError, match=r"the loss became nan at step \d+: lower the learning rate"):
        _run(dataclasses.replace(QUICK, learning_rate=1e30, warmup=0.0))


class _Watched(BertForSequenceClassification):
    """Notes the first word of every text that it is trained on."""

    def forward(self, token_ids, segment_ids=None, mask=None):  # type: ignore[no-untyped-def]
        if self.training:
            self.__dict__.setdefault("seen", []).extend(token_ids.token_ids[:, 1].tolist())
        return super().forward(token_ids, segment_ids, mask)


def test_every_epoch_has_an_order_of_its_own() -> None:
    examples = [Sentence(word, TASK.labels[number % 2]) for number, word in enumerate(WORDS)]
    plain = _model()
    model = _Watched(plain.bert, TASK.labels)
    settings = dataclasses.replace(QUICK, epochs=3, batch_size=3, packed=False)
    fine_tune(model, TASK, TOKENIZER, examples, examples, settings, progress=False)
    seen = model.__dict__["seen"]
    ids = [TOKENIZER.token_to_id[word] for word in WORDS]
    epochs = [seen[start : start + len(ids)] for start in range(0, len(seen), len(ids))]
    assert [sorted(epoch) for epoch in epochs] == [sorted(ids)] * 3
    assert len({tuple(epoch) for epoch in (ids, *epochs)}) == 4


def test_the_loss_of_an_epoch_is_the_mean_over_its_examples() -> None:
    """Three examples in batches of two: the last batch counts half."""
    examples = [Sentence("good", "positive"), Sentence("bad film", "negative"), Sentence("a plot", "positive")]
    model = _model(dropout=0.0)
    logits = compute_logits(model, TASK.encode(examples, TOKENIZER, 20), TOKENIZER)
    losses = [np.log(np.exp(row).sum()) - row[label] for row, label in zip(logits, (1, 0, 1), strict=True)]
    assert np.ptp(losses) > 1e-2  # otherwise any weights would do
    settings = dataclasses.replace(QUICK, epochs=1, batch_size=2, learning_rate=1e-12)
    history = fine_tune(model, TASK, TOKENIZER, examples, examples, settings, progress=False)
    assert history[0]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_rare_labels_count_more_where_asked() -> None:
    """Two of one label and one of the other: each label counts half."""
    examples = [Sentence("good", "positive"), Sentence("bad film", "negative"), Sentence("a plot", "positive")]
    model = _model(dropout=0.0)
    logits = compute_logits(model, TASK.encode(examples, TOKENIZER, 20), TOKENIZER)
    losses = [np.log(np.exp(row).sum()) - row[label] for row, label in zip(logits, (1, 0, 1), strict=True)]
    settings = dataclasses.replace(QUICK, epochs=1, learning_rate=1e-12, balanced=True)
    history = fine_tune(model, TASK, TOKENIZER, examples, examples, settings, progress=False)
    expected = (losses[1] + (losses[0] + losses[2]) / 2) / 2
    assert abs(expected - np.mean(losses)) > 1e-3
    assert history[0]["loss"] == pytest.approx(expected, rel=1e-5)


def test_the_rate_rises_and_falls_over_all_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    step = torch.optim.AdamW.step

    def record(optimizer: torch.optim.AdamW, closure: None = None) -> None:
        used.append([group["lr"] for group in optimizer.param_groups])
        step(optimizer, closure)

    monkeypatch.setattr(torch.optim.AdamW, "step", record)
    settings = dataclasses.replace(QUICK, epochs=2, batch_size=4, warmup=0.3)
    fine_tune(_model(), TASK, TOKENIZER, _sentences(20, 1), _sentences(8, 2), settings, progress=False)
    expected = [settings.learning_rate * linear_warmup_and_decay(number, 3, 10) for number in range(10)]
    assert [rates[0] for rates in used] == pytest.approx(expected)
    assert all(len(set(rates)) == 1 for rates in used)
