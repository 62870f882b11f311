"""The beginning of the shipped model's training, with its loss apart for tokens that are hidden, replaced and kept.

The recipe and the data are those of ``d2lbert-tiny``: the same batches, schedule and first weights. The mean over all
chosen tokens falls below the entropy of pieces before anything is learned at ``[MASK]``, because a kept token can be
copied. This run shows which kind of token the loss falls at, and when. A run that is stopped keeps what it measured.

    python -m benchmarks.pretraining.copying    # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.command_line import add_precision, command_line
from benchmarks.pretraining.gaps import by_what_is_shown, corpus, without_context
from benchmarks.record import ROOT, Record
from d2lbert.config import preset
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.training.pretraining import Pretraining, Trainer

SEED, ALL_STEPS, LENGTH = 0, 40_000, 128  # the schedule is that of the whole run


def main() -> None:
    """Train, measure on the way, and write ``results/pretraining/copying.json`` each time."""
    parser = command_line(__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "gaps", help="for the corpus")
    parser.add_argument("--steps", type=int, default=850, help="of the 40,000")
    parser.add_argument("--every", type=int, default=50, help="steps between two measurements")
    parser.add_argument("--batches", type=int, default=5, help="of 64 held-out pairs")
    add_precision(parser)
    options = parser.parse_args()
    record = Record(
        "pretraining/copying", ["torch", "d2lbert"], seeds=[SEED], data_sets=["wikipedia_en"], samples_do=False
    )
    shards = corpus(options.out)
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    seed_everything(SEED)
    model = BertForPretraining(preset("tiny").replace(vocab_size=8192, initializer_range=0.08, **no_dropout))
    data = PretrainingData(shards, PretrainingSettings(LENGTH, 32, SEED))
    settings = Pretraining(ALL_STEPS, learning_rate=3e-3, warmup=0.05, seed=SEED, precision=options.precision)
    trainer = Trainer(model, data, None, settings, Path())
    batches = data.batches()
    curve: list[dict[str, Any]] = []
    metrics = {"curve": curve, "without context": without_context(shards)}
    for step in range(1, options.steps + 1):
        trainer.train_step(batches)
        if step % options.every == 0:
            model.eval()
            curve.append({"step": step, "tokens": trainer.tokens, **by_what_is_shown(model, shards, options.batches)})
            record.write(metrics, corpus=shards.digest(), max_length=LENGTH, initializer_range=0.08)


if __name__ == "__main__":
    main()
