"""Models of the hub: served here with each entry's true vocabulary, positions, activation and names, and compared."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hub_support import Hub, publish, reference_model, shrink, small_zoo, state_of
from safetensors.numpy import load_file

from d2lbert import UserError, get_model
from d2lbert.commands.fill_mask import fill_mask
from d2lbert.text import SPECIAL_TOKENS
from d2lbert.torch.bert import BertModel
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.zoo import locate
from d2lbert.zoo import table as zoo_table
from d2lbert.zoo.convert import convert_bin
from d2lbert.zoo.files import hub_folder
from d2lbert.zoo.table import ModelEntry

pytest.importorskip("transformers")

ENTRIES = {
    entry.label: shrink(entry) for entry in zoo_table.entries() if entry.source == "hub" and entry.kind == "bert"
}
TINY = "bert_tiny:book_corpus_wiki_en_uncased"
CHINESE = "bert_12_768_12:wiki_cn_cased"
# The files that Google converted first have TensorFlow's names; the others PyTorch's.
GAMMA = [label for label, entry in ENTRIES.items() if entry.repository.startswith("google")]
NO_PREFIX = ["bert_12_768_12:biobert_v1.1_pubmed_cased", "ernie_12_768_12:baidu_ernie_uncased"]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub on this machine, an empty cache, and the table with small networks."""
    with small_zoo(monkeypatch, tmp_path / "cache", ENTRIES.values()) as server:
        yield server


def quietly(label: str, **options: object) -> tuple:
    """Load a model without the warnings that its digests were not known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_model(label, **options)


def batch_of(entry: ModelEntry) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two rows of random ids, the last piece of the vocabulary among them, one of them padded."""
    ids = torch.randint(5, entry.config.vocab_size, (2, 9), generator=torch.Generator().manual_seed(1))
    ids[0, 3] = entry.config.vocab_size - 1
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return ids, torch.tensor([[0] * 5 + [1] * 4] * 2), mask


@pytest.mark.parametrize("label", list(ENTRIES))
def test_every_model_of_the_hub_equals_transformers(label: str, hub: Hub) -> None:
    entry = ENTRIES[label]
    reference = reference_model(entry)
    publish(hub, entry, state_of(reference, gamma=label in GAMMA, prefix=label not in NO_PREFIX))
    with pytest.warns(UserWarning, match=f"no checksum of vocab.txt and {entry.weights} was known beforehand"):
        model, tokenizer = get_model(entry.name, entry.dataset)
    assert hub.downloaded == ["vocab.txt", entry.weights]
    ids, segments, mask = batch_of(entry)
    expected = reference.base_model(
        input_ids=ids, token_type_ids=segments, attention_mask=mask, output_hidden_states=True
    )
    output = model(ids, segments, mask, output_hidden_states=True)
    for expected_states, states in zip(expected.hidden_states, output.hidden_states, strict=True):
        assert (expected_states - states)[mask.bool()].abs().max() < 1e-5
    assert (expected.pooler_output - output.pooled).abs().max() < 1e-5
    assert tokenizer.lowercase == entry.lowercase
    assert tokenizer.tokenize("word WORD") == (["word", "word"] if entry.lowercase else ["word", "[UNK]"])
    # The folder is one of Hugging Face's: transformers loads it, and the longest input fits.
    assert sorted(path.name for path in hub_folder(entry).iterdir()) == [
        "config.json", "model.safetensors", "origin.json", "tokenizer_config.json", "vocab.txt",
    ]  # fmt: skip
    whole = torch.full((1, entry.config.max_position_embeddings), 5)
    assert model(whole).sequence.shape == (1, entry.config.max_position_embeddings, 12)


