"""One step of pretraining against ``transformers.BertForPreTraining``: real tokens a second, for four sizes of BERT.

Both sides have the same weights, the same pairs with the same masks, dropout, fused AdamW and clipping. Theirs has its
fused attention (SDPA) and the rows padded to the longest of the batch; ours has packed rows and computes the last block
and the heads where something is asked. Three kinds of input from Wikipedia: pairs as they are planned for pretraining,
most of them near the longest length; pairs of every length; and rows that are all full. The losses of the first batch
are compared with dropout off. The two take turns, step by step, in one process.

    python benchmarks/pretraining_step.py            # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from record import Record
from torch import Tensor, nn

from d2lbert import data
from d2lbert.config import preset
from d2lbert.data.batching import Batch
from d2lbert.data.pretraining.batches import PretrainingBatch, PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.masking import Masking
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.text import WordPiece
from d2lbert.torch.pretraining import BertForPretraining, pretraining_losses
from d2lbert.torch.runtime import to_device, to_tensors
from d2lbert.torch.training.optim import decay_groups
from d2lbert.zoo import locate

LENGTH = 128
TOLERANCE = 1e-4
# Kind of input -> the share of its pairs that are aimed at a random length; 0.1 is the default of pretraining.
KINDS = {"planned": 0.1, "every length": 1.0}
# Size -> texts in a batch, steps. The larger ones are measured on fewer tokens: they are slow, and vary less.
SIZES = {"tiny": (32, 10), "mini": (32, 8), "small": (32, 6), "base": (32, 3)}


def full_batches(shards: TokenShards, tokenizer: WordPiece, size: int, count: int) -> list[PretrainingBatch]:
    """Return batches in which every row is one pair of 128 tokens, cut from the running text."""
    masking, random = Masking(tokenizer), np.random.default_rng(0)
    tokens = shards.load(shards.names("train")[0]).tokens
    cls, sep = tokenizer.token_to_id["[CLS]"], tokenizer.token_to_id["[SEP]"]
    found = []
    for number in range(count):
        ids = (
            tokens[number * size * LENGTH : (number + 1) * size * LENGTH].astype(np.int64).reshape(size, LENGTH).copy()
        )
        ids[:, 0], ids[:, LENGTH // 2], ids[:, -1] = cls, sep, sep
        masked = masking(ids.reshape(-1), random)
        places = np.broadcast_to(np.arange(LENGTH), ids.shape).copy()
        rows = Batch(
            token_ids=masked.ids.reshape(ids.shape),
            segment_ids=(places > LENGTH // 2).astype(np.int64),
            mask=np.ones_like(ids),
            position_ids=places,
            sequence_ids=np.ones_like(ids),
            starts=np.stack([np.arange(size), np.zeros(size, dtype=np.int64)], axis=1),
            packed=False,
        )
        found.append(PretrainingBatch(rows, masked.positions, masked.targets, random.integers(2, size=size)))
    return found


def planned_batches(
    shards: TokenShards, size: int, count: int, short_share: float, packed: bool
) -> list[PretrainingBatch]:
    """Return batches of planned pairs. Packed or not, they hold the same pairs with the same masks."""
    settings = PretrainingSettings(max_length=LENGTH, batch_size=size, packed=packed, short_share=short_share)
    return [batch for batch, _ in itertools.islice(PretrainingData(shards, settings).batches(), count)]


def models(name: str, vocab_size: int) -> tuple[Any, BertForPretraining]:
    """Return the reference and ours, with the same weights."""
    torch.manual_seed(0)
    config = preset(name).replace(vocab_size=vocab_size)
    ours = BertForPretraining(config)
    with tempfile.TemporaryDirectory() as folder:
        ours.save_pretrained(folder)
        reference = transformers.BertForPreTraining.from_pretrained(folder, attn_implementation="sdpa")
    return reference, ours


def our_loss(model: BertForPretraining, batch: PretrainingBatch) -> Tensor:
    """Return our loss of a batch."""
    device = model.decoder_bias.device
    masked, ids, labels = (to_device(array, device) for array in (batch.masked_positions, *batch.answers.values()))
    return pretraining_losses(model(to_tensors(batch.rows, device), masked_positions=masked), ids, labels).total


def their_loss(model: Any, batch: PretrainingBatch) -> Tensor:
    """Return the reference's loss of a batch in padded rows."""
    labels = np.full(batch.rows.token_ids.size, -100)
    labels[batch.masked_positions] = batch.masked_ids
    inputs = {
        "input_ids": batch.rows.token_ids,
        "token_type_ids": batch.rows.segment_ids,
        "attention_mask": batch.rows.mask,
        "labels": labels.reshape(batch.rows.token_ids.shape),
        "next_sentence_label": batch.next_labels,
    }
    return model(**{name: to_device(array, model.device) for name, array in inputs.items()}).loss


