"""On an accelerator every loop trains as on the processor, and a forgotten move is noticed: see ``check_models``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import (
    ACCELERATOR,
    BERT,
    BLOCK,
    DROPOUT,
    PRETEND,
    RATES,
    TEXTS,
    TOKENIZER,
    V,
    assert_same,
    elmo,
    made,
    translator,
)

from d2lbert.config import (
    BertConfig,
    GptConfig,
)
from d2lbert.data import ChoiceQuestion, Pair, Question, ScoredPair, Sentence, TaggedSentence
from d2lbert.data.elmo import SentenceBatches, word_vocabulary
from d2lbert.data.examples import Answer
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.causal import CausalData
from d2lbert.data.pretraining.corpus import learn_vocabulary
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.data.translation import EncodedPair
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.distillation import Distillation, LogitMatching, SpanDistillation
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.tasks.table import named_task
from d2lbert.torch import heads
from d2lbert.torch.bert import BertModel
from d2lbert.torch.compression import BiLstmClassifier, taught
from d2lbert.torch.elmo import BidirectionalLanguageModel
from d2lbert.torch.gpt import Gpt
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import best_device
from d2lbert.torch.training.elmo import LanguageModelTraining, perplexities, train_language_model
from d2lbert.torch.training.evaluation import evaluate, predict
from d2lbert.torch.training.finetuning import Training, fine_tune
from d2lbert.torch.training.pretraining import Pretraining, Trainer
from d2lbert.torch.translation import SequenceTraining, evaluate_sequences, train_sequences

EXAMPLES: dict[str, list[Any]] = {
    "classification": [Sentence(text, label) for text, label in zip(TEXTS, "xyxy", strict=True)],
    "pair": [Pair(text, "e d", label) for text, label in zip(TEXTS, "xyxy", strict=True)],
    "scores": [ScoredPair(text, "e d", score) for text, score in zip(TEXTS, (0.0, 1.0, 2.0, 5.0), strict=True)],
    "tagging": [TaggedSentence(("a", "b"), ("O", "B-X")), TaggedSentence(("c", "d", "e"), ("B-X", "I-X", "O"))] * 2,
    "question_answering": [
        Question("a ?", "b c d", (Answer("c", 2),), id="1"),
        Question("d ?", "e f", (Answer("e", 0),), id="2"),
        Question("e ?", "f g", (), id="3"),
    ],
    "multiple_choice": [ChoiceQuestion("a b", ("c", "d e"), answer) for answer in (0, 1, 1)],
}


def fine_tuning_case(name: str, device: torch.device, folder: Path) -> Any:
    named, examples = named_task("pair" if name == "scores" else name), EXAMPLES[name]
    task = named.of_examples(examples)
    encoder = made(BertModel, BERT, device=torch.device("cpu"))
    model = getattr(heads, named.head)(encoder, task.labels)
    sizes = {"epochs": 2, "batch_size": 2, "learning_rate": 1e-3, "max_length": 24}
    settings = Training(**sizes, balanced=name == "tagging", precision="float32")
    records = fine_tune(model, task, TOKENIZER, examples, examples, settings, device, False, folder / "checkpoint")
    resumed = getattr(heads, named.head)(made(BertModel, BERT, device=torch.device("cpu")), task.labels)
    again = fine_tune(resumed, task, TOKENIZER, examples, examples, settings, device, False, folder / "checkpoint")
    assert str(model.state_dict()) == str(resumed.state_dict())
    assert again == records
    scores = evaluate(model, task, TOKENIZER, examples, 24)
    model.save_pretrained(folder / "model")
    saved = type(model).from_pretrained(folder / "model")
    answers, read = (predict(one, task, TOKENIZER, examples, 24) for one in (model, saved))
    assert_same(read, answers)  # the saved one computes on the processor
    assert str(read) == str(answers) or not PRETEND
    timeless = [{key: value for key, value in record.items() if "second" not in key} for record in records]
    return [timeless, scores, list(model.state_dict().values())]


def translation_case(kind: str, device: torch.device, folder: Path) -> Any:
    pairs = [EncodedPair([5, 6, 2], [1, 7, 8, 2]), EncodedPair([9, 2], [1, 9, 2]), EncodedPair([6, 2], [1, 5, 2])]
    model = translator(kind, torch.device("cpu"))
    settings = SequenceTraining(steps=4, tokens=12, learning_rate=0.01, warmup_steps=2, evaluate_every=2)
    train_sequences(model, pairs, pairs, settings, device, folder / "run", progress=False)
    again = translator(kind, torch.device("cpu"))
    history = train_sequences(again, pairs, pairs, settings, device, folder / "run", resume=True, progress=False)
    assert str(again.state_dict()) == str(model.state_dict())
    losses = [(record["loss"], record["dev_loss"]) for record in history]
    return [losses, evaluate_sequences(model, pairs)]


def distillation_case(device: torch.device) -> Any:
    """A BiLSTM learns what a BERT says."""
    task, examples = Classification("xy"), EXAMPLES["classification"]
    encoder = made(BertModel, BERT, device=torch.device("cpu"))
    lessons = taught(made(heads.BertForSequenceClassification, encoder, "xy", device=device), task, TOKENIZER, examples)
    vectors = np.linspace(-1, 1, 4 * V).reshape(V, 4)
    settings, found = Training(epochs=2, batch_size=2, learning_rate=1e-3, precision="float32"), []
    for lesson in (Distillation(task), LogitMatching(task)):
        student = made(
            BiLstmClassifier, vectors, "xy", device=torch.device("cpu"), state_size=3, inner_size=5, dropout=DROPOUT
        )
        fine_tune(student, lesson, TOKENIZER, lessons, examples, settings, device, progress=False)
        found += [evaluate(student, task, TOKENIZER, examples), *student.state_dict().values()]
    return found


def span_distillation_case(device: torch.device) -> Any:
    """A reader learns what another reader says of each window."""
    task, questions = QuestionAnswering(), [*EXAMPLES["question_answering"]]
    teacher = made(heads.BertForQuestionAnswering, made(BertModel, BERT, device=torch.device("cpu")), device=device)
    lessons = taught(teacher, task, TOKENIZER, questions, 8)
    student = made(heads.BertForQuestionAnswering, made(BertModel, BERT, device=torch.device("cpu")), device=device)
    settings = Training(epochs=2, batch_size=2, learning_rate=1e-3, max_length=8, precision="float32")
    history = fine_tune(student, SpanDistillation(task), TOKENIZER, lessons, questions, settings, device, False)
    return [[record["loss"] for record in history], *student.state_dict().values()]


def elmo_training_case(device: torch.device, folder: Path) -> Any:
    sentences = [["the", "cat", "sat"], ["a", "dog", "ran", "home"]] * 4
    vocabulary = word_vocabulary(sentences, 50)
    batches = SentenceBatches(sentences, vocabulary, 8, 20)
    settings = LanguageModelTraining(epochs=1, learning_rate=0.02, save_every=2)
    found: list[Any] = []
    for samples in (0, 4) if PRETEND else (0,):  # a real device draws other words
        torch.manual_seed(0)
        model = BidirectionalLanguageModel(elmo(torch.device("cpu")), len(vocabulary), DROPOUT, samples=samples)
        history = train_language_model(model, batches, settings, folder / str(samples), progress=False, device=device)
        found += [[(record["forward"], record["backward"]) for record in history], perplexities(model, batches)]
    return found


def pretraining_case(kind: str, shards: TokenShards, device: torch.device, folder: Path) -> Any:
    examples = PretrainingSettings(max_length=40, batch_size=4, next_sentence=kind == "bert")
    if kind == "bert":
        config: Any = BertConfig(vocab_size=900, max_position_embeddings=48, **BLOCK, **RATES)
        model, data_class = made(BertForPretraining, config, device=device), PretrainingData
    else:
        config = GptConfig(
            vocab_size=900,
            n_positions=48,
            bos_token_id=2,
            eos_token_id=3,
            pad_token_id=0,
            n_embd=8,
            n_layer=2,
            n_head=2,
            resid_pdrop=DROPOUT,
            embd_pdrop=DROPOUT,
            attn_pdrop=DROPOUT,
        )
        model, data_class = made(Gpt, config, device=device), CausalData
    often = {"log_every": 1, "validate_every": 2, "save_every": 2, "validation_batches": 2}
    settings = Pretraining(steps=4, accumulation=2, precision="float32", **often)
    data, dev = (data_class(shards, examples, split) for split in ("train", "dev"))
    trainer = Trainer(model, data, dev, settings, folder)
    last = trainer.run(progress=False)
    trainer.finish(shards.tokenizer())
    resumed = Trainer(made(type(model), config, device=device), data, dev, settings, folder)
    assert resumed.resume()
    assert str(resumed.model.state_dict()) == str(model.state_dict())
    del last["tokens_per_second"]
    return [last, list(model.state_dict().values())]


LOOPS: dict[str, Callable[[torch.device, Path], Any]] = {
    **{name: lambda device, folder, name=name: fine_tuning_case(name, device, folder) for name in EXAMPLES},
    "translation": lambda device, folder: translation_case("transformer", device, folder),
    "translation, seq2seq": lambda device, folder: translation_case("additive gru", device, folder),
    "distillation": lambda device, folder: distillation_case(device),
    "distillation of a reader": lambda device, folder: span_distillation_case(device),
    "elmo": elmo_training_case,
}


@pytest.mark.parametrize("name", LOOPS)
def test_it_trains_as_on_the_processor(name: str, accelerator: torch.device, tmp_path: Path) -> None:
    found = LOOPS[name](accelerator, tmp_path / "accelerator")
    assert_same(found, LOOPS[name](torch.device("cpu"), tmp_path / "processor"))


@pytest.fixture(scope="module")
def shards(root: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    files = sorted((root / "data" / "samples" / "wikipedia_en").glob("*.txt"))
    folder = tmp_path_factory.mktemp("corpus")
    return prepare(files, folder, learn_vocabulary(files, 900), Preparation(dev_share=0.2, shard_characters=30_000))


@pytest.mark.parametrize("kind", ["bert", "gpt"])
def test_it_pretrains_as_on_the_processor(
    kind: str, shards: TokenShards, accelerator: torch.device, tmp_path: Path
) -> None:
    found = pretraining_case(kind, shards, accelerator, tmp_path / "accelerator")
    assert_same(found, pretraining_case(kind, shards, torch.device("cpu"), tmp_path / "processor"))


@pytest.mark.parametrize(
    ("forgetful", "name"),
    [
        ("d2lbert.torch.training.finetuning.to_tensors", "classification"),
        ("d2lbert.torch.training.evaluation.to_tensors", "tagging"),
        ("d2lbert.torch.translation._tensors", "translation"),
    ],
)
def test_a_batch_that_was_not_moved_is_noticed(
    forgetful: str, name: str, accelerator: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, function = forgetful.rpartition(".")
    original = getattr(importlib.import_module(module), function)
    monkeypatch.setattr(forgetful, lambda batch, device: original(batch, "cpu"))
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        LOOPS[name](accelerator, tmp_path)


def test_loops_take_the_best_device(monkeypatch: pytest.MonkeyPatch, accelerator: torch.device) -> None:
    monkeypatch.setenv("D2LBERT_DEVICE", ACCELERATOR)
    assert best_device().type == accelerator.type
    task = named_task("classification").of_examples(EXAMPLES["classification"])
    model = heads.BertForSequenceClassification(made(BertModel, BERT, device=torch.device("cpu")), task.labels)
    fine_tune(model, task, TOKENIZER, EXAMPLES["classification"], EXAMPLES["classification"], Training(epochs=1))
    assert {parameter.device.type for parameter in model.parameters()} == {accelerator.type}
