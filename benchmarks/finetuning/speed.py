"""Fine-tuning against a loop with ``transformers``: real tokens a second on SST-2 and CoNLL-2003, with MiniLM.

Ours is :func:`d2lbert.torch.training.finetuning.fine_tune` as it is, with packed rows. The other side is the usual loop
around ``BertForSequenceClassification`` or ``BertForTokenClassification`` with fused attention (SDPA): the same texts
in the same random order, each batch padded to its longest text. Both have the same weights, dropout, fused AdamW with
the same groups, warm-up, linear decay and clipping. They take turns, block by block of a few steps, in one process; a
block begins with new moments of AdamW on both sides. Tokenizing is done before; laying out a batch is timed.

Before the timing, with dropout off, the losses of the first step and the mean losses of a few steps are compared.

    python -m benchmarks.finetuning.speed            # needs D2LBERT_DATA for the real sets
    python -m benchmarks.finetuning.speed --quick    # a trial: two short blocks a side
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from benchmarks.command_line import command_line
from benchmarks.record import Record
from benchmarks.timing import Lap, Side, compare, in_words, take_turns
from benchmarks.twins import twin
from d2lbert import data, get_model
from d2lbert.data.batching import pack, pad
from d2lbert.tasks.base import IGNORED, Input, Task
from d2lbert.tasks.table import named_task
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification, BertForTokenClassification
from d2lbert.torch.runtime import autocast, seed_everything, to_tensors
from d2lbert.torch.training.finetuning import Training, fine_tune
from d2lbert.torch.training.losses import compute_loss
from d2lbert.torch.training.optim import decay_groups, linear_warmup_and_decay

DATA = {"sst2": "classification", "conll2003": "tagging"}
PRECISIONS = ("float32", "bfloat16")
FIRST_TOLERANCE, LATER_TOLERANCE = 1e-5, 1e-3


@dataclass(frozen=True)
class Work:
    """A task with its training examples, in the order in which blocks take them."""

    task: Task
    examples: list[Any]
    tokenizer: WordPiece

    def block(self, turn: int, size: int) -> list[Any]:
        """Return the ``size`` examples of a block; no two blocks share one."""
        return self.examples[turn * size : (turn + 1) * size]


def our_block(work: Work, model: nn.Module, examples: list[Any], settings: Training) -> tuple[Lap, float]:
    """Train on a block with our loop; return its tokens with their seconds, and its mean loss."""
    epoch = fine_tune(model, work.task, work.tokenizer, examples, examples[:4], settings, progress=False)[0]
    return Lap(epoch["tokens_per_second"] * epoch["seconds"], epoch["seconds"]), epoch["loss"]


def their_block(work: Work, model: Any, examples: list[Any], settings: Training) -> tuple[Lap, float]:
    """Train on a block with the reference's loop; return its tokens with their seconds, and its mean loss."""
    inputs = work.task.inputs(examples, work.tokenizer, settings.max_length)
    seed_everything(settings.seed)
    steps = -(-len(inputs) // settings.batch_size)
    optimizer = torch.optim.AdamW(decay_groups(model, settings.weight_decay), lr=settings.learning_rate, fused=True)
    warmup = int(settings.warmup * steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: linear_warmup_and_decay(step, warmup, steps))
    model.train()
    began, loss_sum, tokens = time.perf_counter(), 0.0, 0
    order = np.random.default_rng(settings.seed).permutation(len(inputs))
    for start in range(0, len(inputs), settings.batch_size):
        chosen = [inputs[index] for index in order[start : start + settings.batch_size]]
        with autocast("cpu", settings.precision):
            loss, count = their_loss(model, chosen)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        schedule.step()
        loss_sum += float(loss.detach()) * len(chosen)
        tokens += count
    return Lap(tokens, time.perf_counter() - began), loss_sum / len(inputs)


def their_loss(model: Any, chosen: list[Input]) -> tuple[Tensor, int]:
    """Return the reference's loss of a batch, padded to its longest text, and the number of its real tokens."""
    batch = pad([one.encodings[0] for one in chosen])
    if np.ndim(chosen[0].target):
        labels = np.full(batch.token_ids.shape, IGNORED)
        for row, one in enumerate(chosen):
            labels[row, : len(one.target)] = one.target
    else:
        labels = np.array([one.target for one in chosen])
    loss = model(
        input_ids=torch.from_numpy(batch.token_ids),
        token_type_ids=torch.from_numpy(batch.segment_ids),
        attention_mask=torch.from_numpy(batch.mask),
        labels=torch.from_numpy(labels),
    ).loss
    return loss, batch.num_tokens


def models(work: Work, encoder: BertModel, dropout: bool) -> tuple[Any, nn.Module]:
    """Return the reference and ours, with the same weights, the new head's included."""
    rates = {} if dropout else {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    tokens = np.ndim(work.task.inputs(work.examples[:1], work.tokenizer, 128)[0].target) > 0
    ours_class = BertForTokenClassification if tokens else BertForSequenceClassification
    seed_everything(0)
    bert = BertModel(encoder.config.replace(**rates))
    bert.load_state_dict(encoder.state_dict())
    ours = ours_class(bert, work.task.labels)
    return twin(ours, ours_class.__name__), ours


@torch.no_grad()
def first_difference(work: Work, theirs: Any, ours: nn.Module, settings: Training) -> float:
    """Return the difference of the losses of the first batch, dropout off."""
    chosen = work.task.inputs(work.block(0, settings.batch_size), work.tokenizer, settings.max_length)
    batch = pack([one.encodings[0] for one in chosen])
    found = compute_loss(work.task.loss, ours.eval()(to_tensors(batch)), [one.target for one in chosen], batch)
    return abs(float(their_loss(theirs.eval(), chosen)[0] - found))


def check(work: Work, encoder: BertModel, settings: Training) -> dict[str, float]:
    """Compare the losses of the first step, and the mean losses of four steps; refuse to go on where they differ."""
    theirs, ours = models(work, encoder, dropout=False)
    first = first_difference(work, theirs, ours, settings)
    block = work.block(0, 4 * settings.batch_size)
    later = abs(our_block(work, ours, block, settings)[1] - their_block(work, theirs, block, settings)[1])
    if first > FIRST_TOLERANCE or later > LATER_TOLERANCE:
        raise SystemExit(f"losses differ by {first:.1e} at first, {later:.1e} later: the sides do not compute the same")
    return {"first_step": first, "mean_of_four_steps": later}


def measure(name: str, options: argparse.Namespace, encoder: BertModel, tokenizer: WordPiece) -> dict[str, Any]:
    """Run blocks of one data set on both sides in turn and return what was measured."""
    examples = list(data.load(name, "train"))
    np.random.default_rng(0).shuffle(examples)
    work = Work(named_task(DATA[name]).of_examples(examples), examples, tokenizer)
    differences = check(work, encoder, Training(epochs=1, precision="float32"))
    theirs, ours = models(work, encoder, dropout=True)
    size = options.steps * Training().batch_size

    def side(train: Any, model: Any, precision: str) -> Side:
        def lap(turn: int) -> Lap:
            block = work.block(turn % (len(examples) // size), size)
            return train(work, model, block, Training(epochs=1, seed=turn, precision=precision))[0]

        return lap

    found = {}
    for precision in PRECISIONS:
        sides = {"reference": side(their_block, theirs, precision), "ours": side(our_block, ours, precision)}
        found[precision] = compare(take_turns(sides, range(options.turns + 1), warm_up=1), "tokens")
        print(f"{name}, {precision}, {in_words(found[precision])}", flush=True)
    return {**rows_of(work, size), "difference_of_losses": differences, **found}


def rows_of(work: Work, size: int) -> dict[str, float]:
    """Return tokens in a text, and the share of real tokens in padded and in packed rows, over the first block."""
    inputs = work.task.inputs(work.block(0, size), work.tokenizer, Training().max_length)
    texts, step = [one.encodings[0] for one in inputs], Training().batch_size
    batches = [texts[start : start + step] for start in range(0, len(texts), step)]
    tokens = sum(len(text) for text in texts)
    return {
        "tokens_per_text": tokens / len(texts),
        "real_share_of_padded_rows": tokens / sum(pad(batch).mask.size for batch in batches),
        "real_share_of_packed_rows": tokens / sum(pack(batch).mask.size for batch in batches),
    }


def main() -> None:
    """Measure both data sets and write ``results/finetuning/speed.json``; a trial writes nothing."""
    parser = command_line(__doc__)
    parser.add_argument("--turns", type=int, default=12, help="measured blocks for each side and precision")
    parser.add_argument("--steps", type=int, default=8, help="steps of a block")
    parser.add_argument("--quick", action="store_true", help="2 blocks of 3 steps, and no result file")
    options = parser.parse_args()
    if options.quick:
        options.turns, options.steps = 2, 3
    transformers.logging.set_verbosity_error()  # that a tagger's file has a pooler too is no news
    transformers.utils.logging.disable_progress_bar()
    record = Record("finetuning/speed", ["torch", "transformers", "d2lbert"], seeds=[0], data_sets=DATA)
    encoder, tokenizer = get_model("minilm")
    metrics: dict[str, Any] = {}
    for name in DATA:
        metrics[name] = measure(name, options, encoder, tokenizer)
    if not options.quick:
        record.write(metrics, batch_size=Training().batch_size, steps_of_a_block=options.steps)


if __name__ == "__main__":
    main()
