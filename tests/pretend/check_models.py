"""On an accelerator every model computes what the processor computes.

The accelerator is the pretend one beside this file, for which no GPU is needed, or a real one
(``make test-device DEVICE=cuda``). Each case is a function of a device, run on the
processor and on the accelerator. PyTorch must meet the device before its first gradient, so these tests have
a process of their own (``tests/system/test_devices.py``, ``make test-device``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from small_models import BERT, BLOCK, PRETEND, TEXTS, TOKENIZER, V, assert_same, elmo, gradients, ids, made, translator
from torch import nn

from d2lbert import UserError
from d2lbert.config import (
    AlbertConfig,
    DistilBertConfig,
    GptConfig,
    PrunedBertConfig,
)
from d2lbert.config.base import BlockSizes
from d2lbert.data.batching import pack, pad
from d2lbert.data.examples import Sentence, Translation
from d2lbert.data.skipgrams import Windows
from d2lbert.data.translation import learn_vocabulary
from d2lbert.tasks.classification import Classification
from d2lbert.text import Vocabulary, count_words
from d2lbert.torch import heads
from d2lbert.torch.adapters import adapted_layers, add_adapters, merge_adapters
from d2lbert.torch.adapters.shared import SharedEncoder
from d2lbert.torch.attention import AdditiveAttention, DotProductAttention, MultiHeadAttention
from d2lbert.torch.bert import BertModel
from d2lbert.torch.compression import (
    BiLstmClassifier,
    CnnClassifier,
    copy_layers,
    factorise_embeddings,
    head_importance,
    keep_zeros,
    last_projections,
    masked_word_losses,
    neuron_importance,
    prune_encoder,
    prune_smallest,
    relation_losses,
    sparsity,
    taught,
)
from d2lbert.torch.crf import LinearChainCrf
from d2lbert.torch.generation import Sampling, beam_search, greedy_search, sample
from d2lbert.torch.gpt import Gpt, continue_texts
from d2lbert.torch.masked_words import fill_masks, pseudo_log_likelihoods
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.probing import word_vectors
from d2lbert.torch.relatives import AlbertModel, DistilBertModel, PrunedBertModel
from d2lbert.torch.runtime import best_device, to_tensors
from d2lbert.torch.seq2seq import LanguageModel
from d2lbert.torch.transformer_xl import RelativeEncoder, order_masks, remember
from d2lbert.torch.translation import translate
from d2lbert.torch.word_vectors import Cbow, FastText, SkipGram, train


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


def relative_case(device: torch.device) -> Any:
    """Two segments with a memory, the second in an order, with queries."""
    model = made(RelativeEncoder, BlockSizes(8, 2, 12), 2, device=device).eval()
    x = torch.linspace(-1, 1, 2 * 4 * 8).reshape(2, 4, 8).to(device)
    memories = remember(model(x).inputs, 3)
    sees, queries_see = order_masks([2, 0, 3, 1], device)
    found = model(x.flip(1), sees, memories, x.mean(1, keepdim=True).expand_as(x), queries_see)
    return [found.sequence, found.queries, *gradients(model, found.queries.square().sum())]


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


def pruning_case(device: torch.device) -> Any:
    """Importance, removal and zeros, of a classifier that is on the device."""
    encoder = made(BertModel, BERT, device=torch.device("cpu"))
    model = made(heads.BertForSequenceClassification, encoder, ("a", "b"), device=torch.device("cpu")).to(device)
    examples = [Sentence(text, "ab"[number % 2]) for number, text in enumerate(TEXTS)]
    task = Classification("ab")
    found = [
        *head_importance(model, task, TOKENIZER, examples),
        *neuron_importance(model, task, TOKENIZER, examples),
    ]
    model.bert = prune_encoder(model.bert, [[0], [1]], [range(5), range(7)])
    prune_smallest(model, 0.3, together=True)
    keep_zeros(model)
    logits = model(to_tensors(pack(TOKENIZER.encode_batch(TEXTS)), device))
    return [*found, logits, *gradients(model, logits.square().sum()), sparsity(model)]


def bilstm_case(device: torch.device) -> Any:
    vectors = np.linspace(-1, 1, 4 * V).reshape(V, 4)
    model = made(BiLstmClassifier, vectors, ("a", "b"), device=device, state_size=3, inner_size=5, dropout=0.0)
    model.train()  # a GPU's LSTM has gradients in training only
    encodings = TOKENIZER.encode_batch(TEXTS)
    padded, packed = (model(to_tensors(rows, device)) for rows in (pad(encodings), pack(encodings)))
    return [padded, packed, *gradients(model, packed.square().sum())]


def cnn_case(device: torch.device) -> Any:
    vectors = np.linspace(-1, 1, 4 * V).reshape(V, 4)
    model = made(CnnClassifier, vectors, ("a", "b"), device=device, filters=5, dropout=0.0)
    encodings = TOKENIZER.encode_batch(TEXTS)
    padded, packed = (model(to_tensors(rows, device)) for rows in (pad(encodings), pack(encodings)))
    return [padded, packed, *gradients(model, packed.square().sum())]


def distillation_case(device: torch.device) -> Any:
    """A student of one layer, and how far it is from its teacher of two: the losses of DistilBERT and MiniLM."""
    encoder = made(BertModel, BERT, device=torch.device("cpu"))
    teacher = made(heads.BertForSequenceClassification, encoder, ("a", "b"), device=device)
    student = copy_layers(teacher.bert)
    found = [one.logits for one in taught(teacher, Classification("ab"), TOKENIZER, [Sentence(text) for text in TEXTS])]
    for rows in (pad(TOKENIZER.encode_batch(TEXTS)), pack(TOKENIZER.encode_batch(TEXTS))):
        tensors = to_tensors(rows, device)
        losses = relation_losses(last_projections(student, tensors), last_projections(teacher.bert, tensors), tensors)
        ours, theirs = (own(tensors).sequence.flatten(0, 1) for own in (student, teacher.bert))  # (S, D)
        logits, wanted = (states @ student.embeddings.word.weight.T for states in (ours, theirs))  # (S, V)
        targets = tensors.token_ids.flatten().masked_fill(tensors.token_ids.flatten() == 0, -100)
        losses |= masked_word_losses(logits, wanted, targets, ours, theirs)
        found += [*losses.values(), *gradients(student, sum(losses.values()))]
    return found


def factorising_case(device: torch.device) -> Any:
    bert, found = made(BertModel, BERT, device=device), []
    for counts in (None, torch.arange(1, V + 1, device=device)):
        smaller = factorise_embeddings(bert, 5, counts)
        sequence = smaller(to_tensors(pack(TOKENIZER.encode_batch(TEXTS)), device)).sequence
        found.append(sequence)
    return found


def gpt_case(device: torch.device) -> Any:
    config = GptConfig(
        vocab_size=V, n_positions=32, bos_token_id=2, eos_token_id=3, pad_token_id=0, n_embd=8, n_layer=2, n_head=2
    )
    model = made(Gpt, config, device=device)
    rows = to_tensors(pack(TOKENIZER.encode_batch(TEXTS)), device)
    hypotheses = model.generate([[5, 6, 7], [8]], max_length=5)
    continued = continue_texts(model, TOKENIZER, ["a b", "", "c"], 5)
    return [model(rows).logits, model(*ids(device)).logits, [(one.ids, one.score) for one in hypotheses], continued]


def translator_case(kind: str, device: torch.device) -> Any:
    model, (source, mask) = translator(kind, device), ids(device)
    found = [model(source, source[:, :3], mask).logits]
    for search in (greedy_search, beam_search, sample):
        found.append([(one.ids, one.score) for one in search(model, source, mask, max_length=6)])
    drawn = sample(model, source, mask, 6, Sampling(top_k=3, top_p=0.8, seed=3))
    return [*found, [one.ids for one in drawn]]


def translation_case(kind: str, device: torch.device) -> Any:
    """Two batches of texts of different lengths; what a model of random weights writes is no language."""
    texts = ["a dog runs", "a cat", "dogs"]
    tokenizer = learn_vocabulary([Translation(text, text) for text in texts], 8)
    return translate(translator(kind, device, len(tokenizer)), tokenizer, texts, beam_size=2, batch_size=2)


def language_model_case(device: torch.device) -> Any:
    model = made(LanguageModel, V, 8, 8, device=device)
    return [model(ids(device)[0])[0], model.generate([5, 6], 4)]


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
    return [str(filled) if PRETEND else filled, [one.log_probability for one in scores]]


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


CASES: dict[str, Callable[[torch.device], Any]] = {
    "bert, padded": lambda device: encoder_case(BertModel, BERT, False, device),
    "bert, packed": lambda device: encoder_case(BertModel, BERT, True, device),
    "albert": lambda device: encoder_case(
        AlbertModel, AlbertConfig(vocab_size=V, embedding_size=4, max_position_embeddings=32, **BLOCK), True, device
    ),
    "distilbert": lambda device: encoder_case(
        DistilBertModel, DistilBertConfig(vocab_size=V, max_position_embeddings=32, **BLOCK), True, device
    ),
    "pruned bert": lambda device: encoder_case(
        PrunedBertModel,
        PrunedBertConfig(vocab_size=V, max_position_embeddings=32, heads_per_layer=(1, 2), embedding_rank=5, **BLOCK),
        True,
        device,
    ),
    "pruning": pruning_case,
    "bilstm": bilstm_case,
    "cnn": cnn_case,
    "distillation": distillation_case,
    "factorised embeddings": factorising_case,
    "additive attention": lambda device: attention_case(AdditiveAttention, device),
    "dot-product attention": lambda device: attention_case(DotProductAttention, device),
    "multi-head attention": lambda device: attention_case(MultiHeadAttention, device),
    "relative attention, a memory, an order": relative_case,
    "adapters": adapters_case,
    "adapters of one encoder": shared_adapters_case,
    "gpt": gpt_case,
    "transformer": lambda device: translator_case("transformer", device),
    "seq2seq": lambda device: translator_case("none gru", device),
    "seq2seq, additive attention": lambda device: translator_case("additive lstm", device),
    "seq2seq, dot-product attention": lambda device: translator_case("dot gru", device),
    "translating": lambda device: translation_case("transformer", device),
    "translating, seq2seq": lambda device: translation_case("additive gru", device),
    "recurrent language model": language_model_case,
    "elmo": elmo_case,
    "crf": crf_case,
    "masked words": masked_words_case,
    "probing": probing_case,
    "skip-gram": lambda device: word_vector_case("skip_gram", device),
    "cbow": lambda device: word_vector_case("cbow", device),
    "fasttext": lambda device: word_vector_case("fasttext", device),
}


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_the_processor_computes(name: str, accelerator: torch.device) -> None:
    assert_same(CASES[name](accelerator), CASES[name](torch.device("cpu")))


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "pretend:x"])
def test_a_device_that_is_not_there_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_DEVICE", name)
    with pytest.raises(UserError, match=f"D2LBERT_DEVICE={name} is no device of this machine") as error:
        best_device()
    assert "\n" not in str(error.value)


def test_a_mask_of_the_processor_is_noticed(accelerator: torch.device) -> None:
    """Of one number, too: a GPU refuses it, though it takes such a tensor in a sum."""
    x = torch.zeros(2, device=accelerator)
    assert (x + torch.tensor(1.0)).tolist() == [1, 1]
    assert x.masked_fill(torch.tensor(True, device=accelerator), 1.0).tolist() == [1, 1]
    for mask in (torch.tensor(True), torch.tensor([True, False])):
        with pytest.raises(RuntimeError, match=r"(?i)expected .* to be on the same device"):
            x.masked_fill(mask, 1.0)
