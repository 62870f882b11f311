"""Tagging: tags at first pieces, long sentences in parts without a word lost, entity scores, answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.data import TaggedSentence
from d2lbert.tasks.base import IGNORED, Loss
from d2lbert.tasks.tagging import Tagging, entity_scores
from d2lbert.text import WordPiece

TOKENIZER = WordPiece(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "jim", "bought", "ama", "##zon", "##s", ".", "sha"]
)
TASK = Tagging(["O", "B-ORG", "I-ORG", "B-PER", "I-PER"])
JIM = TaggedSentence(("Jim", "bought", "Amazon", "."), ("B-PER", "O", "B-ORG", "O"))


def _logits(targets: np.ndarray) -> np.ndarray:
    """Logits that are sure of the targets, and of I-PER at every token without one."""
    return 9.0 * np.eye(5)[np.where(targets == IGNORED, 4, targets)]


def test_only_first_pieces_carry_a_tag() -> None:
    (model_input,) = TASK.inputs([JIM], TOKENIZER, 20)
    assert model_input.encodings[0].tokens == ["[CLS]", "jim", "bought", "ama", "##zon", ".", "[SEP]"]
    assert model_input.target.tolist() == [IGNORED, 3, 0, 1, IGNORED, 0, IGNORED]
    assert TASK.loss is Loss.TOKENS


def test_a_word_without_a_tag_is_refused() -> None:
    with pytest.raises(UserError, match="a sentence of 2 words has 1 tags: give one for each word"):
        TASK.inputs([TaggedSentence(("Jim", "bought"), ("B-PER",))], TOKENIZER, 20)


def test_tags_of_examples_make_the_labels() -> None:
    assert Tagging.of([JIM]).labels == ("O", "B-ORG", "I-ORG", "B-PER", "I-PER")
    with pytest.raises(UserError, match="needs the tag O and another"):
        Tagging.of([TaggedSentence(("a",), ("O",))])
    with pytest.raises(UserError, match="is not O, nor B-"):
        Tagging(["O", "PER"])


WORDS = st.sampled_from(["jim", "bought", "amazon", "amazons", "amazonsssss", "."])


@given(st.lists(st.tuples(WORDS, st.sampled_from(TASK.labels)), min_size=1, max_size=25), st.integers(3, 9))
def test_a_long_sentence_keeps_every_piece_and_every_tag(words: list[tuple[str, str]], max_length: int) -> None:
    example = TaggedSentence(tuple(word for word, _ in words), tuple(tag for _, tag in words))
    inputs = TASK.inputs([example], TOKENIZER, max_length)
    assert all(3 <= len(model_input.encodings[0]) <= max_length for model_input in inputs)
    pieces = [piece for model_input in inputs for piece in model_input.encodings[0].ids[1:-1]]
    assert pieces == TOKENIZER.encode(" ".join(example.words)).ids[1:-1]
    targets = np.concatenate([model_input.target for model_input in inputs])
    assert [TASK.labels[index] for index in targets if index != IGNORED] == list(example.tags)
    prediction = TASK.predictions([example], inputs, [_logits(model_input.target) for model_input in inputs])
    assert prediction[0]["tags"] == list(example.tags)


def test_parts_end_between_words() -> None:
    example = TaggedSentence(("jim", "amazons", "amazon"), ("O", "O", "O"))
    tokens = [model_input.encodings[0].tokens[1:-1] for model_input in TASK.inputs([example], TOKENIZER, 6)]
    assert tokens == [["jim", "ama", "##zon", "##s"], ["ama", "##zon"]]
    tokens = [model_input.encodings[0].tokens[1:-1] for model_input in TASK.inputs([example], TOKENIZER, 5)]
    assert tokens == [["jim"], ["ama", "##zon", "##s"], ["ama", "##zon"]]


def test_scores_count_whole_entities() -> None:
    gold = TaggedSentence(("Jim", "Jim", "bought", "Amazon"), ("B-PER", "I-PER", "O", "B-ORG"))
    inputs = TASK.inputs([gold, JIM], TOKENIZER, 20)
    outputs = [_logits(model_input.target) for model_input in inputs]
    assert TASK.score([gold, JIM], inputs, outputs) == {"f1": 1.0, "precision": 1.0, "recall": 1.0, "accuracy": 1.0}
    outputs[0][2] = 9.0 * np.eye(5)[0]  # "Jim Jim" is cut to "Jim": of 4 entities 3 are right, of 4 found 3
    scores = TASK.score([gold, JIM], inputs, outputs)
    assert (scores["f1"], scores["precision"], scores["recall"]) == (0.75, 0.75, 0.75)
    assert scores["accuracy"] == pytest.approx(7 / 8)


def test_predictions_show_the_words_as_they_were() -> None:
    inputs = TASK.inputs([JIM], TOKENIZER, 20)
    (prediction,) = TASK.predictions([JIM], inputs, [_logits(inputs[0].target)])
    assert [(entity["text"], entity["type"]) for entity in prediction["entities"]] == [
        ("Jim", "PER"),
        ("Amazon", "ORG"),
    ]
    assert prediction["entities"][0]["probability"] == pytest.approx(np.exp(9) / (np.exp(9) + 4))


def test_words_that_the_tokenizer_drops() -> None:
    example = TaggedSentence(("jim", "\u200b", "."), None)
    inputs = TASK.inputs([example], TOKENIZER, 20)
    assert inputs[0].target is None
    prediction = TASK.predictions([example], inputs, [9.0 * np.eye(5)[[0, 3, 1, 0]]])
    assert prediction[0]["tags"] == ["B-PER", "O", "B-ORG"]
    with pytest.raises(UserError, match="nothing that the tokenizer keeps"):
        TASK.inputs([TaggedSentence(("\u200b",))], TOKENIZER, 20)


TAGS = ["O", "B-A", "I-A", "B-B", "I-B"]


@given(st.lists(st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1), min_size=1))
def test_entities_equal_seqeval(sentences: list[list[tuple[str, str]]]) -> None:
    pytest.importorskip("seqeval", reason="seqeval is the reference: install requirements/seqeval.txt to run this test")
    from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score

    targets = [[target for target, _ in sentence] for sentence in sentences]
    predictions = [[prediction for _, prediction in sentence] for sentence in sentences]
    scores = entity_scores(targets, predictions)
    assert scores["f1"] == pytest.approx(f1_score(targets, predictions, zero_division=0))
    assert scores["precision"] == pytest.approx(precision_score(targets, predictions, zero_division=0))
    assert scores["recall"] == pytest.approx(recall_score(targets, predictions, zero_division=0))
    assert scores["accuracy"] == pytest.approx(accuracy_score(targets, predictions))


@pytest.mark.parametrize(
    ("target", "prediction", "right"),
    [
        ("B-A I-A O", "B-A I-A O", True),
        ("B-A I-A O", "B-A O O", False),  # cut
        ("B-A I-A O", "B-A B-A O", False),  # torn in two
        ("B-A I-A O", "B-B I-B O", False),  # another type
        ("B-A I-A O", "I-A I-A O", True),  # an I- that continues nothing begins an entity
        ("O B-A O", "O S-A O", True),  # another scheme
    ],
)
def test_an_entity_is_right_as_a_whole_or_not_at_all(target: str, prediction: str, right: bool) -> None:
    assert entity_scores([target.split()], [prediction.split()])["recall"] == float(right)


def test_entities_of_nothing_and_of_unequal_lengths() -> None:
    assert entity_scores([["O"]], [["O"]]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0}
    with pytest.raises(UserError, match="2 tags has 1 predictions"):
        entity_scores([["O", "O"]], [["O"]])