@pytest.mark.parametrize("name", ["bert-base-uncased", "bert_12_768_12:book_corpus_wiki_en_uncased"])
def test_gaps_are_filled_by_the_head_of_the_published_file(name: str, hub: Hub) -> None:
    """What ``d2lbert predict fill_mask`` asks, with the probabilities of ``transformers``."""
    entry = ENTRIES["bert_12_768_12:book_corpus_wiki_en_uncased"]
    reference = reference_model(entry)
    publish(hub, entry, state_of(reference, gamma=True, prefix=True))
    with pytest.warns(UserWarning, match="no checksum of vocab"):
        (row,) = fill_mask(name, ["word [MASK] words"])
    (gap,) = row["masks"]
    ids = torch.tensor([[2, 6, 4, 6, 5, 3]])  # [CLS] word [MASK] word ##s [SEP]
    expected = reference(ids).prediction_logits[0, 2].softmax(-1).topk(5).values.tolist()
    assert [guess["probability"] for guess in gap] == pytest.approx(expected, rel=1e-4)


def test_the_folder_is_one_of_hugging_face(hub: Hub) -> None:
    import transformers

    entry = ENTRIES[CHINESE]
    publish(hub, entry, state_of(reference_model(entry), gamma=True, prefix=True))
    model, tokenizer = quietly(CHINESE)
    reference = transformers.BertModel.from_pretrained(hub_folder(entry)).eval()
    ids, segments, mask = batch_of(entry)
    expected = reference(input_ids=ids, token_type_ids=segments, attention_mask=mask)
    assert (expected.last_hidden_state - model(ids, segments, mask).sequence)[mask.bool()].abs().max() < 1e-5
    fast = transformers.BertTokenizerFast.from_pretrained(hub_folder(entry))
    assert fast("word Words w7")["input_ids"] == tokenizer.encode("word Words w7").ids


