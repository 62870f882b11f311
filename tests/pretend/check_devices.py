"""On an accelerator everything computes what the processor computes, and a tensor that was not moved is noticed.

The accelerator is the pretend one beside this file: no GPU is needed. Each case is a function of a device, run on the
processor and on the accelerator. PyTorch must meet the device before its first gradient, so these tests have
a process of their own (``tests/system/test_devices.py``, ``make test-device``).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from d2lbert import UserError
from d2lbert.config import (
    AlbertConfig,
    BertConfig,
    DistilBertConfig,
    ElmoConfig,
    GptConfig,
    Seq2SeqConfig,
    TransformerConfig,
)
from d2lbert.data import ChoiceQuestion, Pair, Question, ScoredPair, Sentence, TaggedSentence
from d2lbert.data.batching import pack, pad
from d2lbert.data.elmo import SentenceBatches, word_vocabulary
from d2lbert.data.examples import Answer
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.causal import CausalData
from d2lbert.data.pretraining.corpus import learn_vocabulary
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.data.skipgrams import Windows
from d2lbert.data.translation import EncodedPair
from d2lbert.tasks.table import named_task
from d2lbert.text import Vocabulary, WordPiece, count_words
from d2lbert.torch import heads
from d2lbert.torch.adapters import adapted_layers, add_adapters, merge_adapters
from d2lbert.torch.adapters.shared import SharedEncoder
from d2lbert.torch.attention import AdditiveAttention, DotProductAttention, MultiHeadAttention
from d2lbert.torch.bert import BertModel
from d2lbert.torch.crf import LinearChainCrf
from d2lbert.torch.elmo import BidirectionalLanguageModel, Elmo
from d2lbert.torch.generation import Sampling, beam_search, greedy_search, sample
from d2lbert.torch.gpt import Gpt
from d2lbert.torch.masked_words import fill_masks, pseudo_log_likelihoods
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.probing import word_vectors
from d2lbert.torch.relatives import AlbertModel, DistilBertModel
from d2lbert.torch.runtime import best_device, to_tensors
from d2lbert.torch.seq2seq import LanguageModel, Seq2Seq
from d2lbert.torch.training.elmo import LanguageModelTraining, perplexities, train_language_model
from d2lbert.torch.training.evaluation import evaluate, predict
from d2lbert.torch.training.finetuning import Training, fine_tune
from d2lbert.torch.training.pretraining import Pretraining, Trainer
from d2lbert.torch.transformer import Transformer
from d2lbert.torch.translation import SequenceTraining, evaluate_sequences, train_sequences
from d2lbert.torch.word_vectors import Cbow, FastText, SkipGram, train

V = 24
BLOCK = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrs"])
BERT = BertConfig(vocab_size=V, max_position_embeddings=32, **BLOCK)
TEXTS = ["a b c", "d", "e f g h i", "j k"]


@pytest.fixture(scope="module")
def accelerator() -> torch.device:
    """The pretend device."""
    return torch.device("pretend")


def made(kind: Callable[..., nn.Module], *arguments: Any, device: torch.device, **options: Any) -> Any:
    """A model with the weights of seed 0, on a device."""
    torch.manual_seed(0)
    return kind(*arguments, **options).eval().to(device)


def ids(device: torch.device, rows: int = 3, length: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids (rows, length) and their mask, padded at the right."""
    numbers = torch.arange(rows * length).reshape(rows, length) % (V - 6) + 5
    mask = (torch.arange(length) < length - torch.arange(rows).unsqueeze(1)).long()
    return (numbers * mask).to(device), mask.to(device)


