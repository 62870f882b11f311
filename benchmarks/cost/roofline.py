"""How far from the end of this machine: what inference, fine-tuning and pretraining need, beside what it can multiply.

Of each step are counted: the operations that its real tokens need (no padding, of the last block only what is asked
for), the time of the step, and the time of its matrix products alone, in the same shapes and without anything in
between. The peak is the fastest of these products. The rest of the time is told apart by PyTorch's profiler; the
optimizer, and the layout of a batch, are timed by themselves. One thread; step and products take turns.

    python -m benchmarks.cost.roofline    # needs D2LBERT_DATA, and a quiet machine: three minutes
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from benchmarks.command_line import command_line
from benchmarks.int8_sides import graph_file, in_onnx_runtime, int8_file, to_calibrate
from benchmarks.integer_operations import profile
from benchmarks.operations import OTHER, bandwidth, encoder_operations, parts_of, products_of, rate_of
from benchmarks.pretraining.step import full_batches, planned_batches, prepare_corpus
from benchmarks.pretraining_sides import optimizer_of, our_loss
from benchmarks.record import Record
from d2lbert import data
from d2lbert.config import preset
from d2lbert.data.batching import Batch, pack
from d2lbert.data.pretraining.batches import PretrainingBatch
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_tensors
from d2lbert.zoo import locate

SENTENCES, PAIRS = 32, 8  # of a batch
PREPARED, OPTIMIZED, REST = "layout of the batch", "clipping and optimizer", "Python and the rest"
PRODUCTS, OUTPUT, WASTED = "matrix products", "products of the output layer", "products that no token needs"


class Work(NamedTuple):
    """A kind of step.

    Fields:
        prepare: lays out the batch, as the step gets it.
        compute: forward, and in training backward.
        update: clips and takes the step of the optimizer; nothing in inference.
        operations: that the real tokens need.
        output: those of them that the output layer needs.
        tokens: real ones.
        positions: of the rows, padding included.
        products: of a step, how often it runs each matrix product.
        parts: of a step, the seconds of each kind of operation.
    """

    prepare: Callable[[], Any]
    compute: Callable[[Any], Any]
    update: Callable[[], None]
    operations: int
    output: int
    tokens: int
    positions: int
    products: Callable[[Callable[[], Any]], Counter[Any]] = products_of
    parts: Callable[[Callable[[], Any]], dict[str, float]] = parts_of


def lengths_of(batch: Batch) -> list[int]:
    """Return the number of tokens of each text in the rows of a batch."""
    return [
        int((row == number).sum()) for row in batch.sequence_ids * batch.mask for number in range(1, int(row.max()) + 1)
    ]


def inference(name: str, encodings: list[Any]) -> Work:
    """Return the pooled vectors of a batch of sentences, packed."""
    torch.manual_seed(0)
    model = (BertModel.from_pretrained("minilm") if name == "minilm" else BertModel(preset(name))).eval()
    texts = [(len(one.ids), 1) for one in encodings]

    @torch.no_grad()
    def compute(rows: Any) -> Any:
        return model.forward_pooled(rows)

    return Work(
        lambda: to_tensors(pack(encodings)),
        compute,
        lambda: None,
        encoder_operations(model.config, texts),
        0,
        sum(length for length, _ in texts),
        pack(encodings).token_ids.size,
    )


def classifier_of_eight_bits(folder: Path) -> tuple[BertForSequenceClassification, Path]:
    """Return MiniLM with a new classifier, and the file of its graph for packed rows with weights of 8 bits."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertModel.from_pretrained("minilm"), ["negative", "positive"]).eval()
    return model, int8_file(graph_file(model, folder, packed=True), "8 bits", reduce_range=False)


def in_eight_bits(encodings: list[Any], model: BertForSequenceClassification, graph: Path) -> Work:
    """Return the logits of :func:`classifier_of_eight_bits` for a batch of sentences, packed, in ONNX Runtime."""
    (inputs,) = to_calibrate(encodings)  # one batch
    texts = [(len(one.ids), 1) for one in encodings]
    head = len(texts) * 2 * model.bert.config.hidden_size * 2
    return Work(
        lambda: pack(encodings),
        in_onnx_runtime(graph, model),
        lambda: None,
        encoder_operations(model.bert.config, texts) + head,
        head,
        sum(length for length, _ in texts),
        pack(encodings).token_ids.size,
        lambda _: profile(graph, inputs).products,
        lambda _: profile(graph, inputs).parts,
    )


def trained(model: nn.Module) -> Callable[[], None]:
    """Return what the loops do after the backward pass."""
    optimizer = optimizer_of(model.train())

    def update() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return update


