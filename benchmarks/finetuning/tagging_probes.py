"""Ask the tagger of WNUT-17 that the book ships: does it know names by heart, and what does a legal search change?

A true entity is *seen* if the same words with the same type stand in the training sentences. A tag ``I-`` that
continues nothing is illegal. *As told* scores the likeliest tag of each word, where such an ``I-`` begins an entity;
*Viterbi* scores the most probable legal sequence. A recall has the standard error sqrt(p (1 - p) / n).

    python -m benchmarks.finetuning.tagging_probes    # needs D2LBERT_DATA; a minute and a half
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert import data, get_model
from d2lbert.data.examples import TaggedSentence
from d2lbert.data.readers.tag_schemes import entities
from d2lbert.tasks.base import IGNORED
from d2lbert.tasks.tagging import Tagging, entity_scores
from d2lbert.torch.crf import LinearChainCrf
from d2lbert.torch.training.evaluation import compute_outputs

MAX_LENGTH = 128
FORBIDDEN = -1e4  # the score of a step that IOB2 forbids


def named(sentence: TaggedSentence, tags: Sequence[str]) -> dict[tuple[int, int, str], str]:
    """Return the words of each entity, in lower case."""
    return {
        (one.start, one.end, one.type): " ".join(sentence.words[one.start : one.end]).lower() for one in entities(tags)
    }


def recall_by_group(
    sentences: Sequence[TaggedSentence], told: Sequence[Sequence[str]], known: set[tuple[str, str]]
) -> dict[str, dict[str, float]]:
    """Return n, recall and its standard error for the entities that are known, and for all others."""
    hits: dict[str, list[bool]] = {"seen": [], "unseen": []}
    for sentence, tags in zip(sentences, told, strict=True):
        found = named(sentence, tags)
        for span, text in named(sentence, sentence.tags or ()).items():
            hits["seen" if (span[2], text) in known else "unseen"].append(span in found)
    groups = {}
    for group, right in hits.items():
        recall = float(np.mean(right))
        error = math.sqrt(recall * (1 - recall) / len(right))
        groups[group] = {"n": len(right), "recall": recall, "standard_error": error}
    return groups


def legal(before: str, tag: str) -> bool:
    """Return whether a tag may follow another; before a sentence stands O."""
    return tag[0] != "I" or before[1:] == tag[1:]


def illegal(answers: Sequence[Sequence[str]]) -> int:
    """Return how many tags of all sentences may not follow the tag before them."""
    return sum(not legal(before, tag) for tags in answers for before, tag in itertools.pairwise(["O", *tags]))


def constrained(labels: Sequence[str]) -> LinearChainCrf:
    """Return a search that takes the model's scores as they are and refuses what IOB2 forbids."""
    search = LinearChainCrf(len(labels))
    allowed = torch.tensor([[legal(before, tag) for tag in labels] for before in labels])
    with torch.no_grad():
        search.transitions[:] = torch.where(allowed, 0.0, FORBIDDEN)
        search.start[:] = search.transitions[list(labels).index("O")]
    return search


def most_probable(search: LinearChainCrf, labels: Sequence[str], logits: np.ndarray) -> list[str]:
    """Return the best legal tags of a sentence whose words have the given logits, (T, C)."""
    scores = torch.tensor(logits).log_softmax(1)[None]
    (path,) = search.decode(scores, torch.ones(1, len(logits), dtype=torch.bool))
    return [labels[place] for place in path]


def probe(split: str, known: set[tuple[str, str]]) -> dict[str, Any]:
    """Return recall of seen and unseen names, the number of illegal tags, and the scores of both ways to answer."""
    tokenizer = get_model("minilm")[1]
    model = get_model("minilm", "wnut17")[0]
    task = Tagging(model.labels)
    examples = data.load("wnut17", split)
    inputs = task.inputs(examples, tokenizer, MAX_LENGTH)
    outputs = compute_outputs(model, inputs, tokenizer)
    told = [answer["tags"] for answer in task.predictions(examples, inputs, outputs)]
    search, legally = constrained(model.labels), [list(tags) for tags in told]
    for item, logits in zip(inputs, outputs, strict=True):
        asked = logits[np.asarray(item.target) != IGNORED]
        if len(asked) == len(examples[item.example].words):  # whole, and no word that the tokenizer drops
            legally[item.example] = most_probable(search, model.labels, asked)
    return {
        "sentences": len(examples),
        "recall": recall_by_group(examples, told, known),
        "illegal tags": illegal(told),
        "illegal tags left": illegal(legally),
        "as told": entity_scores([example.tags for example in examples], told),
        "Viterbi": entity_scores([example.tags for example in examples], legally),
    }


def main() -> None:
    """Measure and write ``results/finetuning/tagging_probes.json``."""
    command_line(__doc__).parse_args()
    record = Record("finetuning/tagging_probes", ["torch", "d2lbert"], data_sets=["wnut17"])
    known = {(span[2], text) for one in data.load("wnut17", "train") for span, text in named(one, one.tags).items()}
    found = {split: probe(split, known) for split in ("dev", "test")}
    record.write(found, data="wnut17", model="get_model('minilm', 'wnut17')")


if __name__ == "__main__":
    main()
