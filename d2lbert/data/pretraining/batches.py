"""From shards of tokens to batches for pretraining: texts in packed rows, and the targets of each objective.

:class:`TextData` lays out the texts; its subclasses add the objectives. :class:`PretrainingData` hides tokens for BERT
to predict; in :class:`d2lbert.data.pretraining.causal.CausalData` every token predicts the next.

Everything random is a function of the seed, the epoch and the index of the batch. So a run can be repeated, resumed at
any batch, and divided among any number of machines, without saving the state of a generator.

Shape legend: N texts (pairs), T tokens of all of them, R rows, L length of a row, P masked tokens.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from d2lbert.config.settings import Settings, setting
from d2lbert.data.batching import Batch, choose_rows
from d2lbert.data.pretraining.masking import Masking, MaskingRates
from d2lbert.data.pretraining.next_sentence import NO_LABEL, Pairs, plan_pairs, plan_texts
from d2lbert.data.pretraining.shards import TokenShards
from d2lbert.errors import UserError
from d2lbert.text import CLS, PAD, SEP


@dataclass(frozen=True)
class PretrainingSettings(Settings):
    """How examples are made."""

    kind: ClassVar[str] = "pretraining"

    max_length: int = setting(128, "longest pair in tokens, [CLS] and two [SEP] included", at_least=5)
    batch_size: int = setting(32, "texts, or pairs of them, in a batch", at_least=1)
    seed: int = setting(0, "of the choice of examples and of masks", at_least=0, below=2**32)
    rates: MaskingRates = setting(MaskingRates(), "how tokens are masked")
    next_sentence: bool = setting(True, "pairs of texts, or single texts")
    short_share: float = setting(0.1, "share of pairs of a random smaller size", at_least=0, at_most=1)
    # The paper's data were written once, in 10 copies with different masks: as with 10 here.
    static_copies: int = setting(
        0, "epochs after which the same pairs and masks come back; 0: new ones in every epoch", at_least=0
    )
    window: int = setting(8, "shards that are shuffled together, and held in memory: 8 take some 60 MB", at_least=1)
    packed: bool = setting(True, "several texts in a row instead of padding")


@dataclass(frozen=True)
class PretrainingBatch:
    """Input and targets of one step.

    Fields:
        rows: the texts with their masks, in R rows.
        masked_positions: (P,) the positions of the chosen tokens: row times L plus column.
        masked_ids: (P,) the original tokens at these positions; in held-out batches -100 where none is hidden.
        next_labels: (N,) 0 where the second text follows the first, 1 where it does not, -100 where there is none.
    """

    rows: Batch
    masked_positions: np.ndarray
    masked_ids: np.ndarray
    next_labels: np.ndarray

    @property
    def positions(self) -> np.ndarray:
        """Where tokens are predicted, (P,): row times L plus column."""
        return self.masked_positions

    @property
    def targets(self) -> dict[str, np.ndarray]:
        """The targets of each objective, by its name; -100 where there is none."""
        return {"masked": self.masked_ids, "next_sentence": self.next_labels}


class TrainingBatch(Protocol):
    """A batch that a model can be pretrained on."""

    @property
    def rows(self) -> Batch:
        """The texts, in R rows."""

    @property
    def positions(self) -> np.ndarray:
        """Where tokens are predicted, (P,): row times L plus column."""

    @property
    def targets(self) -> dict[str, np.ndarray]:
        """The targets of each objective, by its name; -100 where there is none."""


AnyBatch = TypeVar("AnyBatch", bound=TrainingBatch)


class Texts(NamedTuple):
    """The texts of a batch, one after the other.

    Fields:
        ids, segments: (T,).
        lengths: (N,).
        labels: (N,), of the pairs, -100 for a single text.
    """

    ids: np.ndarray
    segments: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray


class Position(NamedTuple):
    """The position of a batch in a run; all fields are counted from 0."""

    epoch: int = 0
    window: int = 0
    batch: int = 0


BEGINNING = Position()


class TextData(ABC, Generic[AnyBatch]):
    """The batches of a corpus, epoch after epoch.

    Args:
        shards: the tokenised corpus.
        settings: how examples are made.
        split: ``"train"`` or ``"dev"``.

    Raises:
        UserError: the split is empty.
    """

    objectives: ClassVar[tuple[str, ...]]  # their names, as in the targets of every batch

    def __init__(self, shards: TokenShards, settings: PretrainingSettings, split: str = "train") -> None:
        self.shards = shards
        self.settings = settings
        self.split = split
        self.names = shards.names(split)
        if not self.names:
            raise UserError(f"the corpus has no {split} documents: give more text, or another share of dev documents")
        tokenizer = shards.tokenizer()
        self._cls, self._sep, self._pad = (tokenizer.token_to_id[token] for token in (CLS, SEP, PAD))

    def check(self) -> None:
        """Find out now, not after hours of training, whether there is a batch in every epoch.

        Raises:
            UserError: pairs are asked for, and there are too few documents that can give one.
        """
        if not self.settings.next_sentence:
            return
        usable = sum(_usable_documents(self.shards.load(name).documents) for name in self.names)
        # With more documents than windows, one window has two, however the shards are shuffled.
        needed = max(2, self._window_count + 1)
        if usable >= needed:
            return
        few = (
            f"next sentence prediction needs {needed} {self.split} documents of two sentences or more, and "
            f"{self.shards.folder} has {usable}"
        )
        if needed > 2:
            few += f" in {self._window_count} windows (a larger --window makes fewer)"
        remedy = "give more text, with a blank line between documents"
        if self.split == "dev":
            remedy = (
                "prepare the corpus anew, elsewhere or after removing this folder, with a larger --dev-share, or with "
                "0 for no validation"
            )
        raise UserError(f"{few}: {remedy}; or give --no-next-sentence")

    @property
    def _window_count(self) -> int:
        return -(-len(self.names) // self.settings.window)

    def batches(self, start: Position = BEGINNING) -> Iterator[tuple[AnyBatch, Position]]:
        """Yield batches without end, each with the position from which the next batch starts.

        Args:
            start: the position of the first batch.

        Raises:
            UserError: as in :meth:`check`.
        """
        self.check()
        epoch, first_window, first_batch = start
        while True:
            yield from self.epoch(epoch, first_window, first_batch)
            epoch, first_window, first_batch = epoch + 1, 0, 0

    def epoch(self, epoch: int, first_window: int = 0, first_batch: int = 0) -> Iterator[tuple[AnyBatch, Position]]:
        """Yield the batches of one epoch, each with the position from which the next batch starts.

        The last batch of a window may be smaller. A window with a single document that could give pairs gives none:
        there is nothing for it to be paired with. In another epoch it is with others.

        Args:
            epoch, first_window, first_batch: the fields of the first batch's :class:`Position`.
        """
        names = self.names
        order = self._random(epoch).permutation(len(names))
        # Windows of about equal size: a last window of one small shard might hold a single document.
        windows = np.array_split(order, self._window_count)
        for window in range(first_window, len(windows)):
            window_shards = _Window(self.shards, [names[index] for index in windows[window]])
            if self.settings.next_sentence and _usable_documents(window_shards.documents) < 2:
                continue
            pairs = self._plan(window_shards, self._random(epoch, window + 1))
            count = -(-len(pairs.labels) // self.settings.batch_size)
            for batch in range(first_batch, count):
                part = slice(batch * self.settings.batch_size, (batch + 1) * self.settings.batch_size)
                random = self._random(epoch, window + 1, batch + 1)
                after = Position(epoch, window, batch + 1) if batch + 1 < count else Position(epoch, window + 1, 0)
                texts = self._texts(window_shards, Pairs(*(array[part] for array in pairs)))
                yield self._make_batch(texts, random), after
            first_batch = 0

    def _random(self, epoch: int, window: int = 0, batch: int = 0) -> np.random.Generator:
        """Return the generator of an epoch (its order of shards), of a window (its pairs) or of a batch (its masks)."""
        copies = self.settings.static_copies
        # Always four numbers: NumPy pads a shorter key with zeros, so that it would equal another key.
        return np.random.default_rng([self.settings.seed, epoch % copies if copies else epoch, window, batch])

    def _plan(self, window: _Window, random: np.random.Generator) -> Pairs:
        settings = self.settings
        if settings.next_sentence:
            room = settings.max_length - 3
            pairs = plan_pairs(window.sentences, window.documents, room, random, settings.short_share)
        else:
            pairs = plan_texts(window.sentences, window.documents, settings.max_length - 2)
        return pairs.take(random.permutation(len(pairs.labels)))

    def _texts(self, window: _Window, pairs: Pairs) -> Texts:
        """Put the texts of a batch together: ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``."""
        second = pairs.labels >= 0  # (N,) whether there is a second text
        a, b = pairs.a_end - pairs.a_start, pairs.b_end - pairs.b_start
        lengths = a + b + 2 + second  # (N,)
        starts = np.cumsum(lengths) - lengths
        # A text is two spans of the corpus, each followed by a special token, the first also preceded by one. For each
        # span: its length with these tokens, its segment, and how far it is shifted.
        span_lengths = np.stack([a + 2, b + second], axis=1).ravel()  # (2 N,)
        shifts = np.stack([pairs.a_start - 1 - starts, pairs.b_start - (starts + a + 2)], axis=1).ravel()
        segments = np.repeat(np.tile([0, 1], len(lengths)), span_lengths)  # (T,)
        # The positions of special tokens first get the corpus tokens beside the span; the corpus may end there.
        ids = window.tokens.take(np.arange(len(segments)) + np.repeat(shifts, span_lengths), mode="clip").astype(
            np.int64
        )
        ids[starts] = self._cls
        ids[starts + a + 1] = self._sep
        ids[starts + lengths - 1] = self._sep
        return Texts(ids, segments, lengths, pairs.labels)

    def _rows(self, texts: Texts) -> tuple[Batch, np.ndarray]:
        """Lay out texts in rows; also return the position of each token, row times L plus column, (T,)."""
        packed, lengths = self.settings.packed, texts.lengths
        rows = choose_rows(lengths.tolist()) if packed else [[index] for index in range(len(lengths))]
        return _lay_out(rows, lengths, texts.ids, texts.segments, self._pad, packed)

    @abstractmethod
    def _make_batch(self, texts: Texts, random: np.random.Generator) -> AnyBatch:
        """Return the batch of some texts: the model's input and the targets."""