def finetuning(encodings: list[Any]) -> Work:
    """Return a step of MiniLM on a batch of sentences, packed."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertModel.from_pretrained("minilm"), ["negative", "positive"])
    labels = torch.arange(len(encodings)) % 2
    texts = [(len(one.ids), 1) for one in encodings]
    head = len(texts) * 2 * model.bert.config.hidden_size * 2
    return Work(
        lambda: to_tensors(pack(encodings)),
        lambda rows: functional.cross_entropy(model(rows), labels).backward(),
        trained(model),
        3 * (encoder_operations(model.bert.config, texts) + head),
        3 * head,
        sum(length for length, _ in texts),
        pack(encodings).token_ids.size,
    )


def pretraining(name: str, vocab_size: int, batch: PretrainingBatch) -> Work:
    """Return a step of pretraining a BERT of a named size on a batch."""
    torch.manual_seed(0)
    model = BertForPretraining(preset(name).replace(vocab_size=vocab_size))
    lengths, hidden = lengths_of(batch.rows), model.config.hidden_size
    masked = len(batch.masked_ids)
    asked = 1 + masked / len(lengths)  # the first token of each pair, and its share of the hidden ones
    head = masked * 2 * (hidden * hidden + hidden * vocab_size) + len(lengths) * 4 * hidden
    needed = encoder_operations(model.config, [(length, asked) for length in lengths])
    return Work(
        lambda: batch,
        lambda given: our_loss(model, given).backward(),
        trained(model),
        round(3 * (needed + head)),
        3 * head,
        sum(lengths),
        batch.rows.mask.size,
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call and what it returned."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def measure(work: Work, turns: int) -> dict[str, Any]:
    """Return the shares of a kind of step."""
    noted = work.products(lambda: work.compute(work.prepare()))
    work.update()
    laps: dict[str, list[float]] = {"step": [], "products": [], PREPARED: [], "computed": [], OPTIMIZED: []}
    for _ in range(turns):
        prepared, rows = timed(work.prepare)
        computed, _ = timed(lambda rows=rows: work.compute(rows))
        updated, _ = timed(work.update)
        alone = sum(count * product.seconds(rounds=3) for product, count in noted.items())
        for name, lap in zip(laps, (prepared + computed + updated, alone, prepared, computed, updated), strict=True):
            laps[name].append(lap)
    parts = work.parts(lambda: work.compute(work.prepare()))
    work.update()
    seconds = {name: statistics.median(times) for name, times in laps.items()}
    shares = [alone / step for alone, step in zip(laps["products"], laps["step"], strict=True)]
    executed = sum(product.operations * count for product, count in noted.items())
    peak = rate_of(noted)
    kinds = {**divided(parts, work, executed), PREPARED: seconds[PREPARED], OPTIMIZED: seconds[OPTIMIZED]}
    kinds[REST] = max(seconds["computed"] - sum(parts.values()), 0.0)
    total = sum(kinds.values())
    return {
        "tokens": work.tokens,
        "real_share_of_rows": work.tokens / work.positions,
        "needed_operations": work.operations,
        "executed_operations": executed,
        "seconds": seconds["step"],
        "peak": peak,
        "share_of_peak": work.operations / seconds["step"] / peak,
        "products_alone": {"median": statistics.median(shares), "quartiles": statistics.quantiles(shares, n=4)[::2]},
        "parts": {name: value / total for name, value in sorted(kinds.items(), key=lambda item: -item[1])},
    }


def divided(parts: dict[str, float], work: Work, executed: int) -> dict[str, float]:
    """Return parts with the time of the products divided, by operations, into three."""
    whole = parts[PRODUCTS]
    shares = {OUTPUT: work.output / executed, WASTED: 1 - work.operations / executed}
    told = {name: share * whole for name, share in shares.items()}
    return {**parts, PRODUCTS: whole - sum(told.values()), **told}


def main() -> None:
    """Measure all kinds of step and write ``results/cost/roofline.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sets = ["sst2", "wikipedia_en"]
    record = Record("cost/roofline", ["torch", "d2lbert"], [0], data_sets=sets, samples_do=False)
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    sentences = tokenizer.encode_batch([one.text for one in data.load("sst2", "dev")[:SENTENCES]])
    vocab_size = len(tokenizer.vocab)
    metrics: dict[str, Any] = {"bytes_per_second": bandwidth(), "kinds": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shards = prepare_corpus(folder, tokenizer)
        (planned,) = planned_batches(shards, PAIRS, 1, short_share=1.0, packed=True)
        (full,) = full_batches(shards, tokenizer, PAIRS, 1)
        kinds: dict[str, Callable[[], Work]] = {
            "inference, base": lambda: inference("base", sentences),
            "inference, MiniLM": lambda: inference("minilm", sentences),
            "inference, MiniLM, 8 bits": lambda: in_eight_bits(sentences, *classifier_of_eight_bits(folder)),
            "fine-tuning, MiniLM": lambda: finetuning(sentences),
            "pretraining, base, full rows": lambda: pretraining("base", vocab_size, full),
            "pretraining, base, pairs": lambda: pretraining("base", vocab_size, planned),
            "pretraining, tiny, pairs": lambda: pretraining("tiny", vocab_size, planned),
        }
        for kind, make in kinds.items():
            found = metrics["kinds"][kind] = measure(make(), arguments.turns)
            alone = found["products_alone"]["median"]
            print(f"{kind}: {found['share_of_peak']:.2f} of the peak, products alone {alone:.2f}")
    record.write(metrics, threads=1, sentences=SENTENCES, pairs=PAIRS, other=OTHER)


if __name__ == "__main__":
    main()
