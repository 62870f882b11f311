"""What a student can learn from a teacher: its logits, its layers, its hidden states, its attention.

The loops are those of fine-tuning and pretraining; here are a teacher's answers, a student's start, and the losses.

Shape legend: B rows of a batch, L length of a row, D hidden size, H heads, K size of a head, P masked tokens,
V vocabulary, S tokens, C labels.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.errors import UserError
from d2lbert.outputs import Rows
from d2lbert.tasks.base import Loss, Task
from d2lbert.tasks.distillation import Taught
from d2lbert.text import Tokenizer
from d2lbert.torch.attention import masked_softmax, per_query, split_heads
from d2lbert.torch.bert import BertModel, attention_mask
from d2lbert.torch.training.evaluation import check_examples, compute_outputs
from d2lbert.torch.training.losses import mean_cross_entropy, soft_divergence

# Of the program that its authors published; the paper names the three losses and no weights.
DISTILBERT_WEIGHTS: Mapping[str, float] = {"soft": 5.0, "masked": 2.0, "cosine": 1.0}


def taught(
    teacher: nn.Module, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int = 128
) -> list[Taught]:
    """Return each example with the teacher's logits, computed once and without dropout.

    Args:
        teacher: a head that gives one row of logits to each text, or one to each token of it to find a span; it
            computes where it is.
        task: of the teacher, with one label for each text or one span.
        tokenizer: the teacher's; the student may have another.
        examples: of the type that the task takes; labels are not needed.
        max_length: the most tokens that the teacher reads of a text.

    Raises:
        UserError: the task has neither labels of texts nor spans, its labels are not the teacher's, or a text is longer
            than the teacher takes.
    """
    if task.loss not in (Loss.LABEL, Loss.SPAN):
        raise UserError("only labels of texts and spans can be taught: give a classification or a QuestionAnswering")
    labels = tuple(getattr(teacher, "labels", task.labels))
    if labels != task.labels:
        raise UserError(f"the teacher's labels are {', '.join(labels)}, the task's {', '.join(task.labels)}: take one")
    check_examples(examples)
    inputs = task.inputs(examples, tokenizer, max_length)
    outputs = compute_outputs(teacher, inputs, tokenizer)
    if task.loss is Loss.LABEL:
        return [Taught(example, tuple(logits.tolist())) for example, logits in zip(examples, outputs, strict=True)]
    windows: list[list[Any]] = [[] for _ in examples]
    for item, logits in zip(inputs, outputs, strict=True):
        windows[item.example].append(logits)
    return [Taught(example, tuple(own)) for example, own in zip(examples, windows, strict=True)]


@torch.no_grad()
def copy_layers(teacher: BertModel, layers: Sequence[int] | None = None) -> BertModel:
    """Return a student of fewer layers that begins as a part of the teacher. The teacher stays as it is.

    Embeddings and pooler are copied, and some of the blocks.

    Args:
        layers: the blocks to copy, in the order of the student; by default every second one, from the first on.

    Raises:
        UserError: the teacher is no plain BERT or has adapters, or has no such layer.

    Source: Sanh et al. 2019. DistilBERT has neither segments nor a pooler; this student keeps both.
    """
    if type(teacher) is not BertModel:
        raise UserError(f"the layers of a {type(teacher).__name__} cannot be copied one by one: give a BERT")
    count = teacher.config.num_hidden_layers
    chosen = range(0, count, 2) if layers is None else list(layers)
    if not chosen or not all(0 <= layer < count for layer in chosen):
        raise UserError(f"layers {list(chosen)} to copy: give one or more numbers from 0 to {count - 1}")
    student = BertModel(dataclasses.replace(teacher.config, num_hidden_layers=len(chosen)))
    student.to(next(teacher.parameters()))  # its device and its precision
    tensors = {name: value for name, value in teacher.state_dict().items() if ".blocks." not in name}
    for number, layer in enumerate(chosen):
        block = teacher.encoder.layers()[layer].state_dict()
        tensors |= {f"encoder.blocks.{number}.{name}": value for name, value in block.items()}
    if set(tensors) != set(student.state_dict()):
        raise UserError("the teacher has more than a BERT's own weights: merge its adapters first")
    student.load_state_dict(tensors)
    return student.train(teacher.training)


def masked_word_losses(
    student: Tensor,
    teacher: Tensor,
    targets: Tensor,
    student_states: Tensor,
    teacher_states: Tensor,
    temperature: float = 2.0,
) -> dict[str, Tensor]:
    """Return DistilBERT's three losses; training minimizes their sum, weighted by ``DISTILBERT_WEIGHTS``.

    ``soft``: the student's probabilities at masked tokens are those of the teacher; ``masked``: the word that stood
    there; ``cosine``: 1 - the cosine between the last hidden states of student and teacher.

    Args:
        student, teacher: logits at the masked tokens, (P, V).
        targets: the words that stood there, (P,), -100 for one that does not count.
        student_states, teacher_states: last hidden states of all tokens that count, (S, D).
        temperature: of the first loss.

    The published program compares all tokens in the first loss unless it is told to take the masked ones alone.

    Source: Sanh et al. 2019.
    """
    return {
        "soft": soft_divergence(student.float(), teacher.float(), temperature).mean(),
        "masked": mean_cross_entropy(student, targets),
        "cosine": (1 - functional.cosine_similarity(student_states.float(), teacher_states.float(), dim=-1)).mean(),
    }


# Which of a layer's projections are compared with each other: queries with keys, values with values.
_RELATIONS = {"attention": (0, 1), "values": (2, 2)}


class Projections(NamedTuple):
    """Queries, keys and values of a layer's attention, each (B, H, L, K)."""

    queries: Tensor
    keys: Tensor
    values: Tensor