class PretrainingData(TextData[PretrainingBatch]):
    """The batches from which BERT learns: some tokens are hidden, and labels tell whether one text follows the other.

    The split ``"dev"`` asks at ``[MASK]`` alone: a tenth of the chosen tokens stand in the input as they are, and a
    model that copies them would look as if it had guessed.

    Args:
        shards, settings, split: as for :class:`TextData`.
        ask_everywhere: ask held-out documents at all chosen tokens, as in training.
    """

    objectives = ("masked", "next_sentence")

    def __init__(
        self, shards: TokenShards, settings: PretrainingSettings, split: str = "train", ask_everywhere: bool = False
    ) -> None:
        super().__init__(shards, settings, split)
        self._masking = Masking(shards.tokenizer(), settings.rates)
        # Rates without [MASK] leave nothing else to ask.
        self._asks_at_mask_alone = split == "dev" and settings.rates.masked > 0 and not ask_everywhere

    def _make_batch(self, texts: Texts, random: np.random.Generator) -> PretrainingBatch:
        masked = self._masking(texts.ids, random)
        rows, positions = self._rows(texts._replace(ids=masked.ids))
        targets = masked.targets
        if self._asks_at_mask_alone:
            targets = np.where(masked.ids[masked.positions] == self._masking.mask_id, targets, NO_LABEL)
        return PretrainingBatch(rows, positions[masked.positions], targets, texts.labels)


