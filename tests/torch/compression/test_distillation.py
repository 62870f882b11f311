"""A teacher's answers, a student that begins as a part of its teacher, and the losses of DistilBERT and MiniLM."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.config.adapters import AdapterConfig
from d2lbert.config.training import Training
from d2lbert.data.batching import pack, pad
from d2lbert.data.examples import Answer, Question, Sentence
from d2lbert.outputs import Rows
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.distillation import Distillation, LogitMatching, SpanDistillation, Taught
from d2lbert.tasks.pair import PairRegression
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import WordPiece
from d2lbert.torch.adapters import add_adapters
from d2lbert.torch.bert import BertModel, attention_mask
from d2lbert.torch.compression import (
    BiLstmClassifier,
    Projections,
    copy_layers,
    last_projections,
    masked_word_losses,
    prune_encoder,
    relation_losses,
    taught,
    word_tokenizer,
)
from d2lbert.torch.heads import BertForQuestionAnswering, BertForSequenceClassification
from d2lbert.torch.runtime import seed_everything, to_tensors
from d2lbert.torch.training.evaluation import compute_logits, compute_outputs
from d2lbert.torch.training.finetuning import fine_tune

LN3 = math.log(3)


def small_student(tokenizer: WordPiece) -> BiLstmClassifier:
    seed_everything(0)
    return BiLstmClassifier(torch.randn(len(tokenizer.vocab), 8).numpy(), ("bad", "good"), 8, 8)


def test_the_teacher_answers_without_dropout(
    model: BertForSequenceClassification, task: Classification, tokenizer: WordPiece, examples: list[Sentence]
) -> None:
    found = taught(model.train(), task, tokenizer, examples, max_length=16)
    assert [one.example for one in found] == examples
    expected = compute_logits(model.eval(), task.encode(examples, tokenizer, 16), tokenizer)
    assert [list(one.logits) for one in found] == expected.tolist()
    assert taught(model, task, tokenizer, [Sentence("a b")])[0].example == Sentence("a b")


@pytest.mark.filterwarnings("ignore:.*texts cut after 4 tokens")
def test_the_teacher_reads_as_much_as_it_is_told(
    model: BertForSequenceClassification, task: Classification, tokenizer: WordPiece
) -> None:
    short, long = (taught(model, task, tokenizer, [Sentence(text)], 4)[0].logits for text in ("a b", "a b c d"))
    assert short == long


def test_a_teacher_of_another_task_is_refused(
    model: BertForSequenceClassification, tokenizer: WordPiece, examples: list[Sentence]
) -> None:
    with pytest.raises(UserError, match="the teacher's labels are bad, good, the task's good, bad"):
        taught(model, Classification(["good", "bad"]), tokenizer, examples)
    with pytest.raises(UserError, match="only labels of texts and spans can be taught"):
        taught(model, PairRegression(), tokenizer, examples)


@pytest.mark.parametrize("kind", [Distillation, LogitMatching])
def test_a_student_of_another_kind_learns_what_the_teacher_says(
    kind: type[Distillation],
    model: BertForSequenceClassification,
    task: Classification,
    tokenizer: WordPiece,
    examples: list[Sentence],
) -> None:
    """The loop is that of fine-tuning. The texts have no label: all comes from the teacher's logits."""
    lessons = taught(model, task, tokenizer, [Sentence(example.text) for example in examples], 16)
    student = small_student(tokenizer)
    settings = Training(epochs=60, learning_rate=1e-2, batch_size=4, max_length=16, best_by="epoch")
    distilled = kind(task) if kind is LogitMatching else kind(task, 2.0, 1.0)
    history = fine_tune(student, distilled, tokenizer, lessons, examples, settings, progress=False)
    assert history[-1]["loss"] < 0.2 * history[0]["loss"]  # dropout leaves some
    logits = compute_logits(student, task.encode(examples, tokenizer, 16), tokenizer)
    wanted = torch.tensor([one.logits for one in lessons])
    torch.testing.assert_close(torch.from_numpy(logits).softmax(1), wanted.softmax(1), atol=0.1, rtol=0)


