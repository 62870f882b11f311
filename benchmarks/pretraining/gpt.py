"""GPT beside BERT: equal sizes, equal texts, equal tokens, and what each can do after it.

Both are tiny (2 layers, 128 wide), start from the same seed and read the same texts of Wikipedia in the same order,
single texts without next sentences. GPT is asked for every next token, BERT for the masked ones. Their first weights
deviate by 0.08, close to 1/sqrt(D) for D = 128; with the 0.02 of the large models a BERT of this size rests for tens of
millions of tokens before it learns to look around.

On documents that none has read: GPT's perplexity, and how well each names a token when only what stands before it is
shown (writing) and when both sides are (filling a gap). BERT gets a ``[MASK]`` there, in writing as the last token of
the text. GPT fills a gap in two ways: from what stands before it, and by writing each of its 20 best candidates into
the gap and taking the one with which the whole text is most probable.

A stopped run goes on where it was.

    python -m benchmarks.pretraining.gpt    # needs D2LBERT_DATA for the real text
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.command_line import add_precision, command_line
from benchmarks.record import ROOT, Record
from d2lbert import data
from d2lbert.config import GptConfig, gpt_preset, preset
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.causal import CausalData
from d2lbert.data.pretraining.corpus import corpus_files, learn_vocabulary
from d2lbert.data.pretraining.shards import INDEX_FILE, Preparation, TokenShards, prepare
from d2lbert.storage.files import writable_folder
from d2lbert.text import WordPiece
from d2lbert.torch.generation import Sampling
from d2lbert.torch.gpt import Gpt, continue_texts
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import seed_everything, to_tensors
from d2lbert.torch.training.pretraining import LOG, Pretraining, Trainer

VOCABULARY, LENGTH, BATCH, SEED = 8192, 128, 32, 0
LEARNING_RATE, FIRST_WEIGHTS = 3e-3, 0.08
CANDIDATES = 20
PROMPTS = ["the village is located in", "he was born in", "the album was released"]
WRITTEN = 20  # new tokens of each


def corpus(folder: Path) -> TokenShards:
    """Open the prepared corpus, or prepare it: all of the English Wikipedia at hand, with a vocabulary of its own."""
    if not (folder / INDEX_FILE).is_file():
        files = corpus_files([str(data.fetch("wikipedia_en"))])
        prepare(files, folder, learn_vocabulary(files, VOCABULARY), Preparation())
    return TokenShards.open(folder)


def shared_sizes(tokenizer: WordPiece) -> dict[str, Any]:
    """Return what the configurations of both models have in common."""
    pad = tokenizer.token_to_id["[PAD]"]
    return {"vocab_size": len(tokenizer.vocab), "pad_token_id": pad, "initializer_range": FIRST_WEIGHTS}


def gpt_sizes(tokenizer: WordPiece) -> GptConfig:
    """Return a tiny GPT that writes with the special tokens of BERT, without dropout: few texts are read twice."""
    cls, sep = (tokenizer.token_to_id[token] for token in ("[CLS]", "[SEP]"))
    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return gpt_preset("tiny").replace(bos_token_id=cls, eos_token_id=sep, **no_dropout, **shared_sizes(tokenizer))


def models(shards: TokenShards, seed: int) -> dict[str, Any]:
    """Return the models with their first weights."""
    tokenizer = shards.tokenizer()
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    bert_sizes = preset("tiny").replace(**no_dropout, **shared_sizes(tokenizer))
    seed_everything(seed)
    gpt = Gpt(gpt_sizes(tokenizer))
    seed_everything(seed)
    return {"GPT": gpt, "BERT": BertForPretraining(bert_sizes)}


def train(name: str, model: Any, shards: TokenShards, options: argparse.Namespace) -> dict[str, Any]:
    """Train a model, or go on, and return the history of its loss on held-out documents."""
    data_class = CausalData if name == "GPT" else PretrainingData
    examples = PretrainingSettings(LENGTH, BATCH, SEED, next_sentence=False)
    settings = Pretraining(
        steps=options.steps,
        learning_rate=LEARNING_RATE,
        seed=SEED,
        precision=options.precision,
        log_every=50,
        validate_every=100,
        validation_batches=10,
        keep=1,
    )
    out = writable_folder(options.out / name)
    train_data, dev_data = data_class(shards, examples), data_class(shards, examples, "dev")
    trainer = Trainer(model, train_data, dev_data, settings, out)
    trainer.resume()
    trainer.run()
    model.eval()
    objective = train_data.objectives[0]
    with (out / LOG).open() as stream:
        rows = [row for row in csv.DictReader(stream) if row[f"dev_{objective}_loss"]]
    return {
        "asked": objective,
        "tokens": [int(row["tokens"]) for row in rows],
        "dev_loss": [float(row[f"dev_{objective}_loss"]) for row in rows],
        "dev_accuracy": [float(row[f"dev_{objective}_accuracy"]) for row in rows],
        "answers_of_100_tokens": 100 * _answers(train_data) / _tokens(train_data),
    }


def _first_batches(data: Any) -> list[Any]:
    return [batch for (batch, _), _ in zip(data.batches(), range(50), strict=False)]


def _answers(data: Any) -> int:
    return sum(len(targets) for batch in _first_batches(data) for targets in list(batch.targets.values())[:1])


def _tokens(data: Any) -> int:
    return sum(batch.rows.num_tokens for batch in _first_batches(data))


def held_out(shards: TokenShards, count: int) -> list[list[int]]:
    """Return texts of 24 to 64 tokens from documents that nobody has read, ``[CLS]`` and ``[SEP]`` included."""
    data = CausalData(shards, PretrainingSettings(64, 64, SEED, next_sentence=False, packed=False), "dev")
    found = []
    for batch, _ in data.epoch(0):
        for row, length in zip(batch.rows.token_ids, batch.rows.mask.sum(1), strict=True):
            if length >= 24:
                found.append(row[:length].tolist())
        if len(found) >= count:
            return found[:count]
    return found


@torch.inference_mode()
def perplexity(model: Gpt, shards: TokenShards, batches: int = 60) -> dict[str, float]:
    """Return GPT's perplexity on held-out documents, and that of the shares of tokens in the training text."""
    data = CausalData(shards, PretrainingSettings(LENGTH, BATCH, SEED, next_sentence=False), "dev")
    size = model.config.vocab_size
    counts = sum(np.bincount(shards.load(name).tokens, minlength=size) for name in shards.names("train"))
    counts = np.asarray(counts) + 1.0
    counts[model.config.eos_token_id] = shards.count("train", "tokens") / 100  # about one end in a hundred tokens
    shares = np.log(counts / counts.sum())
    total, alone, asked = 0.0, 0.0, 0
    for (batch, _), _ in zip(data.epoch(0), range(batches), strict=False):
        rows, positions = to_tensors(batch.rows), torch.from_numpy(batch.positions)
        steps = model.objectives(rows, positions)["next_token"].log_softmax(-1)
        total -= float(steps.gather(1, torch.from_numpy(batch.next_ids)[:, None]).sum())
        alone -= float(shares[batch.next_ids].sum())
        asked += len(batch.next_ids)
    return {"tokens": asked, "GPT": math.exp(total / asked), "shares of tokens alone": math.exp(alone / asked)}