def step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Any, batch: PretrainingBatch) -> float:
    """Take one step of training and return its seconds."""
    began = time.perf_counter()
    loss(model, batch).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - began


def compare(
    name: str, vocab_size: int, padded: list[PretrainingBatch], ours_: list[PretrainingBatch]
) -> dict[str, Any]:
    """Run all batches on both sides in turn and return what was measured."""
    reference, ours = models(name, vocab_size)
    with torch.no_grad():
        difference = abs(float(their_loss(reference.eval(), padded[0]) - our_loss(ours.eval(), ours_[0])))
    if difference > TOLERANCE:
        raise SystemExit(f"{name}: the losses differ by {difference:.1e}; the two sides do not compute the same")
    sides: dict[str, tuple[Any, ...]] = {}
    for side, model, loss, batches in (("reference", reference, their_loss, padded), ("ours", ours, our_loss, ours_)):
        optimizer = torch.optim.AdamW(decay_groups(model, 0.01), lr=1e-4, fused=True)
        sides[side] = (model.train(), optimizer, loss, batches)
        step(model, optimizer, loss, batches[0])  # warm up; also makes the optimiser's state
    seconds: dict[str, list[float]] = {"reference": [], "ours": []}
    for turn in range(1, len(padded)):
        for side in ("reference", "ours") if turn % 2 else ("ours", "reference"):
            model, optimizer, loss, batches = sides[side]
            seconds[side].append(step(model, optimizer, loss, batches[turn]))
    tokens = sum(batch.rows.num_tokens for batch in padded[1:])
    ratios = [one / two for one, two in zip(seconds["reference"], seconds["ours"], strict=True)]
    quartiles = statistics.quantiles(ratios, n=4)
    return {
        "steps": len(ratios),
        "texts_in_a_batch": len(padded[0].next_labels),
        "real_share_of_padded_rows": tokens / sum(batch.rows.mask.size for batch in padded[1:]),
        "real_share_of_our_rows": tokens / sum(batch.rows.mask.size for batch in ours_[1:]),
        "tokens_per_second": {side: tokens / sum(taken) for side, taken in seconds.items()},
        "ratio_of_totals": sum(seconds["reference"]) / sum(seconds["ours"]),
        "ratio_by_step": {"median": statistics.median(ratios), "quartiles": [quartiles[0], quartiles[2]]},
        "difference_of_losses": difference,
    }


def prepare_corpus(folder: Path, tokenizer: WordPiece) -> TokenShards:
    """Tokenise two million characters of the corpus, or the sample."""
    documents, size = [], 0
    for document in data.read("wikipedia_en", "train"):
        documents.append(document.text)
        size += len(document.text)
        if size >= 2_000_000:
            break
    (folder / "corpus.txt").write_text("\n\n".join(documents), encoding="utf-8")
    return prepare([folder / "corpus.txt"], folder / "shards", tokenizer, Preparation())


def main() -> None:
    """Measure all sizes and write ``results/pretraining/step.json``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    arguments = parser.parse_args()
    record = Record("pretraining/step", ["torch", "transformers", "d2lbert"], seeds=[0])
    tokenizer = WordPiece.from_pretrained(locate("minilm"))  # the 30,522 pieces of BERT, uncased
    metrics: dict[str, Any] = {kind: {} for kind in (*KINDS, "full")}
    with tempfile.TemporaryDirectory() as name:
        shards = prepare_corpus(Path(name), tokenizer)
        for size in arguments.sizes:
            texts, steps = SIZES[size]
            for kind, short_share in KINDS.items():
                pairs = [planned_batches(shards, texts, steps + 1, short_share, packed) for packed in (False, True)]
                metrics[kind][size] = compare(size, len(tokenizer.vocab), *pairs)
            full = full_batches(shards, tokenizer, texts, max(4, steps // 2) + 1)
            metrics["full"][size] = compare(size, len(tokenizer.vocab), full, full)
            for kind, found in metrics.items():
                rates = {side: f"{rate:,.0f}" for side, rate in found[size]["tokens_per_second"].items()}
                ratios = f"{found[size]['ratio_of_totals']:.2f}, median {found[size]['ratio_by_step']['median']:.2f}"
                print(f"{size}, {kind}: {rates} tokens/s, ratio {ratios}", flush=True)
    sample = "sample" if data.is_sample("wikipedia_en") else "real"
    record.write(metrics, data=f"wikipedia_en, {sample}", max_length=LENGTH, dropout=0.1)


if __name__ == "__main__":
    main()