def gradients(model: nn.Module, loss: torch.Tensor) -> list[torch.Tensor]:
    """The gradient of every parameter that the loss depends on."""
    loss.backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def encoder_case(kind: Callable[..., nn.Module], config: Any, packed: bool, device: torch.device) -> Any:
    model = made(kind, config, device=device)
    rows = to_tensors((pack if packed else pad)(TOKENIZER.encode_batch(TEXTS)), device)
    output = model(rows, output_hidden_states=True, output_attentions=True)
    pooled = model.forward_pooled(rows)
    return [output.sequence, *output.hidden_states, *output.attentions, pooled, *gradients(model, pooled.sum())]


def attention_case(kind: Callable[..., nn.Module], device: torch.device) -> Any:
    sizes = {AdditiveAttention: (8, 8, 8), DotProductAttention: (), MultiHeadAttention: (8, 2)}[kind]
    layer = made(kind, *sizes, device=device)
    x = torch.linspace(-1, 1, 2 * 3 * 8).reshape(2, 3, 8).to(device)
    visible = torch.tensor([[[True, True, True]], [[True, False, False]]], device=device)  # (2, 1, 3)
    return layer(x, x, x, visible)


def adapters_case(device: torch.device) -> Any:
    encoder = made(BertModel, BERT, device=torch.device("cpu"))
    model = made(heads.BertForSequenceClassification, encoder, ("a", "b"), device=torch.device("cpu"))
    add_adapters(model)
    model.to(device)
    rows = to_tensors(pad(TOKENIZER.encode_batch(TEXTS)), device)
    logits = model(rows)
    found = [logits, *gradients(model, logits.square().sum())]
    merge_adapters(model)
    return [*found, model(rows)]


def shared_adapters_case(device: torch.device) -> Any:
    """Texts of two heads with adapters, and of one without, in one batch."""
    shared = SharedEncoder(made(BertModel, BERT, device=device))
    models = []
    for number, head in enumerate((heads.BertForSequenceClassification, heads.BertForTokenClassification) * 2):
        encoder = made(BertModel, BERT, device=torch.device("cpu"))
        models.append(made(head, encoder, ("a", "b"), device=torch.device("cpu")))
        if number < 3:
            add_adapters(models[-1])
            for layer in adapted_layers(models[-1]).values():
                nn.init.normal_(layer.up, std=0.1)
        shared.add(models[-1].to(device))
    return shared.logits(pack(TOKENIZER.encode_batch(TEXTS)), models)


def gpt_case(device: torch.device) -> Any:
    config = GptConfig(
        vocab_size=V, n_positions=32, bos_token_id=2, eos_token_id=3, pad_token_id=0, n_embd=8, n_layer=2, n_head=2
    )
    model = made(Gpt, config, device=device)
    rows = to_tensors(pack(TOKENIZER.encode_batch(TEXTS)), device)
    hypotheses = model.generate([[5, 6, 7], [8]], max_length=5)
    return [model(rows).logits, model(*ids(device)).logits, [(one.ids, one.score) for one in hypotheses]]


def translator(kind: str, device: torch.device) -> Any:
    if kind == "transformer":
        sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        return made(Transformer, TransformerConfig(V, V, 8, **sizes), device=device)
    attention, cell = kind.split()
    return made(Seq2Seq, Seq2SeqConfig(V, V, 8, embedding_size=8, attention=attention, cell=cell), device=device)


def translator_case(kind: str, device: torch.device) -> Any:
    model, (source, mask) = translator(kind, device), ids(device)
    found = [model(source, source[:, :3], mask).logits]
    for search in (greedy_search, beam_search, sample):
        found.append([(one.ids, one.score) for one in search(model, source, mask, max_length=6)])
    drawn = sample(model, source, mask, 6, Sampling(top_k=3, top_p=0.8, seed=3))
    return [*found, [one.ids for one in drawn]]


def language_model_case(device: torch.device) -> Any:
    model = made(LanguageModel, V, 8, 8, device=device)
    return [model(ids(device)[0])[0], model.generate([5, 6], 4)]


def elmo(device: torch.device) -> Any:
    config = ElmoConfig(
        char_embedding_size=4, filters=((1, 8), (2, 8)), max_characters=8, projection_size=6, hidden_size=8
    )
    return made(Elmo, config, device=device)


