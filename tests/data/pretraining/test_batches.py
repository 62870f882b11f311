"""Batches for pretraining: laid out right, repeatable, to be taken up at any place."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data.pretraining.batches import Position, PretrainingBatch, PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.corpus import learn_vocabulary
from d2lbert.data.pretraining.masking import MaskingRates
from d2lbert.data.pretraining.next_sentence import NO_LABEL
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.text import WordPiece

SETTINGS = PretrainingSettings(max_length=48, batch_size=7, seed=3, window=2)


@pytest.fixture(scope="module")
def shards(root: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    files = sorted((root / "data" / "samples" / "wikipedia_en").glob("*.txt"))
    settings = Preparation(dev_share=0.2, shard_characters=12_000)
    return prepare(files, tmp_path_factory.mktemp("corpus"), learn_vocabulary(files, 1200), settings)


def _bytes(batch: PretrainingBatch) -> bytes:
    arrays = [batch.rows.token_ids, batch.rows.segment_ids, batch.rows.starts]
    arrays += [batch.masked_positions, batch.masked_ids, batch.next_labels]
    return b"".join(array.tobytes() for array in arrays)


def _texts(batch: PretrainingBatch) -> list[tuple[list[int], list[int], list[int]]]:
    """The true ids, the segments and the positions of each text of a batch."""
    ids = batch.rows.token_ids.copy().reshape(-1)
    ids[batch.masked_positions] = batch.masked_ids
    ids = ids.reshape(batch.rows.token_ids.shape)
    texts = []
    for row, column in batch.rows.starts:
        here = batch.rows.sequence_ids[row] == batch.rows.sequence_ids[row, column]
        texts.append(tuple(grid[row, here].tolist() for grid in (ids, batch.rows.segment_ids, batch.rows.position_ids)))
    return texts


@pytest.mark.parametrize("packed", [False, True])
def test_a_text_is_cls_a_sep_b_sep(shards: TokenShards, packed: bool) -> None:
    data = PretrainingData(shards, dataclasses.replace(SETTINGS, packed=packed))
    vocab = shards.tokenizer().token_to_id
    corpus = b"".join(shards.load(name).tokens.tobytes() for name in shards.names("train"))
    for batch, _ in data.epoch(0):
        rows = batch.rows
        assert rows.packed is packed
        assert (rows.mask == (rows.sequence_ids > 0)).all()
        assert (rows.token_ids[rows.mask == 0] == vocab["[PAD]"]).all()
        assert len(batch.next_labels) == len(rows.starts)
        if not packed:
            assert rows.token_ids.shape[0] == len(rows.starts)
        for ids, segments, positions in _texts(batch):
            assert len(ids) <= 48
            assert positions == list(range(len(ids)))
            middle = ids.index(vocab["[SEP]"])
            assert (ids[0], ids[-1]) == (vocab["[CLS]"], vocab["[SEP]"])
            assert ids.count(vocab["[SEP]"]) == 2
            assert segments == [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
            for text in (ids[1:middle], ids[middle + 1 : -1]):
                assert text
                assert np.array(text, dtype=np.uint16).tobytes() in corpus


def test_a_next_text_follows_and_another_does_not(shards: TokenShards) -> None:
    vocab = shards.tokenizer().token_to_id
    corpus = b"".join(shards.load(name).tokens.tobytes() for name in shards.names("train"))
    labels = []
    for batch, _ in PretrainingData(shards, SETTINGS).epoch(1):
        for (ids, _, _), label in zip(_texts(batch), batch.next_labels.tolist(), strict=True):
            middle = ids.index(vocab["[SEP]"])
            joined = np.array(ids[1:middle] + ids[middle + 1 : -1], dtype=np.uint16).tobytes()
            assert (joined in corpus) is (label == 0)
            labels.append(label)
    assert 0.3 < np.mean(labels) < 0.7


def test_single_texts(shards: TokenShards) -> None:
    data = PretrainingData(shards, dataclasses.replace(SETTINGS, next_sentence=False))
    vocab, tokens = shards.tokenizer().token_to_id, 0
    for batch, _ in data.epoch(0):
        assert (batch.next_labels == NO_LABEL).all()
        for ids, segments, _ in _texts(batch):
            assert (ids[0], ids[-1], ids.count(vocab["[SEP]"])) == (vocab["[CLS]"], vocab["[SEP]"], 1)
            assert not any(segments)
            tokens += len(ids) - 2
    assert tokens > 0.95 * shards.count("train", "tokens")


def test_a_seed_gives_the_same_batches_and_each_epoch_others(shards: TokenShards) -> None:
    first, second = ([_bytes(batch) for batch, _ in PretrainingData(shards, SETTINGS).epoch(0)] for _ in range(2))
    assert first == second
    other = PretrainingData(shards, dataclasses.replace(SETTINGS, seed=4))
    assert not set(first) & {_bytes(batch) for batch, _ in other.epoch(0)}
    assert not set(first) & {_bytes(batch) for batch, _ in PretrainingData(shards, SETTINGS).epoch(1)}


def test_every_batch_draws_for_itself(shards: TokenShards) -> None:
    data = PretrainingData(shards, SETTINGS)
    drawn: list[float] = []
    data._make_batch = lambda texts, random: drawn.append(random.random())  # type: ignore[method-assign, assignment]
    count = len([*data.epoch(0), *data.epoch(1)])
    assert count == len(drawn) == len(set(drawn)) > 10


def test_every_epoch_has_an_order_of_shards_of_its_own(shards: TokenShards, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    load = TokenShards.load
    monkeypatch.setattr(TokenShards, "load", lambda self, name: loaded.append(name) or load(self, name))
    data = PretrainingData(shards, dataclasses.replace(SETTINGS, window=1))
    count = len(data.names)
    loaded.clear()
    for epoch in range(4):
        list(data.epoch(epoch))
    orders = [tuple(loaded[start : start + count]) for start in range(0, len(loaded), count)]
    assert [sorted(order) for order in orders] == [sorted(data.names)] * 4
    assert len(set(orders)) > 1


def test_static_masks_come_back(shards: TokenShards) -> None:
    data = PretrainingData(shards, dataclasses.replace(SETTINGS, static_copies=2))
    epochs = [[_bytes(batch) for batch, _ in data.epoch(number)] for number in range(4)]
    assert epochs[0] == epochs[2]
    assert epochs[1] == epochs[3]
    assert not set(epochs[0]) & set(epochs[1])


def test_a_run_can_resume_at_any_batch(shards: TokenShards) -> None:
    """Across the ends of windows and epochs, too."""
    data = PretrainingData(shards, SETTINGS)
    count = sum(1 for _ in data.epoch(0)) + 8
    whole = list(itertools.islice(data.batches(), count))
    positions = [Position(), *(position for _, position in whole[:-1])]
    assert len({position.window for position in positions}) > 1
    assert positions[-1].epoch == 1
    for number, position in enumerate(positions[:-3]):
        for (batch, after), expected in zip(data.batches(position), whole[number : number + 3], strict=False):
            assert _bytes(batch) == _bytes(expected[0])
            assert after == expected[1]


def test_no_two_random_choices_share_a_key(shards: TokenShards) -> None:
    data = PretrainingData(shards, SETTINGS)
    keys = [(epoch, window, batch) for epoch in range(4) for window in range(4) for batch in range(4)]
    assert len({data._random(*key).random() for key in keys}) == len(keys)


def test_an_epoch_uses_every_shard(shards: TokenShards) -> None:
    data = PretrainingData(shards, dataclasses.replace(SETTINGS, window=1))
    windows = {position.window for _, position in data.epoch(0)}
    assert len(windows) == len(shards.names("train")) + 1  # and the end of the last


def test_dev_documents_are_not_trained_on(shards: TokenShards) -> None:
    def sentences(split: str) -> set[bytes]:
        result = set()
        for batch, _ in PretrainingData(shards, SETTINGS, split).epoch(0):
            for ids, segments, _ in _texts(batch):
                result.add(np.array(ids[1 : segments.index(1) - 1]).tobytes())
        return result

    assert sentences("dev")
    assert not sentences("train") & sentences("dev")


def test_a_corpus_without_dev_documents(shards: TokenShards, root: Path, tmp_path: Path) -> None:
    files = [root / "data" / "samples" / "wikipedia_en" / "dev.txt"]
    alone = prepare(files, tmp_path, shards.tokenizer(), Preparation(dev_share=0.0))
    with pytest.raises(UserError, match="the corpus has no dev documents"):
        PretrainingData(alone, SETTINGS, "dev")


def _prepared(documents: list[list[str]], folder: Path, tokenizer: WordPiece) -> TokenShards:
    """Shards of one document each, from a list of sentences for each document."""
    folder.mkdir()
    (folder / "text").write_text("\n\n".join(" ".join(sentences) for sentences in documents))
    settings = Preparation(dev_share=0.0, shard_characters=1)
    return prepare([folder / "text"], folder / "shards", tokenizer, settings)


def test_a_window_without_pairs_is_passed_over(shards: TokenShards, tmp_path: Path) -> None:
    """Two windows of two documents, of which three can give pairs; a run goes on at any batch all the same."""
    sentences = [f"The cat sat on mat {100 + number}." for number in range(30)]
    alone = _prepared([sentences, sentences, sentences, sentences[:1]], tmp_path / "four", shards.tokenizer())
    assert len(alone.names("train")) == 4
    data = PretrainingData(alone, dataclasses.replace(SETTINGS, batch_size=2))
    data.check()
    epochs = [[position.window for _, position in data.epoch(number)] for number in range(8)]
    assert all(epochs)
    assert {0 in windows for windows in epochs} == {True, False}  # the first window has the short one, or the second
    whole = list(itertools.islice(data.batches(), 60))
    for number, (_, position) in enumerate(whole[:-3]):
        (batch, after), *_ = itertools.islice(data.batches(position), 1)
        assert (_bytes(batch), after) == (_bytes(whole[number + 1][0]), whole[number + 1][1])


@pytest.mark.parametrize(
    ("documents", "window", "message"),
    [
        ([5, 1, 1], 8, "prediction needs 2 train documents of two sentences or more, and .* has 1: give more text"),
        ([5, 5, 5], 1, r"needs 4 train documents .* has 3 in 3 windows \(a larger --window makes fewer\): give more"),
    ],
)
def test_too_few_documents_are_refused_beforehand(
    shards: TokenShards, tmp_path: Path, documents: list[int], window: int, message: str
) -> None:
    texts = [[f"The cat sat on mat {100 + number}." for number in range(count)] for count in documents]
    alone = _prepared(texts, tmp_path / "few", shards.tokenizer())
    settings = dataclasses.replace(SETTINGS, window=window)
    for refused in (PretrainingData(alone, settings).check, PretrainingData(alone, settings).batches().__next__):
        with pytest.raises(UserError, match=message):
            refused()
    PretrainingData(alone, dataclasses.replace(settings, next_sentence=False)).check()


@pytest.mark.parametrize(
    "change", [{"max_length": 4}, {"batch_size": 0}, {"seed": -1}, {"window": 0}, {"static_copies": -1}]
)
def test_settings_that_cannot_be(change: dict[str, int]) -> None:
    with pytest.raises(UserError, match=f"pretraining: .*{next(iter(change))} is"):
        PretrainingSettings(**change)


def test_held_out_batches_ask_at_mask_alone(shards: TokenShards) -> None:
    mask = shards.tokenizer().token_to_id["[MASK]"]
    kept = 0
    for batch, _ in PretrainingData(shards, SETTINGS, "dev").epoch(0):
        shown = batch.rows.token_ids.reshape(-1)[batch.masked_positions]
        assert ((batch.masked_ids != NO_LABEL) == (shown == mask)).all()
        kept += int((shown != mask).sum())
    assert kept > 0, "some chosen tokens are not hidden"
    for data in (PretrainingData(shards, SETTINGS), PretrainingData(shards, SETTINGS, "dev", ask_everywhere=True)):
        for batch, _ in data.epoch(0):
            assert (batch.masked_ids != NO_LABEL).all()


def test_held_out_batches_without_mask_ask_everywhere(shards: TokenShards) -> None:
    settings = dataclasses.replace(SETTINGS, rates=MaskingRates(masked=0.0, replaced=0.5))
    for batch, _ in PretrainingData(shards, settings, "dev").epoch(0):
        assert (batch.masked_ids != NO_LABEL).all()