def test_a_smaller_reader_learns_what_the_teacher_says_of_every_window(
    model: BertForSequenceClassification, tokenizer: WordPiece
) -> None:
    """Texts of eight letters in windows of twelve tokens. No right answer is known: all comes from the teacher."""
    teacher = BertForQuestionAnswering(model.bert)
    randomize(teacher, seed=3, standard_deviation=0.4)
    torch.nn.init.normal_(teacher.classifier.weight)  # a teacher that is sure of some tokens
    task, questions = QuestionAnswering(), [Question(letter, f"{letter} b c d e f g h i j") for letter in "abcdefgh"]
    lessons = taught(teacher, task, tokenizer, questions, max_length=12)
    inputs = task.inputs(questions, tokenizer, 12)
    outputs = [torch.from_numpy(one) for one in compute_outputs(teacher, inputs, tokenizer)]
    assert len(inputs) == 2 * len(questions)
    assert [len(one.logits) for one in lessons] == [2] * len(questions)
    said = [torch.from_numpy(logits) for one in lessons for logits in one.logits]
    torch.testing.assert_close(said, outputs, rtol=0, atol=0)
    seed_everything(0)
    student = BertForQuestionAnswering(BertModel(model.config))
    settings = Training(epochs=40, learning_rate=1e-2, batch_size=4, max_length=12, best_by="epoch")
    known = [Question(one.question, one.context, (Answer("b", 2),)) for one in questions]
    distilled = SpanDistillation(task, 1.0, 1.0)
    history = fine_tune(student, distilled, tokenizer, lessons, known, settings, progress=False)
    assert history[-1]["loss"] < 0.3 * history[0]["loss"]  # dropout leaves some
    for own, wanted in zip(compute_outputs(student, inputs, tokenizer), outputs, strict=True):
        assert float((torch.from_numpy(own).softmax(0) - wanted.softmax(0)).abs().mean()) < 0.06


def test_a_plain_example_is_nothing_to_learn_from(
    task: Classification, tokenizer: WordPiece, examples: list[Sentence]
) -> None:
    with pytest.raises(UserError, match="an example to train on has no label"):
        fine_tune(
            small_student(tokenizer), Distillation(task), tokenizer, examples, examples, Training(), progress=False
        )


def test_a_run_at_another_temperature_is_another_run(
    tmp_path: Path, model: BertForSequenceClassification, task: Classification, tokenizer: WordPiece
) -> None:
    lessons = taught(model, task, tokenizer, [Sentence("a b", "bad"), Sentence("c", "good")])
    settings = Training(epochs=1)

    def run(temperature: float) -> None:
        distilled = Distillation(task, temperature)
        student = small_student(tokenizer)
        fine_tune(student, distilled, tokenizer, lessons, lessons, settings, progress=False, checkpoint=tmp_path)

    run(2.0)
    run(2.0)
    with pytest.raises(UserError, match=r"is of another run: temperature was 2\.0 and is now 4\.0"):
        run(4.0)


def test_every_second_layer_is_copied(model: BertForSequenceClassification) -> None:
    """The student is the teacher without its second block; the teacher does not change with it."""
    student = copy_layers(model.bert)
    assert student.config.num_hidden_layers == 2
    assert not student.training
    ids = torch.tensor([[2, 7, 8, 3], [2, 9, 6, 3]])
    x = model.bert.embed(Rows(ids))
    for number in (0, 2):
        x, _ = model.bert.encoder.layers()[number](x)
    torch.testing.assert_close(student(ids).sequence, x)
    torch.testing.assert_close(student(ids).pooled, model.bert.pool(x[:, 0]))
    before = {name: value.clone() for name, value in model.bert.state_dict().items()}
    randomize(student, seed=9)
    assert all(torch.equal(value, before[name]) for name, value in model.bert.state_dict().items())


def test_layers_are_copied_in_the_order_that_is_asked_for(model: BertForSequenceClassification) -> None:
    student = copy_layers(model.bert, [2, 0, 0])
    for block, number in zip(student.encoder.layers(), (2, 0, 0), strict=True):
        source = model.bert.encoder.layers()[number].state_dict()
        assert all(torch.equal(value, source[name]) for name, value in block.state_dict().items())
    assert copy_layers(model.bert.train()).training


