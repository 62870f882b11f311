"""Data for pretraining: tokenising, masking, and the whole way from tokens to batches, in tokens a second.

* Tokenising: ours against ``encode_batch_fast`` of `tokenizers`, one core each, over a corpus from a cold start,
  and once more when every word is known; the ids are compared.
* Masking: ours against a loop over tokens and against ``DataCollatorForLanguageModeling`` of `transformers`, on the
  same batches: masking alone, and padding with masking.
* The pipeline: pairs, masks, padded rows, against the loop; and with packed rows, which is more work. With the 256
  pairs in a batch that the paper has, and with 32, where ours spends most of its time on calls, not on tokens.

The sides take turns, chunk by chunk, in one process on one core.

    python benchmarks/pretraining_data.py            # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os

os.environ["RAYON_NUM_THREADS"] = "1"  # before `tokenizers` is imported: one core for each side

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from pretraining_loop_recipe import LoopRecipe
from record import Record

from d2lbert import data
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.masking import Masking
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.data.pretraining.tokenizing import CorpusTokenizer
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.zoo import locate

PARAGRAPHS = 3000  # of a chunk: about a million characters
BATCH, LENGTH = 32, 128
PIPELINE_BATCHES = (256, 32)  # pairs in a batch; the first is that of Devlin et al. (2019, appendix A.2)
PIPELINE_PAIRS = 768  # of a turn


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return seconds and result."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def take_turns(sides: dict[str, Callable[[Any], Any]], chunks: Sequence[Any]) -> dict[str, list[float]]:
    """Return the seconds of each side for each chunk. The order of the sides turns from chunk to chunk."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn, chunk in enumerate(chunks):
        names = list(sides) if turn % 2 else list(reversed(sides))
        for name in names:
            seconds[name].append(timed(functools.partial(sides[name], chunk))[0])
    return seconds


def summary(seconds: dict[str, list[float]], amounts: Sequence[float], unit: str) -> dict[str, Any]:
    """Return rates, and how many times faster ours is than each other side: of the totals, and chunk by chunk."""
    found: dict[str, Any] = {unit: {name: sum(amounts) / sum(taken) for name, taken in seconds.items()}}
    for name in seconds:
        if name != "ours":
            ratios = [one / two for one, two in zip(seconds[name], seconds["ours"], strict=True)]
            quartiles = statistics.quantiles(ratios, n=4)
            found[f"times_{name}"] = {
                "total": sum(seconds[name]) / sum(seconds["ours"]),
                "median": statistics.median(ratios),
                "quartiles": [quartiles[0], quartiles[2]],
            }
    return found


