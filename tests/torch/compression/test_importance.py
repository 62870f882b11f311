"""Importance of heads and neurons: gates that change nothing, and slopes that agree with differences of the loss."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import pytest
import torch
from random_parameters import randomize
from torch import Tensor, nn
from torch.nn import functional

from d2lbert import UserError
from d2lbert.config import AlbertConfig
from d2lbert.data.batching import pad
from d2lbert.data.examples import ChoiceQuestion, Sentence
from d2lbert.tasks.multiple_choice import MultipleChoice
from d2lbert.torch.compression import gated, head_importance, neuron_importance, normalize_per_layer
from d2lbert.torch.heads import BertForMultipleChoice, BertForSequenceClassification
from d2lbert.torch.relatives import AlbertModel
from d2lbert.torch.runtime import to_tensors
from d2lbert.torch.training.losses import compute_loss

STEP = 1e-3


def layers_of(model: BertForSequenceClassification) -> tuple[list[nn.Linear], list[nn.Linear]]:
    """What reads the heads, and what reads the neurons, of every block."""
    blocks = model.bert.encoder.layers()
    return [block.attention.output for block in blocks], [block.feed_forward.project for block in blocks]


@pytest.mark.parametrize("packed", [False, True])
def test_gates_of_one_change_nothing(model: BertForSequenceClassification, logits, packed: bool) -> None:
    before = logits(model, packed)
    heads, neurons = layers_of(model)
    with gated(heads, [torch.ones(4)] * 3), gated(neurons, [torch.ones(20)] * 3):
        assert torch.equal(logits(model, packed), before)
    with gated(heads, [torch.ones(4), torch.tensor([1.0, 0, 1, 1]), torch.ones(4)]):
        assert (logits(model, packed) - before).abs().max() > 1e-3
    assert torch.equal(logits(model, packed), before)


def test_gates_go_when_something_fails(model: BertForSequenceClassification, logits) -> None:
    before = logits(model)
    with pytest.raises(RuntimeError, match="stop"), gated(layers_of(model)[0], [torch.zeros(4)] * 3):
        raise RuntimeError("stop")
    assert torch.equal(logits(model), before)


def test_a_gate_belongs_to_its_head(model: BertForSequenceClassification) -> None:
    """A gate of zero is a head whose columns of the output matrix are zero."""
    layer, x = model.bert.encoder.layers()[0].attention.output, torch.randn(2, 5, 12)
    expected = copy.deepcopy(layer)
    expected.weight.data[:, 6:9] = 0  # the third head of three columns
    with gated([layer], [torch.tensor([1.0, 1, 0, 1])]):
        torch.testing.assert_close(layer(x), expected(x))


def slopes_by_difference(
    model: BertForSequenceClassification, layers: Sequence[nn.Linear], count: int, encodings: Sequence, labels: Tensor
) -> Tensor:
    """The mean over texts of |difference of the loss / difference of the gate|, (layers, count); in float64."""
    found = torch.zeros(len(layers), count, dtype=torch.float64)
    for encoding, label in zip(encodings, labels, strict=True):
        rows = to_tensors(pad([encoding]))
        for layer in range(len(layers)):
            for part in range(count):
                losses = []
                for move in (STEP, -STEP):
                    gates = torch.ones(len(layers), count, dtype=torch.float64)
                    gates[layer, part] += move
                    with torch.no_grad(), gated(layers, list(gates)):
                        losses.append(functional.cross_entropy(model(rows), label.unsqueeze(0)))
                found[layer, part] += ((losses[0] - losses[1]) / (2 * STEP)).abs() / len(encodings)
    return found


@pytest.mark.parametrize("part", ["heads", "neurons"])
def test_importance_is_the_slope_of_the_loss(model, task, tokenizer, examples, part: str) -> None:
    function: Callable[..., list[Tensor]] = head_importance if part == "heads" else neuron_importance
    found = torch.stack(function(model, task, tokenizer, examples, batch_size=3))
    encodings = tokenizer.encode_batch([example.text for example in examples], max_length=16)
    labels = torch.tensor([task.labels.index(example.label) for example in examples])
    model.double()
    layers = layers_of(model)[part == "neurons"]
    wanted = slopes_by_difference(model, layers, found.shape[1], encodings, labels)
    torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-4)
    assert wanted.max() > 0.01


def test_batch_size_and_dropout_change_nothing_and_no_gradient_is_left(model, task, tokenizer, examples) -> None:
    whole = head_importance(model, task, tokenizer, examples)
    model.train()
    torch.testing.assert_close(head_importance(model, task, tokenizer, examples, batch_size=1), whole)
    assert not model.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_the_choices_of_a_question_share_their_gates(model, tokenizer) -> None:
    """A gate closes for all choices at once: its slope is the sum of theirs, and its size is taken afterwards."""
    chooser = BertForMultipleChoice(model.bert).eval()
    randomize(chooser.classifier, seed=4, standard_deviation=0.5)
    questions = [ChoiceQuestion("a b", ("c", "d e f"), 1), ChoiceQuestion("c", ("a a", "b", "f"), 0)]
    task, wanted = MultipleChoice(), torch.zeros(3, 4)
    for question in questions:
        (item,) = task.inputs([question], tokenizer, 16)
        batch, gates = pad(item.encodings), [torch.ones(4, requires_grad=True) for _ in range(3)]
        with gated(layers_of(model)[0], gates):
            loss = compute_loss(task.loss, chooser(to_tensors(batch)), [item.target], batch)
        wanted += torch.stack(torch.autograd.grad(loss, gates)).abs() / len(questions)
    torch.testing.assert_close(torch.stack(head_importance(chooser, task, tokenizer, questions)), wanted)


def test_a_shared_block_has_one_gate_for_each_head(task, tokenizer, examples) -> None:
    config = AlbertConfig(
        vocab_size=len(tokenizer.vocab),
        hidden_size=12,
        embedding_size=5,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=20,
    )
    model = BertForSequenceClassification(AlbertModel(config), task.labels)
    assert [len(own) for own in head_importance(model, task, tokenizer, examples)] == [4]
    assert [len(own) for own in neuron_importance(model, task, tokenizer, examples)] == [20]


def test_layers_have_the_same_length_afterwards() -> None:
    found = normalize_per_layer([torch.tensor([3.0, 4.0]), torch.zeros(2), torch.tensor([1e-3, 0.0])])
    assert torch.equal(torch.stack(found), torch.tensor([[0.6, 0.8], [0, 0], [1, 0]]))


def test_what_has_no_labels_is_refused(model, task, tokenizer) -> None:
    with pytest.raises(UserError, match=r"^'a b' is a str, not an example"):
        head_importance(model, task, tokenizer, ["a b"])
    with pytest.raises(UserError, match=r"^no labelled examples: give one or more, each with its label$"):
        head_importance(model, task, tokenizer, [Sentence("a b")])
    with pytest.raises(UserError, match=r"^no labelled examples: give one or more, each with its label$"):
        head_importance(model, task, tokenizer, [])