def test_layers_that_are_not_there_are_refused(model: BertForSequenceClassification) -> None:
    for layers in ([3], [-1], []):
        with pytest.raises(UserError, match="give one or more numbers from 0 to 2"):
            copy_layers(model.bert, layers)
    with pytest.raises(UserError, match="a PrunedBertModel cannot be copied"):
        copy_layers(prune_encoder(model.bert, [[0], [1], [2, 3]]))
    add_adapters(model, AdapterConfig(rank=2))
    with pytest.raises(UserError, match="merge its adapters first"):
        copy_layers(model.bert)


def test_distilberts_losses_by_hand() -> None:
    """At temperature 2 the teacher says 3/4 and 1/4 of the first gap; the student is undecided."""
    student, teacher = torch.zeros(2, 2), torch.tensor([[2 * LN3, 0.0], [0.0, 0.0]])
    states = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]), torch.tensor([[5.0, 0.0], [0.0, -1.0], [1.0, 0.0]])
    losses = masked_word_losses(student, teacher, torch.tensor([0, -100]), *states, temperature=2.0)
    assert list(losses) == ["soft", "masked", "cosine"]
    divergence = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert float(losses["soft"]) == pytest.approx(4 * divergence / 2)
    assert float(losses["masked"]) == pytest.approx(math.log(2))
    assert float(losses["cosine"]) == pytest.approx((0 + 2 + 1 - math.sqrt(0.5)) / 3)


def projections(heads: int, size: int, seed: int) -> Projections:
    generator = torch.Generator().manual_seed(seed)
    draw = (torch.randn(2, heads, 5, size, generator=generator, dtype=torch.float64) for _ in range(3))
    return Projections(*(tensor.requires_grad_() for tensor in draw))


def plain_relations(first: torch.Tensor, second: torch.Tensor, texts: list[list[int]], row: int, head: int) -> dict:
    """softmax(first second^T / sqrt(size)) of each token over those of its own text, pair by pair."""
    first, second, found = first.detach(), second.detach(), {}
    for text in texts:
        for i in text:
            scores = [float(first[row, head, i] @ second[row, head, j]) / math.sqrt(first.shape[-1]) for j in text]
            total = sum(math.exp(score) for score in scores)
            found[i] = [math.exp(score) / total for score in scores]
    return found


PADDED = Rows(torch.zeros(2, 5, dtype=torch.long), mask=torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]))
PACKED = Rows(
    torch.zeros(2, 5, dtype=torch.long),
    sequence_ids=torch.tensor([[1, 1, 2, 2, 0], [1, 2, 2, 2, 2]]),
    starts=torch.tensor([[0, 0], [0, 2], [1, 0], [1, 1]]),
)


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        (PADDED, [[[0, 1, 2]], [[0, 1, 2, 3, 4]]]),
        (PACKED, [[[0, 1], [2, 3]], [[0], [1, 2, 3, 4]]]),
        (Rows(torch.zeros(2, 5, dtype=torch.long)), [[[0, 1, 2, 3, 4]]] * 2),
    ],
)
def test_relations_equal_a_plain_loop(rows: Rows, texts: list[list[list[int]]]) -> None:
    """Heads of other sizes, texts of unequal length: the mean over heads and tokens of the divergence of their rows."""
    student, teacher = projections(3, 4, 0), projections(3, 6, 1)
    losses = relation_losses(student, teacher, rows)
    places = {"attention": (0, 1), "values": (2, 2)}
    assert list(losses) == list(places)
    for name, (first, second) in places.items():
        divergences = []
        for row in range(2):
            for head in range(3):
                found = plain_relations(student[first], student[second], texts[row], row, head)
                wanted = plain_relations(teacher[first], teacher[second], texts[row], row, head)
                for i in wanted:
                    divergences.append(sum(p * math.log(p / q) for p, q in zip(wanted[i], found[i], strict=True)))
        assert float(losses[name].detach()) == pytest.approx(sum(divergences) / len(divergences), rel=1e-5)


