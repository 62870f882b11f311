"""How well a hidden word is guessed from both sides, from the left side alone, and from the right side alone.

One piece of each sentence is replaced by [MASK], and attention to one side of it is switched off or not. The sentences
are of SQuAD's passages, Wikipedia of 2016, which d2lbert-tiny has not read: it read articles of 2018. The model learned
with both sides. One trained for a single side would do better on that side, so the rows show what both sides give
*this* model. Beside them the share of the most frequent piece.

    python -m benchmarks.bert.masked_word    # needs D2LBERT_DATA for the real passages
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert import data
from d2lbert.text import WordPiece
from d2lbert.text.encoding import MASK
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.zoo import locate

DATA = "squad2_cs224n_dev"
SHORTEST, LONGEST = 12, 60  # pieces of a sentence


def gaps(tokenizer: WordPiece, count: int, seed: int) -> list[tuple[list[int], int, int]]:
    """Return (ids with one [MASK], its position, the hidden id), one of each sentence, in the order of the passages."""
    generator = np.random.default_rng(seed)
    passages = dict.fromkeys(example.context for example in data.load(DATA, "dev"))
    found = []
    for sentence in (part for passage in passages for part in passage.split(". ")):
        encoding = tokenizer.encode(sentence.rstrip(".") + ".")
        if SHORTEST <= len(encoding) <= LONGEST:
            position = int(generator.integers(1, len(encoding) - 2))  # no [CLS], no full stop, no [SEP]
            ids = list(encoding.ids)
            hidden, ids[position] = ids[position], tokenizer.token_to_id[MASK]
            found.append((ids, position, hidden))
    order = generator.permutation(len(found))[:count]
    return [found[number] for number in order]


def visible(length: int, position: int, side: str) -> Tensor:
    """Return the mask (1, L, L), True = keep: no token looks across the gap to the hidden side."""
    places = torch.arange(length)
    keep = {"both sides": places >= 0, "left side": places <= position, "right side": places >= position}[side]
    keep = keep | (places == 0) | (places == length - 1)  # [CLS] and [SEP] say nothing about the words
    return keep.expand(1, length, length)


@torch.inference_mode()
def guess(model: BertForPretraining, ids: list[int], position: int, side: str) -> Tensor:
    """Return log p (V,) of every piece at the gap."""
    tokens = torch.tensor([ids])
    positions = torch.arange(len(ids)).unsqueeze(0)
    embedded = model.bert.embeddings(tokens, torch.zeros_like(tokens), positions)
    state = model.bert.encoder(embedded, visible(len(ids), position, side)).sequence[0, position]
    return model.token_logits(state).log_softmax(-1)


def measure(model: BertForPretraining, asked: list[tuple[list[int], int, int]]) -> dict[str, Any]:
    """Return for each side the share of right first guesses, of right ones among five, and the mean of -log p."""
    scores: dict[str, Any] = {}
    for side in ("both sides", "left side", "right side"):
        first, among_five, surprise = [], [], []
        for ids, position, hidden in asked:
            found = guess(model, ids, position, side)
            best = found.topk(5).indices.tolist()
            first.append(best[0] == hidden)
            among_five.append(hidden in best)
            surprise.append(-found[hidden].item())
        scores[side] = {"first": _share(first), "among five": _share(among_five), "loss": float(np.mean(surprise))}
    commonest = Counter(hidden for _, _, hidden in asked).most_common(1)[0]
    scores["most frequent piece"] = {"first": commonest[1] / len(asked)}
    return scores


def _share(hits: list[bool]) -> dict[str, float]:
    share = float(np.mean(hits))
    return {"share": share, "standard_error": math.sqrt(share * (1 - share) / len(hits))}


def main() -> None:
    """Measure and write ``results/bert/masked_word.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--gaps", type=int, default=3000, help="sentences, one gap in each")
    parser.add_argument("--seed", type=int, default=0, help="which sentences, and which piece is hidden")
    options = parser.parse_args()
    record = Record("bert/masked_word", ["torch", "d2lbert"], seeds=[options.seed], data_sets=[DATA])
    folder = locate("d2lbert-tiny")
    asked = gaps(WordPiece.from_pretrained(folder), options.gaps, options.seed)
    scores = measure(BertForPretraining.from_pretrained(folder).eval(), asked)
    for side, row in scores.items():
        print(side, row)
    record.write(scores, data=DATA, gaps=len(asked), model="d2lbert-tiny")


if __name__ == "__main__":
    main()
