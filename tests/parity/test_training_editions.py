"""Both editions train alike: from the same weights, on the same batches and without dropout, loss by loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from d2lbert.config import BertConfig
from d2lbert.config.training import Training
from d2lbert.data.batching import pack, pad
from d2lbert.data.examples import Answer, ChoiceQuestion, Pair, Question, ScoredPair, Sentence, TaggedSentence
from d2lbert.tasks.base import IGNORED, Loss
from d2lbert.tasks.table import named_task
from d2lbert.text import WordPiece
from d2lbert.torch import heads as torch_heads
from d2lbert.torch.bert import BertModel as TorchBert
from d2lbert.torch.training import finetuning as torch_finetuning
from d2lbert.torch.training import losses as torch_losses
from d2lbert.training import run as books

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from edition_support import same_random_parameters
from mxnet import autograd, nd

from d2lbert.mxnet import heads
from d2lbert.mxnet.bert import BertModel
from d2lbert.mxnet.training import finetuning, losses

WORDS = "good fine bad poor film plot the a who made it was london paris in when".split()  # noqa: SIM905
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
CONFIG = BertConfig(
    vocab_size=len(TOKENIZER.vocab), hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
    max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
SETTINGS = Training(epochs=10, batch_size=8, learning_rate=2e-3, max_length=24, packed=True)
# Without the correction of bias steps are several times as long: at the rate above they would leap, and leap apart.
OTHERWISE = {"packed": False, "layer_decay": 0.8, "bias_correction": False, "weight_decay": 0.3, "clip": 0.1}
OTHERWISE |= {"learning_rate": 5e-4}
COUNT = 40  # examples: five steps an epoch


def _texts(seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, generator.integers(2, 9))) for _ in range(COUNT)]


def _sentences() -> list[Any]:
    return [Sentence(text, "praise" if "good" in text or "fine" in text else "blame") for text in _texts(1)]


def _pairs() -> list[Any]:
    pairs = zip(_texts(1), _texts(2), strict=True)
    return [Pair(one, two, "same" if len(one) > len(two) else "other") for one, two in pairs]


def _scored() -> list[Any]:
    return [ScoredPair(one, two, len(one) / 10) for one, two in zip(_texts(1), _texts(2), strict=True)]


def _tagged() -> list[Any]:
    sentences = []
    for text in _texts(3):
        words = tuple(text.split())
        tags = tuple("B-place" if word in ("london", "paris") else "O" for word in words)
        sentences.append(TaggedSentence(words, tags))
    return sentences


def _questions() -> list[Any]:
    found = []
    for text in _texts(4):
        first = text.split()[0]
        found.append(Question("who made it", text, (Answer(first, 0),)))
    return found


def _choices() -> list[Any]:
    triples = zip(_texts(5), _texts(6), _texts(7), strict=True)
    # Two choices or three: questions of unequal size share a batch.
    return [
        ChoiceQuestion(premise, (one, two, "london")[: 2 + index % 2], int(len(one) > len(two)))
        for index, (premise, one, two) in enumerate(triples)
    ]


RUNS: dict[str, tuple[str, Callable[[], list[Any]]]] = {
    "sentences": ("classification", _sentences),
    "pairs": ("pair", _pairs),
    "scores": ("pair", _scored),
    "tags": ("tagging", _tagged),
    "questions": ("question_answering", _questions),
    "choices": ("multiple_choice", _choices),
}


def _models(name: str, labels: tuple[str, ...]) -> tuple[Any, Any]:
    head = named_task(name).head
    one, two = getattr(torch_heads, head)(TorchBert(CONFIG), labels), getattr(heads, head)(BertModel(CONFIG), labels)
    same_random_parameters(one, two)
    return one, two


def _train(module: Any, monkeypatch: pytest.MonkeyPatch, *arguments: Any, **options: Any) -> tuple[list[float], Any]:
    """The loss of every step, and the history."""
    found: list[float] = []
    monkeypatch.setattr(books, "check_finite", lambda value, *_: found.append(value))
    return found, module.fine_tune(*arguments, progress=False, **options)


@pytest.mark.parametrize(
    "changes",
    [{}, OTHERWISE],
    ids=["defaults", "everything else"],
)
@pytest.mark.parametrize("run", RUNS)
def test_fifty_steps(run: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    name, make = RUNS[run]
    examples = make()
    task = named_task(name).of_examples(examples)
    one, two = _models(name, tuple(task.labels))
    balanced = run in ("sentences", "tags") and bool(changes)
    settings = Training(**{**vars(SETTINGS), **changes, "balanced": balanced})
    arguments = task, TOKENIZER, examples, examples[:9], settings
    expected, history = _train(torch_finetuning, monkeypatch, one, *arguments, device="cpu")
    losses, records = _train(finetuning, monkeypatch, two, *arguments)
    assert len(losses) == 50
    assert np.abs(np.array(expected) - losses).max() < 1e-3
    assert abs(expected[-1] - expected[0]) > 0.02  # something was learned, or equality would say little
    assert history.best_by == records.best_by
    for theirs, ours in zip(history, records, strict=True):
        assert list(theirs) == list(ours)
        for score in set(theirs) - {"seconds", "tokens_per_second"}:
            assert theirs[score] == pytest.approx(ours[score], abs=2e-3), score
    state = one.state_dict()
    weights = finetuning.Run.weights(type("_", (), {"model": two})())  # type: ignore[arg-type]
    for key, array in weights.items():
        # These move every score of a softmax alike: their gradients are rounding errors, which Adam makes large.
        if not key.endswith("key.bias") and (run, key) != ("choices", "classifier.bias"):
            assert np.abs(state[key].numpy() - array).max() < 1e-2, key


@pytest.mark.parametrize("arrange", [pad, pack])
@pytest.mark.parametrize("kind", [Loss.TOKENS, Loss.SPAN])
def test_losses_of_tokens_and_their_gradients(kind: Loss, arrange: Callable[..., Any]) -> None:
    generator = np.random.default_rng(2)
    batch = arrange(TOKENIZER.encode_batch(_texts(8)[:7]))
    logits = generator.standard_normal((*batch.token_ids.shape, 2)).astype(np.float32)
    targets: list[np.ndarray] = []
    for length in batch.lengths:
        if kind is Loss.SPAN:
            targets.append(np.sort(generator.integers(0, length, 2)))
        else:
            targets.append(np.where(generator.random(length) < 0.5, generator.integers(0, 2, length), IGNORED))
    targets[3][0] = IGNORED
    theirs = torch.from_numpy(logits).requires_grad_()
    expected = torch_losses.compute_loss(kind, theirs, targets, batch)
    expected.backward()
    ours = nd.array(logits)
    ours.attach_grad()
    with autograd.record():
        loss = losses.compute_loss(kind, ours, targets, batch)
    loss.backward()
    assert float(loss.asscalar()) == pytest.approx(expected.item(), abs=1e-5)
    assert theirs.grad is not None
    assert np.abs(theirs.grad.numpy() - ours.grad.asnumpy()).max() < 1e-6


def test_a_folder_of_one_is_scored_alike_by_the_other(tmp_path: Path) -> None:
    from d2lbert.mxnet.training.evaluation import evaluate
    from d2lbert.torch.training.evaluation import evaluate as torch_evaluate

    examples = _sentences()
    task = named_task("classification").of_examples(examples)
    _, two = _models("classification", tuple(task.labels))
    finetuning.fine_tune(two, task, TOKENIZER, examples, examples[:9], SETTINGS, progress=False)
    two.save_pretrained(tmp_path)
    one = torch_heads.BertForSequenceClassification.from_pretrained(tmp_path)
    scores, answers = evaluate(two, task, TOKENIZER, examples)
    expected, predictions = torch_evaluate(one, task, TOKENIZER, examples)
    assert scores == expected
    assert [answer["label"] for answer in answers] == [answer["label"] for answer in predictions]
    assert scores["accuracy"] > 0.6
