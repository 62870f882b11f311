"""Data for pretraining: tokenising, masking, and the whole way from tokens to batches, in tokens a second.

* Tokenising: ours against ``encode_batch_fast`` of `tokenizers`, one core each, over a corpus from a cold start,
  and once more when every word is known; the ids are compared.
* Masking: ours against a loop over tokens and against ``DataCollatorForLanguageModeling`` of `transformers`, on the
  same batches: masking alone, and padding with masking.
* The pipeline: pairs, masks, padded rows, against the loop; and with packed rows, which is more work. With the 256
  pairs in a batch that the paper has, and with 32, where ours spends most of its time on calls, not on tokens.

The sides take turns, chunk by chunk, in one process on one core.

    python -m benchmarks.pretraining.data    # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks.command_line import command_line
from benchmarks.loop_recipe import LoopRecipe
from benchmarks.record import Record
from benchmarks.timing import Side, compare, in_words, take_turns, timed
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


def tokenizing(paragraphs: list[str], tokenizer: WordPiece) -> dict[str, Any]:
    """Tokenise a corpus on both sides, from a cold start."""
    fast = CorpusTokenizer(tokenizer)
    size = min(PARAGRAPHS, len(paragraphs) // 8)
    chunks = [paragraphs[start : start + size] for start in range(0, len(paragraphs), size)]
    results: dict[str, list[Any]] = {"ours": [], "encode_batch_fast": []}

    def millions(chunk: list[str]) -> float:
        return sum(map(len, chunk)) / 1e6

    sides = {
        "encode_batch_fast": timed(
            lambda chunk: results["encode_batch_fast"].append(library_ids(tokenizer, chunk)), millions
        ),
        "ours": timed(lambda chunk: results["ours"].append(fast.encode_paragraphs(chunk).ids), millions),
    }
    tokenizer.encode_ids(["warm up"])
    laps = take_turns(sides, chunks)
    for one, two in zip(results["ours"], results["encode_batch_fast"], strict=True):
        if not np.array_equal(one, np.concatenate([np.array(encoding.ids, dtype=np.int64) for encoding in two])):
            raise SystemExit("the ids of the two sides differ")
    again = take_turns(sides, chunks)  # every word has been met
    pairs = [("ours", "encode_batch_fast")]
    return {
        "from_cold": compare(laps, "million_characters", pairs),
        "second_pass": compare(again, "million_characters", pairs),
    }


def library_ids(tokenizer: WordPiece, chunk: list[str]) -> list[Any]:
    """Tokenise with the library; the ids stay inside its objects, which costs it nothing."""
    return tokenizer._bulk.encode_batch_fast(chunk, add_special_tokens=False)


def masking(shards: TokenShards, tokenizer: WordPiece, batches: int) -> dict[str, Any]:
    """Mask the same padded batches on three sides, and pad and mask them on two."""
    examples = unmasked(shards, batches)
    vocabulary = str(shards.folder / "vocab.txt")
    reference = transformers.BertTokenizerFast(vocab=vocabulary, vocab_file=vocabulary)
    collator = transformers.DataCollatorForLanguageModeling(reference)
    special = np.array([tokenizer.token_to_id[token] for token in SPECIAL_TOKENS])
    # Twenty batches a turn: in training, too, one batch comes after the other.
    turns = [range(first, first + 20) for first in range(0, batches - batches % 20, 20)]
    alone = take_turns(sides_of_masking(examples, tokenizer, collator, special), turns)
    with_padding = take_turns(sides_of_padding(examples, tokenizer, collator, special), turns)
    return {
        "batches": batches,
        "alone": compare(alone, "tokens", [("ours", "loop"), ("ours", "collator")]),
        "with_padding": compare(with_padding, "tokens", [("ours", "collator")]),
    }


def sides_of_masking(
    examples: list[list[np.ndarray]], tokenizer: WordPiece, collator: Any, special: np.ndarray
) -> dict[str, Side]:
    """Return the sides that mask the batches of a turn, each from the form that it works on."""
    loop, ours, random = recipe(tokenizer), Masking(tokenizer), np.random.default_rng(0)
    flat = [np.concatenate(texts) for texts in examples]
    strings = [[[tokenizer.vocab[index] for index in text] for text in texts] for texts in examples]
    grids = [torch.from_numpy(padded(texts)) for texts in examples]
    special_masks = [torch.from_numpy(np.isin(grid.numpy(), special)) for grid in grids]
    tokens = tokens_of(examples)
    return {
        "loop": timed(lambda turn: [loop.masked(pieces) for n in turn for pieces in strings[n]], tokens),
        "collator": timed(
            lambda turn: [collator.torch_mask_tokens(grids[n].clone(), special_masks[n]) for n in turn], tokens
        ),
        "ours": timed(lambda turn: [ours(flat[n], random) for n in turn], tokens),
    }


def sides_of_padding(
    examples: list[list[np.ndarray]], tokenizer: WordPiece, collator: Any, special: np.ndarray
) -> dict[str, Side]:
    """Return the sides that pad and mask the batches of a turn."""
    ours, random = Masking(tokenizer), np.random.default_rng(0)
    features = [
        [
            {"input_ids": ids.tolist(), "special_tokens_mask": np.isin(ids, special).astype(int).tolist()}
            for ids in texts
        ]
        for texts in examples
    ]
    tokens = tokens_of(examples)
    return {
        "collator": timed(lambda turn: [collator(features[n]) for n in turn], tokens),
        "ours": timed(lambda turn: [padded_and_masked(ours, examples[n], random) for n in turn], tokens),
    }


def tokens_of(examples: list[list[np.ndarray]]) -> Callable[[range], int]:
    """Return the function that counts the tokens in the batches of a turn."""
    return lambda turn: sum(len(text) for n in turn for text in examples[n])


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

    def by_loop(turn: int) -> int:
        return sum(int(loop.batch(list(itertools.islice(pairs, size)))[2].sum()) for _ in range(count))

    def by_ours(name: str) -> Side:
        return timed(lambda turn: sum(batch.rows.num_tokens for batch, _ in itertools.islice(streams[name], count)))

    laps = take_turns(
        {"loop": timed(by_loop)} | {name: by_ours(name) for name in streams}, range(rounds + 1), warm_up=1
    )
    return compare(laps, "tokens", [(name, "loop") for name in streams])


def paragraphs_of(name: str) -> Iterator[str]:
    """Yield the paragraphs of a corpus."""
    for document in data.read(name, "train"):
        yield from document.paragraphs


def main() -> None:
    """Measure all three and write ``results/pretraining/data.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--megabytes", type=int, default=49, help="of text to tokenise")
    parser.add_argument("--batches", type=int, default=200, help="to mask")
    arguments = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = "1"  # before `tokenizers` starts its threads: one core for each side
    torch.set_num_threads(1)
    record = Record(
        "pretraining/data", ["torch", "transformers", "tokenizers", "numpy", "d2lbert"], [0], data_sets=["wikipedia_en"]
    )
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
    for part, name in (("tokenizing", "from_cold"), ("tokenizing", "second_pass"), ("masking", "alone")):
        print(f"{part}, {name}, {in_words(metrics[part][name])}")
    print(f"masking, with_padding, {in_words(metrics['masking']['with_padding'])}")
    for name, found in metrics["pipeline"].items():
        print(f"pipeline, {name}, {in_words(found)}")
    record.write(metrics, data=f"wikipedia_en, {size:,} characters", batch_size=BATCH, max_length=LENGTH)


if __name__ == "__main__":
    main()
