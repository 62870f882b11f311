"""Parts of speech: labels, scores over words, answers; and which task a set of tags is."""

from __future__ import annotations

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data import TaggedSentence
from d2lbert.tasks.base import IGNORED
from d2lbert.tasks.parts_of_speech import PartsOfSpeech, tagging_of, tagging_with
from d2lbert.tasks.table import named_task
from d2lbert.tasks.tagging import Tagging
from d2lbert.text import WordPiece

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "jim", "bought", "ama", "##zon", "."])
JIM = TaggedSentence(("Jim", "bought", "Amazon", "."), ("NOUN", "VERB", "NOUN", "."))
DROPPED = TaggedSentence(("Jim", "\u200b", "."), ("NOUN", "X", "."))
TASK = PartsOfSpeech.of([JIM, DROPPED])


def _logits(targets: np.ndarray) -> np.ndarray:
    return 9.0 * np.eye(4)[np.where(targets == IGNORED, 3, targets)]


def test_the_labels_are_the_tags_of_the_examples() -> None:
    assert TASK.labels == (".", "NOUN", "VERB", "X")
    with pytest.raises(UserError, match="needs two tags, but there are only"):
        PartsOfSpeech(["NOUN"])


def test_first_pieces_carry_the_tags_and_all_words_count() -> None:
    inputs = TASK.inputs([JIM, DROPPED], TOKENIZER, 20)
    assert inputs[0].target.tolist() == [IGNORED, 1, 2, 1, IGNORED, 0, IGNORED]
    outputs = [_logits(one.target) for one in inputs]
    # The tokenizer drops the second word of the second sentence: it gets the tag of what is no part of speech.
    assert [one["tags"] for one in TASK.predictions([JIM, DROPPED], inputs, outputs)] == [
        ["NOUN", "VERB", "NOUN", "."],
        ["NOUN", "X", "."],
    ]
    scores = TASK.score([JIM, DROPPED], inputs, outputs)
    assert scores["accuracy"] == scores["f1_macro"] == 1
    outputs[0][1] = 9.0 * np.eye(4)[2]  # Jim is no verb
    assert TASK.score([JIM, DROPPED], inputs, outputs)["accuracy"] == 6 / 7
    probabilities = TASK.predictions([JIM], inputs[:1], outputs[:1])[0]["probabilities"]
    assert np.allclose(probabilities, 1 / (1 + 3 * np.exp(-9)))


def test_without_x_a_dropped_word_gets_the_first_tag() -> None:
    task = PartsOfSpeech(["NOUN", "."])
    example = TaggedSentence(("Jim", "\u200b"))
    (model_input,) = task.inputs([example], TOKENIZER, 20)
    assert task.predictions([example], [model_input], [np.zeros((3, 2))])[0]["tags"] == ["NOUN", "NOUN"]


def test_universal_tags_make_parts_of_speech_and_all_others_entities() -> None:
    assert isinstance(tagging_of([JIM]), PartsOfSpeech)
    assert isinstance(named_task("tagging").of_examples([JIM]), PartsOfSpeech)
    assert isinstance(named_task("tagging").of_model([".", "NOUN"], None), PartsOfSpeech)
    entities = TaggedSentence(("Jim",), ("B-PER",))
    assert type(tagging_of([entities])) is Tagging
    assert type(tagging_with(["O", "B-PER", "I-PER"])) is Tagging
    with pytest.raises(UserError, match="'NOUN' is not O, nor B-"):
        tagging_of([JIM, entities])
    with pytest.raises(UserError, match="'LABEL_0' is not O"):
        tagging_with(["LABEL_0", "LABEL_1"])


@pytest.mark.parametrize("task", [TASK, Tagging(["O", "B-PER", "B-ORG", "I-ORG"])])
def test_a_sentence_without_tags_is_not_scored(task: Tagging) -> None:
    examples = [TaggedSentence(JIM.words, (task.labels[1],) * 4), TaggedSentence(JIM.words)]
    inputs = task.inputs(examples, TOKENIZER, 20)
    outputs = [_logits(inputs[0].target)] * 2
    with pytest.raises(UserError, match="an example has no label: label every one"):
        task.score(examples, inputs, outputs)