def elmo_case(device: torch.device) -> Any:
    return elmo(device).embed([["the", "cat"], ["a"]])


def crf_case(device: torch.device) -> Any:
    model = made(LinearChainCrf, 3, device=device)
    emissions = torch.linspace(-1, 1, 24).reshape(2, 4, 3).to(device)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], device=device).bool()
    labels = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 0]], device=device)
    loss = model(emissions, labels, mask)
    return [loss, model.decode(emissions, mask), *gradients(model, loss.sum())]


def masked_words_case(device: torch.device) -> Any:
    model = made(BertForPretraining, BERT, device=device)
    filled = fill_masks(model, TOKENIZER, "a [MASK] c", k=3)
    scores = pseudo_log_likelihoods(model, TOKENIZER, TEXTS)
    return [str(filled), [one.log_probability for one in scores]]


def probing_case(device: torch.device) -> Any:
    return word_vectors(made(BertModel, BERT, device=device), TOKENIZER, [["a", "bc"], ["d"]])


def word_vector_case(kind: str, device: torch.device) -> Any:
    sentences = [["a", "b", "c", "d"], ["b", "c", "e"], ["a", "e", "d"]] * 4
    vocabulary = Vocabulary(count_words(" ".join(words) for words in sentences))
    windows = Windows(sentences, vocabulary, window=2, threshold=1.0, seed=1)
    if kind == "fasttext":
        model = made(FastText, vocabulary.words, 4, buckets=50, device=torch.device("cpu"))
    else:
        model = made({"skip_gram": SkipGram, "cbow": Cbow}[kind], len(vocabulary), 4, device=torch.device("cpu"))
    losses = train(model, (windows.cbow if kind == "cbow" else windows.skip_gram)(16, epochs=2), device=device)
    return [losses, model.vectors()]


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
    settings = Training(epochs=2, batch_size=2, learning_rate=1e-3, max_length=24, balanced=name == "tagging")
    records = fine_tune(model, task, TOKENIZER, examples, examples, settings, device, False, folder / "checkpoint")
    resumed = getattr(heads, named.head)(made(BertModel, BERT, device=torch.device("cpu")), task.labels)
    again = fine_tune(resumed, task, TOKENIZER, examples, examples, settings, device, False, folder / "checkpoint")
    assert str(model.state_dict()) == str(resumed.state_dict())
    assert again == records
    scores = evaluate(model, task, TOKENIZER, examples, 24)
    model.save_pretrained(folder / "model")
    saved = type(model).from_pretrained(folder / "model")
    assert str(predict(saved, task, TOKENIZER, examples, 24)) == str(predict(model, task, TOKENIZER, examples, 24))
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


def elmo_training_case(device: torch.device, folder: Path) -> Any:
    sentences = [["the", "cat", "sat"], ["a", "dog", "ran", "home"]] * 4
    vocabulary = word_vocabulary(sentences, 50)
    batches = SentenceBatches(sentences, vocabulary, 8, 20)
    settings = LanguageModelTraining(epochs=1, learning_rate=0.02, save_every=2)
    found: list[Any] = []
    for samples in (0, 4):
        torch.manual_seed(0)
        model = BidirectionalLanguageModel(elmo(torch.device("cpu")), len(vocabulary), samples=samples)
        history = train_language_model(model, batches, settings, folder / str(samples), progress=False, device=device)
        found += [[(record["forward"], record["backward"]) for record in history], perplexities(model, batches)]
    return found