def gaps(texts: list[list[int]], seed: int) -> list[int]:
    """Return a place for each text, with at least eight tokens before it and eight after."""
    random = np.random.default_rng(seed)
    return [int(random.integers(9, len(text) - 9)) for text in texts]


@torch.inference_mode()
def gpt_scores(model: Gpt, texts: list[list[int]], places: list[int]) -> tuple[Tensor, Tensor]:
    """Return log probabilities (N, V) from what stands before, and the choices (N,) of the whole text."""
    before, chosen = [], []
    for text, place in zip(texts, places, strict=True):
        ids = torch.tensor([text])
        steps = model(ids[:, :place]).logits[0, -1].log_softmax(-1)
        best = steps.topk(CANDIDATES).indices
        filled = ids.repeat(CANDIDATES, 1)
        filled[:, place] = best
        whole = model(filled).logits.log_softmax(-1)  # (C, L, V)
        told = (
            whole[:, place - 1 : -1].gather(2, filled[:, place:].unsqueeze(2)).sum((1, 2))
        )  # the gap and what follows
        before.append(steps)
        chosen.append(best[told.argmax()])
    return torch.stack(before), torch.stack(chosen)


@torch.inference_mode()
def bert_scores(model: BertForPretraining, texts: list[list[int]], places: list[int], mask: int) -> dict[str, Tensor]:
    """Return log probabilities (N, V) with both sides shown, with one, and with one and no ``[SEP]`` at the end."""
    found: dict[str, list[Tensor]] = {"both sides": [], "before": [], "before, no [SEP]": []}
    for text, place in zip(texts, places, strict=True):
        shown = {
            "both sides": [*text[:place], mask, *text[place + 1 :]],
            "before": [*text[:place], mask, text[-1]],
            "before, no [SEP]": [*text[:place], mask],
        }
        for name, ids in shown.items():
            logits = model(torch.tensor([ids]), masked_positions=torch.tensor([place])).token_logits
            found[name].append(logits[0].log_softmax(-1))
    return {name: torch.stack(rows) for name, rows in found.items()}


