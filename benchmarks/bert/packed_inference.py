"""Packed rows against padded ones: sentences a second on the SST-2 dev sentences, batch 32.

Ours packs the 32 sentences of a batch into full rows and computes the pooled vectors. The other side is
``transformers.BertModel`` with its fused attention (SDPA), the same sentences padded to the longest of the batch, in
the order in which they arrive. Both have the same weights and a linear layer on the pooled vector; the logits are
compared. The two take turns, batch by batch, in one process. Tokenizing is done before; laying out the batch is timed.

    python -m benchmarks.bert.packed_inference    # needs D2LBERT_DATA for the real sentences
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.record import Record
from benchmarks.timing import compare, in_words, take_turns, timed
from benchmarks.twins import twin
from d2lbert import data
from d2lbert.config import preset
from d2lbert.data.batching import pack, pad
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.runtime import to_tensors
from d2lbert.zoo import locate

BATCH = 32
WARM_UP = 2
TOLERANCE = 1e-4


def models(name: str) -> tuple[Any, BertModel]:
    """Return the reference and ours with the same weights: MiniLM's own, or random ones of BERT-base's sizes."""
    torch.manual_seed(0)
    ours = BertModel.from_pretrained("minilm") if name == "minilm" else BertModel(preset("base"))
    return twin(ours, "BertModel").eval(), ours.eval()


@torch.inference_mode()
def measure(name: str, encodings: list[Any], passes: int) -> dict[str, Any]:
    """Run all batches on both sides in turn and return what was measured."""
    reference, ours = models(name)
    head = torch.randn(ours.config.hidden_size, 2, generator=torch.Generator().manual_seed(1))
    batches = [encodings[start : start + BATCH] for start in range(0, len(encodings), BATCH)]
    logits: dict[str, list[Tensor]] = {"reference": [], "ours": []}

    def padded(batch: list[Any]) -> None:
        rows = pad(batch)
        ids, mask = torch.from_numpy(rows.token_ids), torch.from_numpy(rows.mask)
        logits["reference"].append(reference(input_ids=ids, attention_mask=mask).pooler_output @ head)

    def packed(batch: list[Any]) -> None:
        logits["ours"].append(ours.forward_pooled(to_tensors(pack(batch))) @ head)

    sides = {"reference": timed(padded, len), "ours": timed(packed, len)}
    laps = take_turns(sides, [batches[0]] * WARM_UP + batches * passes, WARM_UP)
    largest = max(float((one - two).abs().max()) for one, two in zip(logits["reference"], logits["ours"], strict=True))
    if largest > TOLERANCE:
        raise SystemExit(f"{name}: logits differ by {largest:.1e}; the two sides did not compute the same")
    tokens = sum(len(encoding.ids) for encoding in encodings)
    return {
        "sentences": len(encodings),
        "passes": passes,
        "padded_positions_per_token": sum(pad(batch).token_ids.size for batch in batches) / tokens,
        "packed_positions_per_token": sum(pack(batch).token_ids.size for batch in batches) / tokens,
        **compare(laps, "sentences"),
        "largest_difference_of_logits": largest,
    }


def main() -> None:
    """Measure both models and write ``results/bert/packed_inference.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--passes", type=int, default=3, help="how often to go through the sentences")
    arguments = parser.parse_args()
    record = Record("bert/packed_inference", ["torch", "transformers", "d2lbert"], seeds=[0], data_sets=["sst2"])
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    texts = [example.text for example in data.load("sst2", "dev")]
    encodings = tokenizer.encode_batch(texts, max_length=512)
    metrics = {}
    for name, passes in (("minilm", 2 * arguments.passes), ("base", arguments.passes)):
        metrics[name] = measure(name, encodings, passes)
        print(f"{name}, {in_words(metrics[name])}", flush=True)
    record.write(metrics, data="sst2 dev", batch_size=BATCH)


if __name__ == "__main__":
    main()
