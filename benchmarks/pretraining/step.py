"""One step of pretraining against ``transformers.BertForPreTraining``: real tokens a second, for four sizes of BERT.

Both sides have the same weights, the same pairs with the same masks, dropout, fused AdamW and clipping. Theirs has its
fused attention (SDPA) and the rows padded to the longest of the batch; ours has packed rows and computes the last block
and the heads where something is asked. Three kinds of input from Wikipedia: pairs as they are planned for pretraining,
most of them near the longest length; pairs of every length; and rows that are all full. The losses of the first batch
are compared with dropout off. The two take turns, step by step, in one process.

    python -m benchmarks.pretraining.step    # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command_line import command_line
from benchmarks.pretraining_sides import full_rows, models, optimizer_of, our_loss, step, their_loss
from benchmarks.record import Record
from benchmarks.timing import Side, compare, in_words, take_turns, timed
from d2lbert import data
from d2lbert.data.pretraining.batches import PretrainingBatch, PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.masking import Masking
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.text import WordPiece
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
        cut = tokens[number * size * LENGTH : (number + 1) * size * LENGTH]
        ids = cut.astype(np.int64).reshape(size, LENGTH)
        ids[:, 0], ids[:, LENGTH // 2], ids[:, -1] = cls, sep, sep
        masked = masking(ids.reshape(-1), random)
        rows = full_rows(masked.ids.reshape(ids.shape))
        found.append(PretrainingBatch(rows, masked.positions, masked.targets, random.integers(2, size=size)))
    return found


def planned_batches(
    shards: TokenShards, size: int, count: int, short_share: float, packed: bool
) -> list[PretrainingBatch]:
    """Return batches of planned pairs. Packed or not, they hold the same pairs with the same masks."""
    settings = PretrainingSettings(max_length=LENGTH, batch_size=size, packed=packed, short_share=short_share)
    return [batch for batch, _ in itertools.islice(PretrainingData(shards, settings).batches(), count)]


def measure(
    name: str, vocab_size: int, padded: list[PretrainingBatch], ours_: list[PretrainingBatch]
) -> dict[str, Any]:
    """Run all batches on both sides in turn and return what was measured; the first batch warms up."""
    reference, ours = models(name, vocab_size)
    with torch.no_grad():
        difference = abs(float(their_loss(reference.eval(), padded[0]) - our_loss(ours.eval(), ours_[0])))
    if difference > TOLERANCE:
        raise SystemExit(f"{name}: the losses differ by {difference:.1e}; the two sides do not compute the same")

    def real_tokens(turn: int) -> int:
        return padded[turn].rows.num_tokens

    def side(model: Any, loss: Any, batches: list[PretrainingBatch]) -> Side:
        optimizer = optimizer_of(model.train())
        return timed(lambda turn: step(model, optimizer, loss, batches[turn]), real_tokens)

    sides = {"reference": side(reference, their_loss, padded), "ours": side(ours, our_loss, ours_)}
    laps = take_turns(sides, range(len(padded)), warm_up=1)
    tokens = sum(batch.rows.num_tokens for batch in padded[1:])
    return {
        "texts_in_a_batch": len(padded[0].next_labels),
        "real_share_of_padded_rows": tokens / sum(batch.rows.mask.size for batch in padded[1:]),
        "real_share_of_our_rows": tokens / sum(batch.rows.mask.size for batch in ours_[1:]),
        **compare(laps, "tokens"),
        "difference_of_losses": difference,
    }


def prepare_corpus(folder: Path, tokenizer: WordPiece) -> TokenShards:
    """Tokenise two million characters of the corpus."""
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
    parser = command_line(__doc__)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    arguments = parser.parse_args()
    packages = ["torch", "transformers", "d2lbert"]
    record = Record("pretraining/step", packages, [0], data_sets=["wikipedia_en"], samples_do=False)
    tokenizer = WordPiece.from_pretrained(locate("minilm"))  # the 30,522 pieces of BERT, uncased
    metrics: dict[str, Any] = {kind: {} for kind in (*KINDS, "full")}
    with tempfile.TemporaryDirectory() as name:
        shards = prepare_corpus(Path(name), tokenizer)
        for size in arguments.sizes:
            texts, steps = SIZES[size]
            for kind, short_share in KINDS.items():
                pairs = [planned_batches(shards, texts, steps + 1, short_share, packed) for packed in (False, True)]
                metrics[kind][size] = measure(size, len(tokenizer.vocab), *pairs)
            full = full_batches(shards, tokenizer, texts, max(4, steps // 2) + 1)
            metrics["full"][size] = measure(size, len(tokenizer.vocab), full, full)
            for kind, found in metrics.items():
                print(f"{size}, {kind}, {in_words(found[size])}", flush=True)
    record.write(metrics, data="wikipedia_en", max_length=LENGTH, dropout=0.1)


if __name__ == "__main__":
    main()