def test_the_real_sizes_of_the_smallest(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    (entry,) = (entry for entry in zoo_table._read(zoo_table.home() / "zoo.toml") if entry.label == TINY)
    entry = dataclasses.replace(entry, sha256={})  # the files of this hub are not the published ones
    monkeypatch.setattr(zoo_table, "entries", lambda: (entry,))
    reference = reference_model(entry)
    publish(hub, entry, state_of(reference, gamma=True, prefix=True))
    model, _ = quietly(TINY)
    ids, segments, mask = batch_of(entry)
    expected = reference.base_model(input_ids=ids, token_type_ids=segments, attention_mask=mask)
    assert (expected.last_hidden_state - model(ids, segments, mask).sequence)[mask.bool()].abs().max() < 1e-5


def test_mxnet_reads_the_same_folder(hub: Hub) -> None:
    pytest.importorskip("d2lbert.mxnet", exc_type=ImportError)
    from mxnet import nd

    entry = ENTRIES["ernie_12_768_12:baidu_ernie_uncased"]
    publish(hub, entry, state_of(reference_model(entry), gamma=False, prefix=True))
    torch_model, _ = quietly(entry.label)
    mxnet_model, _ = quietly(entry.label, edition="mxnet")
    ids, segments, mask = batch_of(entry)
    output = mxnet_model(nd.array(ids.numpy()), nd.array(segments.numpy()), nd.array(mask.numpy()))
    assert np.abs(output.pooled.asnumpy() - torch_model(ids, segments, mask).pooled.detach().numpy()).max() < 1e-5


def test_heads_of_pretraining_come_along(hub: Hub) -> None:
    """The decoder's weights are the word embeddings; files hold them once, twice, or not at all."""
    entry = ENTRIES[TINY]
    reference = reference_model(entry)
    publish(hub, entry, state_of(reference, gamma=True, prefix=True))
    quietly(TINY)
    assert "cls.predictions.decoder.weight" not in load_file(hub_folder(entry) / "model.safetensors")
    ids, segments, mask = batch_of(entry)
    expected = reference(input_ids=ids, token_type_ids=segments, attention_mask=mask)
    output = BertForPretraining.from_pretrained(TINY)(ids, segments, mask)
    assert (expected.prediction_logits - output.token_logits)[mask.bool()].abs().max() < 1e-5
    assert (expected.seq_relationship_logits - output.next_logits).abs().max() < 1e-5


def test_a_missing_pooler_is_new_and_said(hub: Hub) -> None:
    entry = ENTRIES[TINY]
    reference = reference_model(entry)
    publish(hub, entry, state_of(reference, gamma=False, prefix=False, pooler=False))
    quietly(TINY)  # the first time also tells that no checksum was known
    with pytest.warns(UserWarning, match=r"has no pooler: \.pooled starts from random weights"):
        model, _ = get_model(TINY)
    ids, segments, mask = batch_of(entry)
    expected = reference.base_model(input_ids=ids, token_type_ids=segments, attention_mask=mask).last_hidden_state
    assert (expected - model(ids, segments, mask).sequence)[mask.bool()].abs().max() < 1e-5
    # Heads are never made up.
    with pytest.raises(UserError, match="lacks"):
        BertForPretraining.from_pretrained(TINY)


def test_a_corrected_table_corrects_the_cache(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ENTRIES[TINY]
    publish(hub, entry, state_of(reference_model(entry), gamma=True, prefix=True))
    quietly(TINY)
    corrected = dataclasses.replace(entry, config=entry.config.replace(hidden_act="relu"))
    monkeypatch.setattr(zoo_table, "entries", lambda: (corrected,))
    model, _ = get_model(TINY)
    assert model.config.hidden_act == "relu"
    assert len(hub.downloaded) == 2
    newer = dataclasses.replace(entry, revision="0" * 40)
    monkeypatch.setattr(zoo_table, "entries", lambda: (newer,))
    publish(hub, newer, state_of(reference_model(entry), gamma=True, prefix=True))
    quietly(TINY)
    assert len(hub.downloaded) == 4


def test_without_weights_only_the_vocabulary_is_fetched(hub: Hub) -> None:
    entry = ENTRIES[CHINESE]
    publish(hub, entry, {})
    model, _ = quietly(CHINESE, pretrained=False)
    assert hub.downloaded == ["vocab.txt"]
    assert model.config == entry.config


@pytest.mark.parametrize("label", [TINY, CHINESE])
def test_the_first_download_is_pinned(label: str, hub: Hub) -> None:
    """The first is believed; then the cache is read, a damaged file is fetched again, and another file is refused."""
    entry = ENTRIES[label]
    publish(hub, entry, state_of(reference_model(entry), gamma=True, prefix=True))
    first, _ = quietly(label)
    folder, content = hub_folder(entry), hub.files[f"/{entry.repository}/resolve/{entry.revision}/{entry.weights}"]
    origin = json.loads((folder / "origin.json").read_text())
    assert origin["sha256"][entry.weights] == hashlib.sha256(content).hexdigest()
    assert (origin["repository"], origin["revision"]) == (entry.repository, entry.revision)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_model(label)
    assert len(hub.downloaded) == 2
    damaged = bytearray((folder / "model.safetensors").read_bytes())
    damaged[-1] ^= 1
    (folder / "model.safetensors").write_bytes(damaged)
    again, _ = get_model(label)
    assert hub.downloaded[2:] == [entry.weights]
    assert torch.equal(first.pooler.weight, again.pooler.weight)
    (folder / "model.safetensors").unlink()
    hub.put(entry, entry.weights, content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(UserError, match=r"sent a file whose sha256 is not the known one; get .* and put them into"):
        get_model(label)
    assert not list(folder.glob("*.bin")) + list(folder.glob("model.safetensors"))


def test_a_cache_as_it_always_was_is_read_and_leftovers_do_no_harm(hub: Hub) -> None:
    import transformers

    entry = ENTRIES[CHINESE]
    folder = hub_folder(entry)
    folder.mkdir(parents=True)
    reference = reference_model(entry).base_model
    reference.save_pretrained(folder)
    pieces = [*SPECIAL_TOKENS, *(f"w{number}" for number in range(entry.config.vocab_size - 5))]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    contents = {name: (folder / name).read_bytes() for name in ("vocab.txt", "model.safetensors")}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    origin = {"repository": entry.repository, "revision": entry.revision, "sha256": digests}
    (folder / "origin.json").write_text(json.dumps(origin))
    (folder / ".download-killed").mkdir()
    (folder / ".download-killed" / "model.safetensors").write_bytes(b"half")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, _ = get_model(CHINESE)
    assert not hub.requests
    weights = transformers.BertModel.from_pretrained(folder).pooler.dense.weight
    assert torch.equal(weights, reference.pooler.dense.weight)
    assert torch.equal(weights, model.pooler.weight)


def test_a_known_digest_is_held_to(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = dataclasses.replace(ENTRIES[CHINESE], sha256={"vocab.txt": "0" * 64})
    monkeypatch.setattr(zoo_table, "entries", lambda: (entry,))
    publish(hub, entry, {})
    with pytest.raises(UserError, match=r"vocab.txt of bert_12_768_12:wiki_cn_cased .* not the known one"):
        get_model(CHINESE)
    assert not list(hub_folder(entry).iterdir())


def test_no_network_says_what_to_do_by_hand(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = ENTRIES[TINY]
    publish(hub, entry, state_of(reference_model(entry), gamma=True, prefix=True))
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    with pytest.raises(UserError) as caught:
        get_model(TINY)
    message = str(caught.value)
    address = f"{hub.url}/google/bert_uncased_L-2_H-128_A-2/tree/{entry.revision}"
    for part in ("OFFLINE=1 forbids", "pytorch_model.bin (18 MB) and vocab.txt", address, str(hub_folder(entry))):
        assert part in message
    assert "\n" not in message
    # What the message asks for, done by hand.
    hub_folder(entry).mkdir(parents=True)
    for name in ("vocab.txt", entry.weights):
        (hub_folder(entry) / name).write_bytes(hub.files[f"/{entry.repository}/resolve/{entry.revision}/{name}"])
    model, _ = quietly(TINY)
    assert model.config == entry.config
    assert not hub.requests


def test_a_download_that_breaks_off_is_not_pinned(hub: Hub) -> None:
    entry = ENTRIES[CHINESE]
    publish(hub, entry, state_of(reference_model(entry), gamma=True, prefix=True))
    hub.missing = 10
    with pytest.raises(UserError, match=r"the connection to .* failed"):
        get_model(CHINESE)
    assert not list(hub_folder(entry).iterdir())


def test_a_hub_that_lacks_the_file_or_is_not_there(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="answered 404 for"):
        get_model(TINY)
    monkeypatch.setenv("D2LBERT_HUB", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"cannot be downloaded: no network \(cannot reach 127.0.0.1:9\)"):
        get_model(TINY)


class Trap:
    """Would make a folder, were it unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def test_nothing_in_a_bin_can_run(tmp_path: Path) -> None:
    source = tmp_path / "pytorch_model.bin"
    for content in (
        pickle.dumps({"a": Trap(tmp_path / "caught")}, protocol=2),
        saved({"a": Trap(tmp_path / "caught")}),
        b"PK\x03",
    ):
        source.write_bytes(content)
        with pytest.raises(UserError, match="is damaged or holds more than tensors") as error:
            convert_bin(source, tmp_path / "model.safetensors")
        assert "\n" not in str(error.value)
    source.write_bytes(saved([torch.ones(2)]))
    with pytest.raises(UserError, match="is no table of tensors"):
        convert_bin(source, tmp_path / "model.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_model.bin"]


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def test_a_users_folder_with_a_bin(hub: Hub, tmp_path: Path) -> None:
    entry = ENTRIES[TINY]
    publish(hub, entry, state_of(reference_model(entry), gamma=True, prefix=True))
    model, _ = quietly(TINY)
    folder = tmp_path / "mine"
    model.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    half = {name: torch.from_numpy(array).half() for name, array in model.tensors().items()}
    (folder / "pytorch_model.bin").write_bytes(saved(half))
    with pytest.warns(UserWarning, match="wrote model.safetensors, the tensors of pytorch_model.bin"):
        again = BertModel.from_pretrained(folder)
    assert (again.pooler.weight - model.pooler.weight).abs().max() < 1e-3  # halves have 11 bits
    assert locate(folder) == folder
