"""Named entities by a BiLSTM-CRF over three kinds of word vectors: random, GloVe, and GloVe with our small ELMo.

The tagger, its settings and the order of the sentences are the same; only the vectors differ. They do not learn. The
epoch with the best F1 on dev is scored on test. For ELMo the learned weights of its layers are kept.

    python -m benchmarks.elmo.tagging    # needs D2LBERT_DATA for the real sets; twenty minutes on one core
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
import torch

from benchmarks.command_line import add_seeds, command_line
from benchmarks.record import Record, spread
from benchmarks.tagger import BiLstmCrf
from benchmarks.word_features import BATCH, Features, batches, tensors
from d2lbert import data
from d2lbert.data.examples import TaggedSentence
from d2lbert.tasks.tagging import entity_scores
from d2lbert.torch.runtime import seed_everything

DATA_SETS = ("wnut17", "conll2003")


def tag(model: BiLstmCrf, vectors: list[np.ndarray], labels: list[str]) -> list[list[str]]:
    """Return the tags of every sentence."""
    model.eval()
    by_length = np.argsort([one.shape[1] for one in vectors], kind="stable")
    found: dict[int, list[str]] = {}
    with torch.inference_mode():
        for chosen in batches(by_length):
            for index, places in zip(chosen, model.decode(*tensors(vectors, chosen)), strict=True):
                found[int(index)] = [labels[place] for place in places]
    return [found[index] for index in range(len(vectors))]


def run(
    sets: dict[str, list[TaggedSentence]], vectors: dict[str, list[np.ndarray]], seed: int, epochs: int
) -> dict[str, Any]:
    """Train one tagger; return F1 on dev and test, and the weights of the layers."""
    seed_everything(seed)
    labels = sorted({tag for example in sets["train"] for tag in example.tags or ()})
    gold = {split: [list(example.tags or ()) for example in examples] for split, examples in sets.items()}
    layers, _, size = vectors["train"][0].shape
    model = BiLstmCrf(size, len(labels), layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    lengths = np.array([len(tags) for tags in gold["train"]])
    best: tuple[float, dict[str, Any]] = (-1.0, {})
    for epoch in range(epochs):
        random = np.random.default_rng([seed, epoch])
        cuts = batches(np.lexsort((random.random(len(lengths)), lengths)))  # sentences of about one length together
        model.train()
        for batch in random.permutation(len(cuts)):
            chosen = cuts[batch]
            padded, mask = tensors(vectors["train"], chosen)
            targets = torch.zeros(mask.shape, dtype=torch.long)
            for row, index in enumerate(chosen):
                tags = [labels.index(tag) for tag in gold["train"][index]]
                targets[row, : len(tags)] = torch.tensor(tags)
            loss = model(padded, targets, mask)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        score = entity_scores(gold["dev"], tag(model, vectors["dev"], labels))["f1"]
        if score > best[0]:
            best = (score, copy.deepcopy(model.state_dict()))
    model.load_state_dict(best[1])
    test = entity_scores(gold["test"], tag(model, vectors["test"], labels))
    return {"dev": best[0], "test": test["f1"], "mix": model.mix.scores.softmax(0).tolist()}


def main() -> None:
    """Measure and write ``results/elmo/tagging.json``."""
    parser = command_line(__doc__)
    add_seeds(parser)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--sentences", type=int, default=6000, help="of the training set, at most")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    record = Record("elmo/tagging", ["torch", "d2lbert"], arguments.seeds, data_sets=DATA_SETS)
    features, measured = Features(), {}
    for name in DATA_SETS:
        sets = {split: data.load(name, split) for split in ("train", "dev", "test")}
        sets["train"] = sets["train"][: arguments.sentences]
        measured[name] = {"train_sentences": len(sets["train"]), "models": {}}
        for kind in ("random", "GloVe", "GloVe and ELMo"):
            began = time.perf_counter()
            vectors = {split: features.table(kind, examples) for split, examples in sets.items()}
            runs = [run(sets, vectors, seed, arguments.epochs) for seed in arguments.seeds]
            measured[name]["models"][kind] = {
                "dev": spread([one["dev"] for one in runs]),
                "test": spread([one["test"] for one in runs]),
                "mix": [one["mix"] for one in runs],
                "seconds": round(time.perf_counter() - began, 1),
            }
            print(name, kind, measured[name]["models"][kind], flush=True)
    record.write(
        measured,
        settings={"epochs": arguments.epochs, "sentences": arguments.sentences, "batch": BATCH, "learning_rate": 3e-3},
        paper={"CoNLL-2003 test F1 without and with ELMo (Peters et al. 2018, table 1)": [90.15, 92.22]},
    )


if __name__ == "__main__":
    main()