def tokenizing(paragraphs: list[str], tokenizer: WordPiece) -> dict[str, Any]:
    """Tokenise a corpus on both sides, from a cold start."""
    fast = CorpusTokenizer(tokenizer)
    size = min(PARAGRAPHS, len(paragraphs) // 8)
    chunks = [paragraphs[start : start + size] for start in range(0, len(paragraphs), size)]
    results: dict[str, list[Any]] = {"ours": [], "encode_batch_fast": []}
    sides = {
        "encode_batch_fast": lambda chunk: results["encode_batch_fast"].append(library_ids(tokenizer, chunk)),
        "ours": lambda chunk: results["ours"].append(fast.encode_paragraphs(chunk).ids),
    }
    tokenizer.encode_ids(["warm up"])
    seconds = take_turns(sides, chunks)
    for one, two in zip(results["ours"], results["encode_batch_fast"], strict=True):
        if not np.array_equal(one, np.concatenate([np.array(encoding.ids, dtype=np.int64) for encoding in two])):
            raise SystemExit("the ids of the two sides differ")
    amounts = [sum(map(len, chunk)) / 1e6 for chunk in chunks]
    unit = "million_characters_per_second"
    again = take_turns({name: sides[name] for name in sides}, chunks)  # every word has been met
    return {
        "chunks": len(chunks),
        "from_cold": summary(seconds, amounts, unit),
        "second_pass": summary(again, amounts, unit),
    }


def library_ids(tokenizer: WordPiece, chunk: list[str]) -> list[Any]:
    """Tokenise with the library; the ids stay inside its objects, which costs it nothing."""
    return tokenizer._bulk.encode_batch_fast(chunk, add_special_tokens=False)


def masking(shards: TokenShards, tokenizer: WordPiece, batches: int) -> dict[str, Any]:
    """Mask the same padded batches on three sides."""
    examples = unmasked(shards, batches)
    collator = transformers.DataCollatorForLanguageModeling(
        transformers.BertTokenizerFast(
            vocab=str(shards.folder / "vocab.txt"), vocab_file=str(shards.folder / "vocab.txt")
        )
    )
    special = np.array([tokenizer.token_to_id[token] for token in SPECIAL_TOKENS])
    loop = recipe(tokenizer)
    ours = Masking(tokenizer)
    random = np.random.default_rng(0)
    flat = [np.concatenate(texts) for texts in examples]
    rectangles = [torch.from_numpy(padded(texts)) for texts in examples]
    special_masks = [torch.from_numpy(np.isin(grid.numpy(), special)) for grid in rectangles]
    lists = [[text.tolist() for text in texts] for texts in examples]
    strings = [[[tokenizer.vocab[index] for index in ids] for ids in texts] for texts in lists]
    features = [
        [{"input_ids": ids, "special_tokens_mask": np.isin(ids, special).astype(int).tolist()} for ids in texts]
        for texts in lists
    ]
    sides = {
        "loop": lambda turn: [loop.masked(tokens) for number in turn for tokens in strings[number]],
        "collator": lambda turn: [collator.torch_mask_tokens(rectangles[n].clone(), special_masks[n]) for n in turn],
        "ours": lambda turn: [ours(flat[number], random) for number in turn],
    }
    # Twenty batches a turn: in training, too, one batch comes after the other.
    turns = [range(first, first + 20) for first in range(0, batches - batches % 20, 20)]
    amounts = [float(sum(len(flat[number]) for number in turn)) for turn in turns]
    alone = summary(take_turns(sides, turns), amounts, "tokens_per_second")
    sides = {
        "collator": lambda turn: [collator(features[number]) for number in turn],
        "ours": lambda turn: [padded_and_masked(ours, examples[number], random) for number in turn],
    }
    return {
        "batches": batches,
        "alone": alone,
        "with_padding": summary(take_turns(sides, turns), amounts, "tokens_per_second"),
    }


def unmasked(shards: TokenShards, batches: int) -> list[list[np.ndarray]]:
    """Return the texts of some batches as they were before masking."""
    settings = PretrainingSettings(max_length=LENGTH, batch_size=BATCH, packed=False)
    found = []
    for batch, _ in itertools.islice(PretrainingData(shards, settings).batches(), batches):
        grid = batch.rows.token_ids.copy()
        grid.reshape(-1)[batch.masked_positions] = batch.masked_ids
        found.append([row[: int(mask.sum())] for row, mask in zip(grid, batch.rows.mask, strict=True)])
    return found


def padded(texts: list[np.ndarray]) -> np.ndarray:
    """Put texts into one rectangle, filled up with 0."""
    lengths = np.array([len(text) for text in texts])
    grid = np.zeros((len(texts), int(lengths.max())), dtype=np.int64)
    grid[np.arange(grid.shape[1]) < lengths[:, None]] = np.concatenate(texts)
    return grid


def padded_and_masked(masking: Masking, texts: list[np.ndarray], random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Do what the collator does: ids and labels, (N, L) each, -100 where nothing is asked."""
    grid = padded(texts)
    masked = masking(grid.reshape(-1), random)
    labels = np.full(grid.size, -100)
    labels[masked.positions] = masked.targets
    return masked.ids.reshape(grid.shape), labels.reshape(grid.shape)


def recipe(tokenizer: WordPiece) -> LoopRecipe:
    """Return the loop for a vocabulary."""
    return LoopRecipe(tokenizer.vocab, LENGTH, seed=0)


def pipeline(shards: TokenShards, tokenizer: WordPiece, rounds: int, size: int) -> dict[str, Any]:
    """From tokens in memory to batches of ``size`` pairs, in turns."""
    shard = shards.load(shards.names("train")[0])
    pieces = [tokenizer.vocab[index] for index in shard.tokens]
    sentences = [pieces[a:b] for a, b in itertools.pairwise(shard.sentences)]
    documents = [sentences[a:b] for a, b in itertools.pairwise(shard.documents)]
    loop = recipe(tokenizer)
    pairs = itertools.chain.from_iterable(loop.pairs(documents) for _ in itertools.count())
    streams = {
        name: PretrainingData(shards, PretrainingSettings(max_length=LENGTH, batch_size=size, packed=packed)).batches()
        for name, packed in (("ours", False), ("ours_packed", True))
    }
    count = PIPELINE_PAIRS // size

    def run(name: str) -> int:
        if name == "loop":
            return sum(int(loop.batch(list(itertools.islice(pairs, size)))[2].sum()) for _ in range(count))
        return sum(batch.rows.num_tokens for batch, _ in itertools.islice(streams[name], count))

    seconds: dict[str, list[float]] = {"loop": [], "ours": [], "ours_packed": []}  # for a token
    for name in seconds:
        run(name)
    for turn in range(rounds):
        for name in list(seconds)[:: 1 if turn % 2 else -1]:
            taken, tokens = timed(functools.partial(run, name))
            seconds[name].append(taken / tokens)
    found: dict[str, Any] = {"rounds": rounds, "tokens_per_second": {}}
    for name, taken_for_one in seconds.items():
        found["tokens_per_second"][name] = 1 / statistics.mean(taken_for_one)
        if name != "loop":
            ratios = [one / two for one, two in zip(seconds["loop"], taken_for_one, strict=True)]
            quartiles = statistics.quantiles(ratios, n=4)
            total = sum(seconds["loop"]) / sum(taken_for_one)
            spread = {"median": statistics.median(ratios), "quartiles": [quartiles[0], quartiles[2]]}
            found[f"{name}_times_loop"] = {"total": total, **spread}
    return found


def paragraphs_of(name: str) -> Iterator[str]:
    """Yield the paragraphs of a corpus."""
    for document in data.read(name, "train"):
        yield from document.paragraphs


def main() -> None:
    """Measure all three and write ``results/pretraining/data.json``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=49, help="of text to tokenise")
    parser.add_argument("--batches", type=int, default=200, help="to mask")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    record = Record("pretraining/data", ["torch", "transformers", "tokenizers", "numpy", "d2lbert"], seeds=[0])
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    paragraphs, size = [], 0
    for paragraph in paragraphs_of("wikipedia_en"):
        paragraphs.append(paragraph)
        size += len(paragraph)
        if size >= arguments.megabytes * 1_000_000:
            break
    metrics: dict[str, Any] = {"tokenizing": tokenizing(paragraphs, tokenizer)}
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "corpus.txt"
        documents = [paragraphs[start : start + 6] for start in range(0, min(len(paragraphs), 20_000), 6)]
        text.write_text("\n\n".join("\n".join(document) for document in documents))
        shards = prepare([text], Path(folder) / "shards", tokenizer, Preparation())
        metrics["masking"] = masking(shards, tokenizer, arguments.batches)
        metrics["pipeline"] = {
            f"batches of {size}": pipeline(shards, tokenizer, max(4, arguments.batches // 10), size)
            for size in PIPELINE_BATCHES
        }
    for name, found in (
        ("tokenizing, from cold", metrics["tokenizing"]["from_cold"]["times_encode_batch_fast"]),
        ("tokenizing, second pass", metrics["tokenizing"]["second_pass"]["times_encode_batch_fast"]),
        ("masking, loop", metrics["masking"]["alone"]["times_loop"]),
        ("masking, collator", metrics["masking"]["alone"]["times_collator"]),
        ("padding and masking, collator", metrics["masking"]["with_padding"]["times_collator"]),
        *((f"pipeline, {size}, loop", found["ours_times_loop"]) for size, found in metrics["pipeline"].items()),
    ):
        print(f"{name}: {found['total']:.1f} times as fast, median {found['median']:.1f}")
    sample = "sample" if data.is_sample("wikipedia_en") else "real"
    record.write(metrics, data=f"wikipedia_en, {sample}, {size:,} characters", batch_size=BATCH, max_length=LENGTH)


if __name__ == "__main__":
    main()
