"""What a fine-tuning run refuses before it begins, and what it refuses to go on from."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data import ScoredPair, Sentence, TaggedSentence
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.pair import PairRegression
from d2lbert.tasks.tagging import Tagging
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification, BertForTokenClassification
from d2lbert.torch.training import finetuning
from d2lbert.torch.training.finetuning import Training, fine_tune

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"])
TASK = Classification(["negative", "positive"])
SENTENCES = [Sentence("good film", "positive"), Sentence("bad film", "negative")] * 4
QUICK = Training(epochs=1, batch_size=4, learning_rate=1e-3)


def _encoder(seed: int = 0) -> BertModel:
    torch.manual_seed(seed)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertModel(BertConfig(vocab_size=len(TOKENIZER.vocab), max_position_embeddings=16, **sizes))


def _run(train=SENTENCES, dev=SENTENCES, settings=QUICK, task=TASK, seed=0, checkpoint=None):
    model = BertForSequenceClassification(_encoder(seed), task.labels)
    return fine_tune(model, task, TOKENIZER, train, dev, settings, progress=False, checkpoint=checkpoint)


def test_a_checkpoint_knows_its_encoder_its_examples_and_its_labels(tmp_path: Path) -> None:
    history = _run(checkpoint=tmp_path)
    assert _run(checkpoint=tmp_path) == history
    turned = [Sentence(one.text, "positive" if one.label == "negative" else "negative") for one in SENTENCES]
    renamed = [Sentence(one.text, f"very {one.label}") for one in SENTENCES]
    with pytest.raises(UserError, match="is of another run: encoder was"):
        _run(checkpoint=tmp_path, seed=1)
    with pytest.raises(UserError, match="is of another run: train was"):
        _run(train=turned, checkpoint=tmp_path)
    with pytest.raises(UserError, match="is of another run: dev was"):
        _run(dev=SENTENCES[::-1], checkpoint=tmp_path)
    with pytest.raises(UserError, match="is of another run: labels was"):
        _run(renamed, renamed, task=Classification.of(renamed), checkpoint=tmp_path)


def test_a_checkpoint_without_a_part_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run(checkpoint=tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(finetuning.Run, "state", lambda run: {"model": run.model.state_dict()})
        shutil.rmtree(tmp_path)
        _run(checkpoint=tmp_path)
    with pytest.raises(UserError, match=r"checkpoint-\d+ does not hold the state of this run \(KeyError\)"):
        _run(checkpoint=tmp_path)


def test_a_score_that_cannot_choose_is_refused_before_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim, "AdamW", None)  # nothing can learn
    with pytest.raises(UserError, match="unknown score best_by 'acuracy': did you mean accuracy"):
        _run(settings=dataclasses.replace(QUICK, best_by="acuracy"))
    pairs = [ScoredPair("good film", "bad film", 1.0), ScoredPair("good", "good", 5.0)]
    lowest = dataclasses.replace(QUICK, best_by="mean_squared_error")
    with pytest.raises(UserError, match="best_by mean_squared_error: its highest value is not the best"):
        _run(pairs, pairs, lowest, PairRegression())
    with pytest.raises(UserError, match="a correlation needs at least two pairs"):
        _run(pairs, pairs[:1], QUICK, PairRegression())


def test_a_score_of_tags_is_found_before_the_training() -> None:
    """Their logits have another shape; the check must not mind."""
    sentence = TaggedSentence(("good", "film"), ("O", "B-ART"))
    task = Tagging.of([sentence])
    settings = dataclasses.replace(QUICK, best_by="recall")
    model = BertForTokenClassification(_encoder(), task.labels)
    assert "recall" in fine_tune(model, task, TOKENIZER, [sentence], [sentence], settings, progress=False)[0]


def test_examples_that_cannot_be_learned_from() -> None:
    with pytest.raises(UserError, match="no examples to train on"):
        _run(train=[])
    with pytest.raises(UserError, match="no examples to choose the epoch on"):
        _run(dev=[])
    with pytest.raises(UserError, match="an example to train on has no label"):
        _run(train=[*SENTENCES, Sentence("good film")])


def test_a_bare_text_is_no_example() -> None:
    for train, dev in ((["good film"], SENTENCES), (SENTENCES, ["good film"])):
        with pytest.raises(UserError, match="is a str, not an example: write one of"):
            _run(train, dev)


def test_texts_longer_than_the_positions_are_one_line() -> None:
    long = [Sentence("good film " * 10, "positive")]
    message = "a text of 22 tokens, but the model has 16 positions: give a smaller max_length"
    with pytest.raises(UserError, match=message):
        _run(train=long)
    with pytest.raises(UserError, match=message):
        _run(dev=long)


def test_a_frozen_encoder_with_layer_decay() -> None:
    model = BertForSequenceClassification(_encoder(), TASK.labels)
    before = {name: tensor.clone() for name, tensor in model.bert.state_dict().items()}
    for parameter in model.bert.parameters():
        parameter.requires_grad = False
    settings = dataclasses.replace(QUICK, layer_decay=0.5)
    assert len(fine_tune(model, TASK, TOKENIZER, SENTENCES, SENTENCES, settings, progress=False)) == 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.bert.state_dict().items())


def test_a_last_step_that_ruins_the_weights_is_noticed(tmp_path: Path) -> None:
    """One step an epoch: the loss of the step is finite, the weights that it makes are not."""
    settings = dataclasses.replace(QUICK, batch_size=8, learning_rate=1e38)
    with pytest.raises(UserError, match=r" became NaN or infinite at step 1: lower the learning rate$"):
        _run(settings=settings, checkpoint=tmp_path)
    assert not list(tmp_path.iterdir())