def test_the_same_relations_cost_nothing_and_padding_teaches_nothing() -> None:
    student, teacher = projections(3, 4, 0), projections(3, 4, 1)
    for loss in relation_losses(teacher, teacher, PADDED).values():
        assert float(loss.detach()) == pytest.approx(0, abs=1e-6)
    sum(relation_losses(student, teacher, PADDED).values()).backward()
    for tensor in student:
        assert tensor.grad.isfinite().all()
        assert not tensor.grad[0, :, 3:].any()
        assert tensor.grad[0, :, :3].abs().min() > 0


def test_the_slope_of_the_relations_is_that_of_small_steps() -> None:
    student, teacher = projections(2, 3, 0), projections(2, 5, 1)
    loss = sum(relation_losses(student, teacher, PADDED).values())
    slopes = torch.autograd.grad(loss, student)
    for tensor, slope in zip(student, slopes, strict=True):
        with torch.no_grad():
            for place in ((0, 1, 2, 0), (1, 0, 4, 2)):
                values = []
                for step in (1e-3, -1e-3):
                    tensor[place] += step
                    values.append(float(sum(relation_losses(student, teacher, PADDED).values())))
                    tensor[place] -= step
                assert (values[0] - values[1]) / 2e-3 == pytest.approx(float(slope[place]), abs=3e-4)


def test_another_number_of_heads_is_refused() -> None:
    with pytest.raises(UserError, match="the student has 2 heads in its last layer, the teacher 3"):
        relation_losses(projections(2, 4, 0), projections(3, 4, 1), PADDED)


@pytest.mark.parametrize("layout", [pad, pack])
def test_the_last_projections_are_those_of_the_model(
    model: BertForSequenceClassification, tokenizer: WordPiece, layout: Callable
) -> None:
    """softmax(q k^T / sqrt(K)) are the weights of the model's last layer, and with v its mixture."""
    rows = to_tensors(layout(tokenizer.encode_batch(["a b c d", "b", "c a f e e"])))
    queries, keys, values = last_projections(model.bert, rows)
    output = model.bert(rows, output_attentions=True, output_hidden_states=True)
    scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[-1])
    weights = output.attentions[-1]
    kept = weights > 0
    torch.testing.assert_close(scores.masked_fill(~kept, float("-inf")).softmax(-1), weights)
    own = model.bert.encoder.layers()[-1].attention
    mixed = own.output((weights @ values).transpose(1, 2).flatten(2))
    x = output.hidden_states[-2]
    torch.testing.assert_close(mixed, own(x, x, x, attention_mask(rows))[0])


def test_a_student_of_fewer_layers_comes_near_its_teachers_relations(
    model: BertForSequenceClassification, tokenizer: WordPiece
) -> None:
    """A narrower student with as many heads: some steps down the loss."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=15, hidden_size=8, num_hidden_layers=1, num_attention_heads=4, intermediate_size=8,
        max_position_embeddings=16,
    )  # fmt: skip
    student = BertModel(config).eval()
    rows = to_tensors(pack(tokenizer.encode_batch(["a b c d", "b f", "c a f e e", "h g i j"])))
    with torch.no_grad():
        wanted = last_projections(model.bert, rows)
    optimizer = torch.optim.Adam(student.parameters(), lr=0.02)
    values = []
    for _ in range(60):
        loss = sum(relation_losses(last_projections(student, rows), wanted, rows).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(float(loss.detach()))
    assert values[-1] < 0.2 * values[0]


def test_words_of_another_tokenizer_can_be_taught(
    model: BertForSequenceClassification, task: Classification, tokenizer: WordPiece
) -> None:
    """Teacher and student read the same text in their own pieces."""
    lessons = taught(model, task, tokenizer, [Sentence("a b", "bad")])
    own, vectors = word_tokenizer(["b", "a"], torch.randn(2, 3).numpy())
    (item,) = Distillation(task).inputs(lessons, own, 8)
    assert item.encodings[0].ids == [2, 6, 5, 3]
    assert isinstance(lessons[0], Taught)
    assert BiLstmClassifier(vectors, task.labels)(torch.tensor([item.encodings[0].ids])).shape == (1, 2)