def _usable_documents(documents: np.ndarray) -> int:
    """Return how many documents have the two sentences that a pair needs; (N + 1,) the sentence each begins with."""
    return int(np.count_nonzero(np.diff(documents) >= 2))


class _Window:
    """Some shards as if they were one: tokens, sentences and documents are numbered consecutively."""

    def __init__(self, shards: TokenShards, names: list[str]) -> None:
        loaded = [shards.load(name) for name in names]
        self.tokens = np.concatenate([shard.tokens for shard in loaded])
        token_counts = np.cumsum([0, *(len(shard.tokens) for shard in loaded)])
        sentence_counts = np.cumsum([0, *(len(shard.sentences) - 1 for shard in loaded)])
        # The end of one shard is the beginning of the next, so each edge is kept once.
        self.sentences = np.concatenate(
            [[0], *(shard.sentences[1:] + first for shard, first in zip(loaded, token_counts, strict=False))]
        ).astype(np.int64)
        self.documents = np.concatenate(
            [[0], *(shard.documents[1:] + first for shard, first in zip(loaded, sentence_counts, strict=False))]
        ).astype(np.int64)


def _lay_out(
    rows: list[list[int]], lengths: np.ndarray, ids: np.ndarray, segments: np.ndarray, pad_id: int, packed: bool
) -> tuple[Batch, np.ndarray]:
    """Lay out texts in rows.

    Args:
        rows: the indices of the texts of each row, in order.
        lengths: (N,) of the texts.
        ids, segments: (T,) of all tokens, text after text.

    Returns:
        The batch, and the position of each token (T,): row times L plus column.
    """
    order = np.array(list(itertools.chain.from_iterable(rows)))  # (N,) the texts, row after row
    counts = np.array([len(row) for row in rows])  # (R,) texts of each row
    firsts = np.cumsum(counts) - counts  # which text of the order each row begins with
    ends = np.cumsum(lengths[order])
    begins = ends - lengths[order]
    row_of, column_of, number_of = (np.empty(len(lengths), dtype=np.int64) for _ in range(3))
    row_of[order] = np.repeat(np.arange(len(rows)), counts)
    column_of[order] = begins - np.repeat(begins[firsts], counts)
    number_of[order] = np.arange(1, len(order) + 1) - np.repeat(firsts, counts)
    width = int((ends[firsts + counts - 1] - begins[firsts]).max())
    starts = np.cumsum(lengths) - lengths
    tokens = np.arange(len(ids))
    positions = tokens + np.repeat(row_of * width + column_of - starts, lengths)  # row times L plus column
    position_in_text = tokens - np.repeat(starts, lengths)
    grids = []
    for values, filler in ((ids, pad_id), (segments, 0), (position_in_text, 0), (np.repeat(number_of, lengths), 0)):
        grid = np.full(len(rows) * width, filler, dtype=np.int64)
        grid[positions] = values
        grids.append(grid.reshape(len(rows), width))
    token_ids, segment_ids, position_ids, sequence_ids = grids
    mask = (sequence_ids > 0).astype(np.int64)
    row_starts = np.stack([row_of, column_of], axis=1)
    return Batch(token_ids, segment_ids, mask, position_ids, sequence_ids, row_starts, packed), positions
