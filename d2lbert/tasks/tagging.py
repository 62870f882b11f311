"""A tag for every word: named entities (Devlin et al. 2019, section 5.3).

A word may be several pieces. Its first piece carries the tag; the others, [CLS] and [SEP] have none and take no part in
the loss. A sentence that is longer than the model takes is cut between words into parts, so that no word is lost.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from d2lbert.data.examples import TaggedSentence
from d2lbert.data.readers.tag_schemes import entities, split_tag
from d2lbert.errors import UserError
from d2lbert.tasks.base import IGNORED, Input, Loss, Task, places_of, softmax
from d2lbert.text import Encoding, Tokenizer
from d2lbert.text.encoding import Pieces, assemble


class Tagging(Task):
    """Tag words in the scheme IOB2. The order of ``labels`` is the order of the logits."""

    loss = Loss.TOKENS

    def __init__(self, labels: Iterable[str]) -> None:
        self.labels: tuple[str, ...] = tuple(labels)
        for label in self.labels:
            split_tag(label)
        if "O" not in self.labels or len(set(self.labels)) < 2:
            raise UserError(f"tagging needs the tag O and another, but there are {self.labels}: check the tag column")

    @classmethod
    def of(cls, examples: Sequence[TaggedSentence]) -> Tagging:
        """Return the task whose tags are those of the examples: O first, then B- and I- of each type that occurs."""
        types = {split_tag(tag)[1] for example in examples for tag in example.tags or () if tag != "O"}
        return cls(["O", *(f"{letter}-{type_}" for type_ in sorted(types) for letter in "BI")])

    def inputs(self, examples: Sequence[TaggedSentence], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input a sentence, or several for a long one; targets stand at the first piece of each word.

        Raises:
            UserError: no word of a sentence is left, because it holds only signs that the tokenizer drops, or a
                sentence has not one tag for each word.
        """
        whole = tokenizer.encode_batch([" ".join(example.words) for example in examples])
        inputs = []
        for place, (example, encoding) in enumerate(zip(examples, whole, strict=True)):
            if len(encoding) == 2:
                text = " ".join(example.words)[:40]
                raise UserError(f"the text {text!r} holds nothing that the tokenizer keeps: give at least one word")
            tags = None if example.tags is None else places_of(self.labels, example.tags)
            if tags is not None and len(tags) != len(example.words):
                raise UserError(
                    f"a sentence of {len(example.words)} words has {len(tags)} tags: give one for each word"
                )
            known = -1  # the last word whose first piece was seen
            for part in _parts(encoding, _starts(example.words), max_length, tokenizer):
                words = _first_pieces(part, _starts(example.words), known)
                target = None if tags is None else np.where(words < 0, IGNORED, tags[np.maximum(words, 0)])
                known = max(known, int(words.max()))
                inputs.append(Input((part,), target, place))
        return inputs

    def score(
        self, examples: Sequence[TaggedSentence], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return F1, precision and recall of entities and the accuracy of tags."""
        answers = self.answers(examples, inputs, outputs)
        gold = [list(example.tags or ()) for example in examples]
        return entity_scores(gold, [answer["tags"] for answer in answers])

    def answers(
        self, examples: Sequence[TaggedSentence], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return the tag of every word and the entities, each with its text and the probability of its first tag.

        A word of which the tokenizer keeps nothing is O.
        """
        tags = [["O"] * len(example.words) for example in examples]
        sureness = [[1.0] * len(example.words) for example in examples]
        known = [-1] * len(examples)
        for one, output in zip(inputs, outputs, strict=True):  # output: (length, C)
            example = one.example
            words = _first_pieces(one.encodings[0], _starts(examples[example].words), known[example])
            known[example] = max(known[example], int(words.max()))
            for word, logits in zip(words, output, strict=True):
                if word >= 0:
                    tags[example][word] = self.labels[int(logits.argmax())]
                    sureness[example][word] = float(softmax(logits).max())
        return [_answer(*found) for found in zip(examples, tags, sureness, strict=True)]


def entity_scores(targets: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return F1, precision and recall of whole entities, and the accuracy of tags.

    An entity is right if its first word, its last word and its type are; sums run over all sentences (Tjong Kim Sang
    and De Meulder 2003, section 2.4). Where nothing was found, or nothing was there, the score that would divide by
    zero is 0.

    Args:
        targets, predictions: the tags of each sentence, in any scheme of :mod:`d2lbert.data.readers.tag_schemes`.

    Raises:
        UserError: a sentence has another number of tags than its prediction.
    """
    wanted = found = right = same = words = 0
    for truth, guess in zip(targets, predictions, strict=True):
        if len(truth) != len(guess):
            raise UserError(f"a sentence of {len(truth)} tags has {len(guess)} predictions: give one for each word")
        there, claimed = set(entities(truth)), set(entities(guess))
        wanted, found, right = wanted + len(there), found + len(claimed), right + len(there & claimed)
        same += sum(one == two for one, two in zip(truth, guess, strict=True))
        words += len(truth)
    return {
        "f1": 2 * right / max(1, wanted + found),
        "precision": right / max(1, found),
        "recall": right / max(1, wanted),
        "accuracy": same / max(1, words),
    }


def _answer(example: TaggedSentence, tags: list[str], sureness: list[float]) -> dict[str, Any]:
    found = []
    for entity in entities(tags):
        text = " ".join(example.words[entity.start : entity.end])
        found.append({"text": text, "type": entity.type, "probability": sureness[entity.start]})
    return {"tags": tags, "entities": found}


def _starts(words: Sequence[str]) -> list[int]:
    """Return where each word begins in the text of all words with a space between them."""
    starts, begin = [], 0
    for word in words:
        starts.append(begin)
        begin += len(word) + 1
    return starts


def _words_of(encoding: Encoding, starts: Sequence[int]) -> np.ndarray:
    """Return the word that each token is of, -1 for [CLS] and [SEP]: (length,)."""
    words = [bisect.bisect_right(starts, offset[0]) - 1 for offset in encoding.offsets]
    return np.where(encoding.special, -1, words)


def _first_pieces(encoding: Encoding, starts: Sequence[int], known: int) -> np.ndarray:
    """Return at the first piece of each word after ``known`` the word, and -1 elsewhere: (length,)."""
    words = _words_of(encoding, starts)
    before = np.concatenate([[-1], words[:-1]])
    return np.where((words != before) & (words > known), words, -1)


def _parts(encoding: Encoding, starts: Sequence[int], max_length: int, tokenizer: Tokenizer) -> list[Encoding]:
    """Cut a sentence into parts of at most ``max_length`` tokens, between words where a word fits at all."""
    if len(encoding) <= max_length:
        return [encoding]
    words, room = _words_of(encoding, starts), max_length - 2
    parts, begin, last = [], 1, len(encoding) - 1  # the [SEP]
    while begin < last:
        end = min(begin + room, last)
        cut = end
        while cut < last and cut > begin and words[cut] == words[cut - 1]:
            cut -= 1
        end = cut if cut > begin else end
        pieces = Pieces(encoding.ids[begin:end], encoding.tokens[begin:end], encoding.offsets[begin:end])
        parts.append(assemble(pieces, None, None, tokenizer.token_to_id))
        begin = end
    return parts
