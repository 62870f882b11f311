"""Multi30k, English to German: the Transformer beside the attentional GRU at equal training tokens.

Both read the same batches in the same order. The weights of the best look at the dev set are scored by BLEU, with a
beam of four. The test set is scored once, at the end. Some translations of dev sentences are kept, and where the
Transformer's encoder looks from the word "it". With --resume a stopped run goes on from its last checkpoint.

    python -m benchmarks.translation.multi30k    # needs D2LBERT_DATA or a network; hours on two cores
    python -m benchmarks.translation.multi30k --steps 20 --evaluate-every 10 --test 40 --result translation/trial
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import torch

from benchmarks.command_line import command_line
from benchmarks.record import ROOT, Record
from d2lbert import data, metrics
from d2lbert.config import Seq2SeqConfig, transformer_preset
from d2lbert.data.examples import Translation
from d2lbert.data.translation import EncodedPair, encode_pairs, encode_source, learn_vocabulary
from d2lbert.storage import checkpoints
from d2lbert.text import BytePairEncoding
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer
from d2lbert.torch.translation import SequenceTraining, train_sequences, translate

# The highest learning rates, at the end of the warm-up.
LEARNING_RATES = {"transformer": 3e-3, "seq2seq": 2e-3}
# In the first, "it" is a thing named before; in the second it may be either of two.
PRONOUNS = (
    "A red plane flying over a boat as it trails pink smoke.",
    "The car leaves a dust trail as it goes around the dirt track.",
)
SHOWN = 8
RUNS = {"multi30k": "translation", "multi30k_fr": "translation_fr"}  # folders of checkpoints, below runs/


def build(kind: str, preset: str, vocabulary: int, seed: int) -> Any:
    """Return a Transformer of a preset, or a GRU with additive attention of about as many parameters."""
    seed_everything(seed)
    config = transformer_preset(preset, vocabulary)
    if kind == "transformer":
        return Transformer(config)
    size = config.hidden_size
    return Seq2Seq(Seq2SeqConfig(vocabulary, vocabulary, 2 * size, hidden_dropout_prob=0.3, embedding_size=size))


def tokenizer_for(path: Path, train: list[Translation], merges: int) -> BytePairEncoding:
    """Read the vocabulary of the run, or learn it."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        learn_vocabulary(train, merges).save(path)
    return BytePairEncoding.load(path)


def scored(model: Any, tokenizer: BytePairEncoding, examples: list[Translation]) -> dict[str, Any]:
    """Return the BLEU of a model's translations, with sacrebleu's signature."""
    found = translate(model, tokenizer, [example.source for example in examples])
    return metrics.bleu(found, [example.target for example in examples])._asdict()


@torch.inference_mode()
def looks(model: Transformer, tokenizer: BytePairEncoding, text: str) -> dict[str, Any]:
    """Return the pieces of a text and, for every encoder block and head, the attention of the piece "it" to them."""
    ids = encode_source(text, tokenizer)
    pieces = [tokenizer.piece(token) for token in ids]
    place = next(place for place, piece in enumerate(pieces) if piece.strip() == "it")
    output = model.encode(torch.tensor([ids], device=next(model.parameters()).device), output_attentions=True)
    assert output.attentions is not None
    weights = [block[0, :, place].cpu().numpy().round(3).tolist() for block in output.attentions]  # (H, M) each
    return {"pieces": pieces, "place": place, "attention": weights}


def arguments(doc: str | None, name: str) -> argparse.Namespace:
    """Read the command line of the script of a data set; ``doc`` is its help."""
    parser = command_line(str(doc))
    parser.add_argument("--models", default="transformer,seq2seq")
    parser.add_argument("--preset", default="tiny", help="tiny, mini, base or big")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--tokens", type=int, default=2048, help="positions of a batch")
    parser.add_argument("--warmup-steps", type=int, default=800)
    parser.add_argument("--evaluate-every", type=int, default=250)
    parser.add_argument("--merges", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test", type=int, default=1000, help="sentences of dev and test to translate")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / RUNS[name])
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--result", default=f"translation/{name}", help="results/<this>.json")
    return parser.parse_args()


def run(
    kind: str, options: argparse.Namespace, tokenizer: BytePairEncoding, encoded: dict[str, list[EncodedPair]]
) -> tuple[Any, list[dict[str, float]]]:
    """Train one model; where it was begun and is to be resumed, go on."""
    folder = options.out / kind
    settings = SequenceTraining(
        options.steps,
        options.tokens,
        LEARNING_RATES[kind],
        options.warmup_steps,
        evaluate_every=options.evaluate_every,
        seed=options.seed,
    )
    model = build(kind, options.preset, len(tokenizer), options.seed)
    resume = options.resume and checkpoints.begun(folder / "checkpoints")
    history = train_sequences(model, encoded["train"], encoded["dev"], settings, best_device(), folder, resume)
    return model, history


def measure(name: str, languages: str, doc: str | None) -> None:
    """Train, translate, write the result.

    Args:
        name: of the data set and of the result, ``multi30k`` or ``multi30k_fr``.
        languages: such as ``English to German``.
        doc: the script's docstring, for its help.
    """
    options = arguments(doc, name)
    torch.set_float32_matmul_precision("high")
    record = Record(options.result, ["torch", "sacrebleu"], [options.seed], data_sets=[name])
    examples = {split: data.load(name, split) for split in ("train", "dev", "test")}
    tokenizer = tokenizer_for(options.out / "vocabulary.json", examples["train"], options.merges)
    encoded = {split: encode_pairs(examples[split], tokenizer) for split in ("train", "dev")}
    measured: dict[str, Any] = {}
    configurations: dict[str, Any] = {}
    pronouns: list[dict[str, Any]] = []
    for kind in options.models.split(","):
        model, history = run(kind, options, tokenizer, encoded)
        configurations[kind] = dataclasses.asdict(model.config)
        measured[kind] = {
            "parameters": count_parameters(model),
            "tokens": history[-1]["tokens"],
            "training_seconds": round(history[-1]["seconds"], 1),
            "dev": scored(model, tokenizer, examples["dev"][: options.test]),
            "test": scored(model, tokenizer, examples["test"][: options.test]),
            "curve": history,
            "examples": translate(model, tokenizer, [example.source for example in examples["dev"][:SHOWN]]),
        }
        print(kind, measured[kind]["dev"], measured[kind]["test"], flush=True)
        if isinstance(model, Transformer):
            pronouns = [looks(model, tokenizer, text) for text in PRONOUNS]
    record.write(
        measured,
        data=f"multi30k, {languages}",
        sentences={split: len(pairs) for split, pairs in examples.items()},
        settings={name: str(value) for name, value in vars(options).items() if name not in ("out", "resume")},
        learning_rates=LEARNING_RATES,
        configurations=configurations,
        examples=[dataclasses.asdict(example) for example in examples["dev"][:SHOWN]],
        pronouns=pronouns,
    )


if __name__ == "__main__":
    measure("multi30k", "English to German", __doc__)
