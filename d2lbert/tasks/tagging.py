"""A tag for every word: named entities (Devlin et al. 2019, section 5.3).

A word may have several pieces. Its first piece carries the tag; the others, [CLS] and [SEP] have none and do not count
in the loss. A sentence that is too long for the model is cut between words into parts, so that no word is lost.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from d2lbert.data.examples import TaggedSentence
from d2lbert.data.readers.tag_schemes import entities, split_tag
from d2lbert.errors import UserError
from d2lbert.tasks.base import IGNORED, NO_LABEL, Input, Loss, Task, label_indices, softmax
from d2lbert.text import AnyEncoding, Tokenizer
from d2lbert.text.encoding import Pieces, assemble


class Tagging(Task):
    """Tag words in the IOB2 scheme. The order of ``labels`` is the order of the logits."""

    loss = Loss.TOKENS
    outside = "O"  # the tag of a word that the tokenizer drops

    def __init__(self, labels: Iterable[str]) -> None:
        self.labels: tuple[str, ...] = tuple(labels)
        for label in self.labels:
            split_tag(label)
        if "O" not in self.labels or len(set(self.labels)) < 2:
            raise UserError(f"tagging needs the tag O and another, but there are {self.labels}: check the tag column")

    @classmethod
    def of(cls, examples: Sequence[TaggedSentence]) -> Tagging:
        """Return the task whose tags are those of the examples: O first, then B- and I- for each type that occurs."""
        types = {split_tag(tag)[1] for example in examples for tag in example.tags or () if tag != "O"}
        return cls(["O", *(f"{letter}-{type_}" for type_ in sorted(types) for letter in "BI")])

    def inputs(self, examples: Sequence[TaggedSentence], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input for each sentence, or several for a long one; the first piece of each word has the target.

        Raises:
            UserError: a sentence holds only characters that the tokenizer drops, or does not have one tag for each
                word, or a tag is unknown.
        """
        encodings = tokenizer.encode_batch([" ".join(example.words) for example in examples])
        inputs = []
        for index, (example, encoding) in enumerate(zip(examples, encodings, strict=True)):
            if len(encoding) == 2:
                text = " ".join(example.words)[:40]
                where = f"example {index + 1:,} of {len(examples):,}"
                raise UserError(
                    f"the text {text!r} ({where}) holds nothing that the tokenizer keeps: give at least one word"
                )
            tags = None if example.tags is None else label_indices(self.labels, example.tags)
            if tags is not None and len(tags) != len(example.words):
                raise UserError(
                    f"a sentence of {len(example.words)} words has {len(tags)} tags: give one for each word"
                )
            last_seen = -1  # the last word whose first piece was seen
            for part in _parts(encoding, _word_starts(example.words), max_length, tokenizer):
                words = _first_pieces(part, _word_starts(example.words), last_seen)
                target = None if tags is None else np.where(words < 0, IGNORED, tags[np.maximum(words, 0)])
                last_seen = max(last_seen, int(words.max()))
                inputs.append(Input((part,), target, index))
        return inputs

    def score(
        self, examples: Sequence[TaggedSentence], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return F1, precision and recall of entities, and the accuracy of tags.

        Raises:
            UserError: a sentence has no tags.
        """
        gold = [list(tags_of(example)) for example in examples]
        predictions = self.predictions(examples, inputs, outputs)
        return entity_scores(gold, [prediction["tags"] for prediction in predictions])

    def predictions(
        self, examples: Sequence[TaggedSentence], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return the tag of every word and the entities, each with its text and the probability of its first tag.

        A word that the tokenizer drops is O.
        """
        tags, probabilities = self.likeliest(examples, inputs, outputs)
        return [_prediction(*fields) for fields in zip(examples, tags, probabilities, strict=True)]

    def likeliest(
        self, examples: Sequence[TaggedSentence], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> tuple[list[list[str]], list[list[float]]]:
        """Return the likeliest tag of every word of each sentence, and its probability."""
        tags = [[self.outside] * len(example.words) for example in examples]
        probabilities = [[1.0] * len(example.words) for example in examples]
        last_seen = [-1] * len(examples)
        for model_input, output in zip(inputs, outputs, strict=True):  # output: (length, C)
            index = model_input.example
            words = _first_pieces(model_input.encodings[0], _word_starts(examples[index].words), last_seen[index])
            last_seen[index] = max(last_seen[index], int(words.max()))
            for word, logits in zip(words, output, strict=True):
                if word >= 0:
                    tags[index][word] = self.labels[int(logits.argmax())]
                    probabilities[index][word] = float(softmax(logits).max())
        return tags, probabilities


def tags_of(example: TaggedSentence) -> Sequence[str]:
    """Return the right tags of a sentence.

    Raises:
        UserError: it has none.
    """
    if example.tags is None:
        raise UserError(NO_LABEL)
    return example.tags


def entity_scores(targets: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return F1, precision and recall of whole entities, and the accuracy of tags.

    An entity is right if its first word, its last word and its type are right; entities are counted over all sentences
    (Tjong Kim Sang and De Meulder 2003, section 2.4). Without any predicted entity, precision is 0; without any true
    one, recall is 0.

    Args:
        targets, predictions: the tags of each sentence, in any scheme of :mod:`d2lbert.data.readers.tag_schemes`.

    Raises:
        UserError: a sentence and its prediction differ in the number of tags.
    """
    num_gold = num_predicted = num_correct = same_tags = num_tags = 0
    for target, prediction in zip(targets, predictions, strict=True):
        if len(target) != len(prediction):
            raise UserError(
                f"a sentence of {len(target)} tags has {len(prediction)} predictions: give one for each word"
            )
        gold_entities, predicted_entities = set(entities(target)), set(entities(prediction))
        num_gold, num_predicted, num_correct = (
            num_gold + len(gold_entities),
            num_predicted + len(predicted_entities),
            num_correct + len(gold_entities & predicted_entities),
        )
        same_tags += sum(
            target_tag == predicted_tag for target_tag, predicted_tag in zip(target, prediction, strict=True)
        )
        num_tags += len(target)
    return {
        "f1": 2 * num_correct / max(1, num_gold + num_predicted),
        "precision": num_correct / max(1, num_predicted),
        "recall": num_correct / max(1, num_gold),
        "accuracy": same_tags / max(1, num_tags),
    }


def _prediction(example: TaggedSentence, tags: list[str], probabilities: list[float]) -> dict[str, Any]:
    records = []
    for entity in entities(tags):
        text = " ".join(example.words[entity.start : entity.end])
        records.append({"text": text, "type": entity.type, "probability": probabilities[entity.start]})
    return {"tags": tags, "entities": records}


def _word_starts(words: Sequence[str]) -> list[int]:
    """Return where each word begins in the text of all words joined by spaces."""
    starts, begin = [], 0
    for word in words:
        starts.append(begin)
        begin += len(word) + 1
    return starts


def _words_of(encoding: AnyEncoding, starts: Sequence[int]) -> np.ndarray:
    """Return the index of each token's word, -1 for [CLS] and [SEP]: (length,)."""
    words = [bisect.bisect_right(starts, offset[0]) - 1 for offset in encoding.offsets]
    return np.where(encoding.special, -1, words)


def _first_pieces(encoding: AnyEncoding, starts: Sequence[int], last_seen: int) -> np.ndarray:
    """Return the index of the word at the first piece of each word after ``last_seen``, and -1 elsewhere: (length,)."""
    words = _words_of(encoding, starts)
    before = np.concatenate([[-1], words[:-1]])
    return np.where((words != before) & (words > last_seen), words, -1)


def _parts(encoding: AnyEncoding, starts: Sequence[int], max_length: int, tokenizer: Tokenizer) -> list[AnyEncoding]:
    """Cut a sentence into parts of at most ``max_length`` tokens, between words where a word fits at all."""
    if len(encoding) <= max_length:
        return [encoding]
    words, room = _words_of(encoding, starts), max_length - 2
    parts: list[AnyEncoding] = []
    begin, last = 1, len(encoding) - 1  # the [SEP]
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
