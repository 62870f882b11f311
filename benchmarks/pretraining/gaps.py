"""How many hidden tokens a pretrained BERT names, apart from those that only look hidden.

Training asks for tokens of three kinds: most are ``[MASK]``, some another piece, some stand there unchanged. A model
that copies what it sees is right at the last kind without any context. So each kind is measured alone, on held-out
documents, and beside the model what can be had without context:

* *frequencies*: the entropy of the shares of pieces, at every place;
* *copying*: at ``[MASK]`` the shares of pieces; elsewhere the shown piece, believed as far as the rule for masks and
  the shares of pieces allow. No model that looks at the place alone has a lower loss.

The same model also names the next tokens and the gaps of ``benchmarks/pretraining/gpt.py``, at the same places.

The corpus is cut with the model's own vocabulary. A document's text decides whether it is held out, so these are the
documents that the model did not read.

    python -m benchmarks.pretraining.gaps    # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command_line import command_line
from benchmarks.pretraining import gpt
from benchmarks.record import ROOT, Record
from d2lbert import data
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.corpus import corpus_files
from d2lbert.data.pretraining.shards import INDEX_FILE, Preparation, TokenShards, prepare
from d2lbert.text import WordPiece
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_tensors
from d2lbert.zoo import locate

MODEL, LENGTH = "d2lbert-tiny", 128
KINDS = ("[MASK]", "another piece", "itself")


def corpus(folder: Path) -> TokenShards:
    """Open the prepared corpus, or prepare it with the vocabulary of the model."""
    if not (folder / INDEX_FILE).is_file():
        files = corpus_files([str(data.fetch("wikipedia_en"))])
        prepare(files, folder, WordPiece.from_pretrained(locate(MODEL)), Preparation())
    return TokenShards.open(folder)


@torch.inference_mode()
def by_what_is_shown(model: BertForPretraining, shards: TokenShards, batches: int) -> dict[str, dict[str, float]]:
    """Return number, loss and share of right guesses at the chosen tokens of held-out documents, by what is shown."""
    settings = PretrainingSettings(max_length=LENGTH, batch_size=64)
    held_out = PretrainingData(shards, settings, "dev", ask_everywhere=True)
    mask = shards.tokenizer().token_to_id["[MASK]"]
    kinds, losses, hits = [], [], []
    for batch, _ in itertools.islice(held_out.epoch(0), batches):
        positions, truth = torch.from_numpy(batch.masked_positions), torch.from_numpy(batch.masked_ids)
        steps = model.objectives(to_tensors(batch.rows), positions)["masked"].log_softmax(-1)  # (P, V)
        shown = batch.rows.token_ids.reshape(-1)[batch.masked_positions]
        kinds.append(np.where(shown == mask, 0, 1 + (shown == batch.masked_ids)))
        losses.append(-steps.gather(1, truth[:, None])[:, 0].numpy())
        hits.append((steps.argmax(-1) == truth).numpy())
    kind, loss, hit = (np.concatenate(parts) for parts in (kinds, losses, hits))
    chosen = {name: kind == number for number, name in enumerate(KINDS)} | {"all": kind >= 0}
    return {name: _scores(loss[which], hit[which]) for name, which in chosen.items()}


def _scores(losses: np.ndarray, hits: np.ndarray) -> dict[str, float]:
    share = float(hits.mean())
    error = math.sqrt(share * (1 - share) / len(hits))
    return {"tokens": len(hits), "loss": float(losses.mean()), "accuracy": share, "standard_error": error}


def without_context(shards: TokenShards) -> dict[str, float]:
    """Return the losses of frequencies and of copying, from the shares of pieces in the training documents."""
    size = len(shards.tokenizer().vocab)
    counts = sum(np.bincount(shards.load(name).tokens, minlength=size) for name in shards.names("train"))
    shares = np.asarray(counts) / np.sum(counts)
    seen = shares[shares > 0]
    entropy = float(-(seen * np.log(seen)).sum())
    # A shown piece v that is no [MASK] was kept with probability f_v and drawn with 1 / V, a tenth each.
    kept = seen / (seen + 1 / size)
    believed = kept + (1 - kept) * seen  # the probability of v, given that v is shown
    doubted = 1 - kept
    itself = float(-(seen * np.log(believed)).sum())
    # Where another piece w is shown, the truth v has probability (1 - kept_w) f_v; w is drawn evenly.
    unseen = size - len(seen)  # shown, they are always wrong
    other = entropy - float(np.log(doubted).sum() / (len(doubted) + unseen))
    return {"frequencies": entropy, "copying": 0.8 * entropy + 0.1 * itself + 0.1 * other, "at itself": itself}


def same_gaps(model: BertForPretraining, shards: TokenShards, count: int) -> dict[str, Any]:
    """Return how many tokens the model names at the places of ``benchmarks/pretraining/gpt.py``."""
    texts = gpt.held_out(shards, count)
    places = gpt.gaps(texts, gpt.SEED)
    answers = torch.tensor([text[place] for text, place in zip(texts, places, strict=True)])
    steps = gpt.bert_scores(model, texts, places, shards.tokenizer().token_to_id["[MASK]"])
    return {"texts": len(texts)} | {name: gpt.score(found, answers) for name, found in steps.items()}


def main() -> None:
    """Measure all and write ``results/pretraining/gaps.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "gaps", help="for the corpus")
    parser.add_argument("--batches", type=int, default=100, help="of 64 held-out pairs")
    parser.add_argument("--texts", type=int, default=500, help="with a gap each, as in benchmarks/pretraining/gpt.py")
    options = parser.parse_args()
    record = Record(
        "pretraining/gaps", ["torch", "numpy", "d2lbert"], seeds=[0], data_sets=["wikipedia_en"], samples_do=False
    )
    shards = corpus(options.out)
    model = BertForPretraining.from_pretrained(MODEL)
    metrics = {
        "by what is shown": by_what_is_shown(model, shards, options.batches),
        "without context": without_context(shards),
        "gaps of pretraining/gpt": same_gaps(model, shards, options.texts),
    }
    print(metrics)
    record.write(metrics, model=MODEL, corpus=shards.digest(), max_length=LENGTH)


if __name__ == "__main__":
    main()