def score(steps: Tensor, answers: Tensor) -> dict[str, float]:
    """Return the share of right answers with its standard error, and the perplexity of the right answer."""
    told = steps.gather(1, answers[:, None]).squeeze(1)
    return {**right(steps.argmax(-1), answers), "perplexity": float(told.mean().neg().exp())}


def right(chosen: Tensor, answers: Tensor) -> dict[str, float]:
    """Return the share of right answers with its standard error."""
    share = float((chosen == answers).double().mean())
    return {"accuracy": share, "standard_error": math.sqrt(share * (1 - share) / len(answers))}


def abilities(trained: dict[str, Any], shards: TokenShards, count: int) -> dict[str, Any]:
    """Let all write and fill gaps, at the same places of the same texts."""
    texts = held_out(shards, count)
    places = gaps(texts, SEED)
    answers = torch.tensor([text[place] for text, place in zip(texts, places, strict=True)])
    before, chosen = gpt_scores(trained["GPT"], texts, places)
    next_token = {"GPT": score(before, answers)}
    gap = {"GPT, what stands before": score(before, answers), "GPT, the whole text": right(chosen, answers)}
    steps = bert_scores(trained["BERT"], texts, places, shards.tokenizer().token_to_id["[MASK]"])
    next_token["BERT"] = score(steps["before"], answers)
    next_token["BERT, no [SEP]"] = score(steps["before, no [SEP]"], answers)
    gap["BERT"] = score(steps["both sides"], answers)
    return {"texts": len(texts), "next token": next_token, "gap": gap}


@torch.inference_mode()
def bert_writes(model: BertForPretraining, tokenizer: WordPiece, prompt: str) -> str:
    """Continue a text with BERT: a ``[MASK]`` at its end, the best piece in its place, and so on."""
    mask = tokenizer.token_to_id["[MASK]"]
    ids = tokenizer.encode(prompt).ids[:-1]
    begin = len(ids)
    for _ in range(WRITTEN):
        shown = torch.tensor([[*ids, mask, tokenizer.token_to_id["[SEP]"]]])
        logits = model(shown, masked_positions=torch.tensor([len(ids)])).token_logits[0]
        ids.append(int(logits.argmax()))
    return tokenizer.decode(ids[begin:])


def texts_written(gpt: Gpt, bert: BertForPretraining, tokenizer: WordPiece) -> list[dict[str, str]]:
    """Return continuations of some prompts: GPT's best, one that it drew, and BERT's."""
    greedy = continue_texts(gpt, tokenizer, PROMPTS, WRITTEN)
    drawn = continue_texts(gpt, tokenizer, PROMPTS, WRITTEN, Sampling(temperature=0.8, top_p=0.9, seed=SEED))
    return [
        {"prompt": prompt, "GPT, the best": one, "GPT, drawn": two, "BERT": bert_writes(bert, tokenizer, prompt)}
        for prompt, one, two in zip(PROMPTS, greedy, drawn, strict=True)
    ]


def main() -> None:
    """Train all, measure, and write ``results/pretraining/gpt.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "gpt", help="for the corpus and the runs")
    parser.add_argument("--steps", type=int, default=4000)
    add_precision(parser)
    parser.add_argument("--texts", type=int, default=500, help="held-out texts with a gap each")
    options = parser.parse_args()
    record = Record("pretraining/gpt", ["torch", "d2lbert"], seeds=[SEED], data_sets=["wikipedia_en"], samples_do=False)
    shards = corpus(options.out / "corpus")
    trained = models(shards, SEED)
    histories = {name: train(name, model, shards, options) for name, model in trained.items()}
    metrics = {
        "training": histories,
        "perplexity": perplexity(trained["GPT"], shards),
        "abilities": abilities(trained, shards, options.texts),
        "written": texts_written(trained["GPT"], trained["BERT"], shards.tokenizer()),
    }
    record.write(metrics, data="wikipedia_en", vocab_size=len(shards.tokenizer().vocab), max_length=LENGTH, dropout=0.0)


if __name__ == "__main__":
    main()