def pretraining_case(kind: str, shards: TokenShards, device: torch.device, folder: Path) -> Any:
    examples = PretrainingSettings(max_length=40, batch_size=4, next_sentence=kind == "bert")
    if kind == "bert":
        config: Any = BertConfig(vocab_size=900, max_position_embeddings=48, **BLOCK)
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
        )
        model, data_class = made(Gpt, config, device=device), CausalData
    settings = Pretraining(steps=4, accumulation=2, log_every=1, validate_every=2, save_every=2, validation_batches=2)
    data, dev = (data_class(shards, examples, split) for split in ("train", "dev"))
    trainer = Trainer(model, data, dev, settings, folder)
    last = trainer.run(progress=False)
    trainer.finish(shards.tokenizer())
    resumed = Trainer(made(type(model), config, device=device), data, dev, settings, folder)
    assert resumed.resume()
    assert str(resumed.model.state_dict()) == str(model.state_dict())
    del last["tokens_per_second"]
    return [last, list(model.state_dict().values())]


CASES: dict[str, Callable[[torch.device], Any]] = {
    "bert, padded": lambda device: encoder_case(BertModel, BERT, False, device),
    "bert, packed": lambda device: encoder_case(BertModel, BERT, True, device),
    "albert": lambda device: encoder_case(
        AlbertModel, AlbertConfig(vocab_size=V, embedding_size=4, max_position_embeddings=32, **BLOCK), True, device
    ),
    "distilbert": lambda device: encoder_case(
        DistilBertModel, DistilBertConfig(vocab_size=V, max_position_embeddings=32, **BLOCK), True, device
    ),
    "additive attention": lambda device: attention_case(AdditiveAttention, device),
    "dot-product attention": lambda device: attention_case(DotProductAttention, device),
    "multi-head attention": lambda device: attention_case(MultiHeadAttention, device),
    "adapters": adapters_case,
    "adapters of one encoder": shared_adapters_case,
    "gpt": gpt_case,
    "transformer": lambda device: translator_case("transformer", device),
    "seq2seq": lambda device: translator_case("none gru", device),
    "seq2seq, additive attention": lambda device: translator_case("additive lstm", device),
    "seq2seq, dot-product attention": lambda device: translator_case("dot gru", device),
    "recurrent language model": language_model_case,
    "elmo": elmo_case,
    "crf": crf_case,
    "masked words": masked_words_case,
    "probing": probing_case,
    "skip-gram": lambda device: word_vector_case("skip_gram", device),
    "cbow": lambda device: word_vector_case("cbow", device),
    "fasttext": lambda device: word_vector_case("fasttext", device),
}
LOOPS: dict[str, Callable[[torch.device, Path], Any]] = {
    **{name: lambda device, folder, name=name: fine_tuning_case(name, device, folder) for name in EXAMPLES},
    "translation": lambda device, folder: translation_case("transformer", device, folder),
    "translation, seq2seq": lambda device, folder: translation_case("additive gru", device, folder),
    "elmo": elmo_training_case,
}


def assert_same(found: Any, expected: Any) -> None:
    """Numbers, texts, and tensors of any device are equal, however they are nested."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-6, equal_nan=True)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    elif isinstance(expected, dict):
        assert_same([*found.items()], [*expected.items()])
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    else:
        assert found == expected


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_the_processor_computes(name: str, accelerator: torch.device) -> None:
    assert_same(CASES[name](accelerator), CASES[name](torch.device("cpu")))


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
    monkeypatch.setenv("D2LBERT_DEVICE", "pretend")
    assert best_device().type == "pretend"
    task = named_task("classification").of_examples(EXAMPLES["classification"])
    model = heads.BertForSequenceClassification(made(BertModel, BERT, device=torch.device("cpu")), task.labels)
    fine_tune(model, task, TOKENIZER, EXAMPLES["classification"], EXAMPLES["classification"], Training(epochs=1))
    assert {parameter.device.type for parameter in model.parameters()} == {"pretend"}


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "pretend:x"])
def test_a_device_that_is_not_there_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_DEVICE", name)
    with pytest.raises(UserError, match=f"D2LBERT_DEVICE={name} is no device of this machine") as error:
        best_device()
    assert "\n" not in str(error.value)