def last_projections(bert: BertModel, rows: Rows[Tensor]) -> Projections:
    """Return the queries, keys and values of the last layer; what follows them is not computed."""
    x, mask = bert.embed(rows), attention_mask(rows)  # (B, L, D)
    *blocks, last = bert.encoder.layers()
    for block in blocks:
        x, _ = block(x, mask)
    own = last.attention
    return Projections(*(split_heads(layer(x), own.num_heads) for layer in (own.query, own.key, own.value)))


def relation_losses(student: Projections, teacher: Projections, rows: Rows[Tensor]) -> dict[str, Tensor]:
    """Return MiniLM's two losses: KL(teacher || student) of how the tokens of a text relate to each other, in nats.

    ``attention``: a token's relation to the others is the row softmax(q K^T / sqrt(K's size)) of its attention.
    ``values``: it is the same row with values in the place of queries and keys. Each loss is the mean over heads and
    tokens. The sizes of the heads may differ, their number may not.

    Args:
        student, teacher: of the same rows.
        rows: padded or packed; padding counts nothing, and no text sees another.

    Raises:
        UserError: the numbers of heads differ.

    Source: Wang et al. 2020, section 3.
    """
    heads = student.queries.shape[1], teacher.queries.shape[1]
    if heads[0] != heads[1]:
        raise UserError(f"the student has {heads[0]} heads in its last layer, the teacher {heads[1]}: give it as many")
    mask = per_query(attention_mask(rows))  # (B, 1 or L, L), or None
    if mask is not None:
        mask = mask.unsqueeze(1)  # (B, 1, 1 or L, L)
    kept, losses = _tokens(rows), {}  # (B, L)
    for name, (first, second) in _RELATIONS.items():
        scores = [_scores(own[first], own[second]) for own in (student, teacher)]  # (B, H, L, L) each
        losses[name] = _divergence(scores[0], scores[1], mask).transpose(1, 2)[kept].mean()  # of (tokens, H)
    return losses


def _scores(queries: Tensor, keys: Tensor) -> Tensor:
    return queries.float() @ keys.float().transpose(-2, -1) / math.sqrt(queries.shape[-1])  # (B, H, L, L)


def _divergence(student: Tensor, teacher: Tensor, mask: Tensor | None) -> Tensor:
    """Return KL(softmax(teacher) || softmax(student)) of each row of scores (B, H, L, L), as (B, H, L)."""
    if mask is not None:
        lowest = torch.finfo(student.dtype).min
        student, teacher = student.masked_fill(~mask, lowest), teacher.masked_fill(~mask, lowest)
    wanted = masked_softmax(teacher, mask)  # 0 where the mask is: what stands beside it does not count
    return (wanted * (teacher.log_softmax(-1) - student.log_softmax(-1))).sum(-1)


def _tokens(rows: Rows[Tensor]) -> Tensor:
    """Return (B, L), True for a token and False for padding."""
    if rows.sequence_ids is not None:
        return rows.sequence_ids > 0
    return torch.ones_like(rows.token_ids, dtype=torch.bool) if rows.mask is None else rows.mask.bool()
