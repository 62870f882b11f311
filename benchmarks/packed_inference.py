"""Packed rows against padded ones: sentences a second on the SST-2 dev sentences, batch 32.

Ours packs the 32 sentences of a batch into full rows and computes the pooled vectors. The other side is
``transformers.BertModel`` with its fused attention (SDPA), the same sentences padded to the longest of the batch, in
the order in which they arrive. Both have the same weights and a linear layer on the pooled vector; the logits are
compared. The two take turns, batch by batch, in one process. Tokenizing is done before; laying out the batch is timed.

    python benchmarks/packed_inference.py            # needs D2LBERT_DATA for the real sentences
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers
from record import Record
from torch import Tensor

from d2lbert import data
from d2lbert.data.batching import pack, pad
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.runtime import to_tensors
from d2lbert.weights.folder import canonical_name
from d2lbert.zoo import locate

BATCH = 32
TOLERANCE = 1e-4


def models(name: str) -> tuple[Any, BertModel]:
    """Return the reference and ours with the same weights: MiniLM's own, or random ones of BERT-base's sizes."""
    ours = BertModel.from_pretrained("minilm")
    if name == "minilm":
        reference = transformers.BertModel.from_pretrained(locate("minilm"), attn_implementation="sdpa")
        return reference.eval(), ours
    torch.manual_seed(0)
    reference = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa")).eval()
    ours = BertModel(ours.config.from_dict({}))  # our defaults are BERT-base, too
    state = {canonical_name(key): value.numpy() for key, value in reference.state_dict().items()}
    ours.load_tensors(state, "the reference")
    return reference, ours.eval()


def timed(run: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """Return seconds and result."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


@torch.inference_mode()
def compare(name: str, encodings: list[Any], passes: int) -> dict[str, Any]:
    """Run all batches on both sides in turn and return what was measured."""
    reference, ours = models(name)
    head = torch.randn(ours.config.hidden_size, 2, generator=torch.Generator().manual_seed(1))
    batches = [encodings[start : start + BATCH] for start in range(0, len(encodings), BATCH)]
    seconds: dict[str, list[float]] = {"reference": [], "ours": []}
    largest = 0.0

    def padded(batch: list[Any]) -> Tensor:
        rows = pad(batch)
        ids, mask = torch.from_numpy(rows.token_ids), torch.from_numpy(rows.mask)
        return reference(input_ids=ids, attention_mask=mask).pooler_output @ head

    def packed(batch: list[Any]) -> Tensor:
        return ours.forward_pooled(to_tensors(pack(batch))) @ head

    for _ in range(2):
        padded(batches[0]), packed(batches[0])
    for turn, batch in enumerate(batches * passes):
        sides = [("reference", padded), ("ours", packed)]
        logits = {}
        for side, function in sides if turn % 2 else reversed(sides):
            taken, logits[side] = timed(lambda function=function, batch=batch: function(batch))
            seconds[side].append(taken)
        largest = max(largest, float((logits["reference"] - logits["ours"]).abs().max()))
    if largest > TOLERANCE:
        raise SystemExit(f"{name}: logits differ by {largest:.1e}; the two sides did not compute the same")
    ratios = [one / two for one, two in zip(seconds["reference"], seconds["ours"], strict=True)]
    quartiles = statistics.quantiles(ratios, n=4)
    tokens = sum(len(encoding.ids) for encoding in encodings)
    return {
        "sentences": len(encodings),
        "passes": passes,
        "padded_positions_per_token": sum(pad(batch).token_ids.size for batch in batches) / tokens,
        "packed_positions_per_token": sum(pack(batch).token_ids.size for batch in batches) / tokens,
        "sentences_per_second": {side: len(encodings) * passes / sum(taken) for side, taken in seconds.items()},
        "ratio_of_totals": sum(seconds["reference"]) / sum(seconds["ours"]),
        "ratio_by_batch": {"median": statistics.median(ratios), "quartiles": [quartiles[0], quartiles[2]]},
        "largest_difference_of_logits": largest,
    }


def main() -> None:
    """Measure both models and write ``results/bert/packed_inference.json``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=3, help="how often to go through the sentences")
    arguments = parser.parse_args()
    record = Record("bert/packed_inference", ["torch", "transformers", "d2lbert"], seeds=[0])
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    texts = [example.text for example in data.load("sst2", "dev")]
    encodings = tokenizer.encode_batch(texts, max_length=512)
    metrics = {}
    for name, passes in (("minilm", 2 * arguments.passes), ("base", arguments.passes)):
        metrics[name] = compare(name, encodings, passes)
        rates = metrics[name]["sentences_per_second"]
        print(f"{name}: {rates['ours']:.1f} sentences/s, transformers {rates['reference']:.1f}, ", end="")
        print(f"ratio {metrics[name]['ratio_of_totals']:.2f}")
    record.write(metrics, data="sst2 dev, sample" if data.is_sample("sst2") else "sst2 dev", batch_size=BATCH)


if __name__ == "__main__":
    main()
