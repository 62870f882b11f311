"""Speed of training: the Transformer, Seq2Seq with attention and ELMo's language model, each beside a plain reference.

The references are what one writes first: torch.nn modules of the same sizes, sentences in the order of the file, padded
to the longest of their batch, the full softmax. Both sides take steps in turn, in one process, on batches of about as
many real words. Figures are real target tokens a second (ELMo: words) of whole steps, data included.

    python -m benchmarks.translation.training_speed    # needs D2LBERT_DATA for the real sets; minutes
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.command_line import command_line
from benchmarks.elmo_small import CONFIG
from benchmarks.record import Record
from benchmarks.timing import compare, in_words, take_turns, timed
from d2lbert import data
from d2lbert.config import ElmoConfig, Seq2SeqConfig, transformer_preset
from d2lbert.data.elmo import SentenceBatches, read_sentences, word_vocabulary
from d2lbert.data.translation import EncodedPair, PairBatches, encode_pairs, learn_vocabulary, pad_ids
from d2lbert.torch.elmo import BidirectionalLanguageModel, CharacterCnn, Elmo
from d2lbert.torch.encoder import SinusoidalPositions
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer
from d2lbert.torch.translation import label_smoothing_loss

TOKENS = 2048
# A step of training on the next batch; returns how many real tokens it predicted.
Step = Callable[[], int]


def descend(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step of Adam."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


class PlainTransformer(nn.Module):
    """torch.nn.Transformer between an embedding and its transpose."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size = config.hidden_size
        self.embedding = nn.Embedding(config.target_vocab_size, size)
        self.positions = SinusoidalPositions(size, dropout=config.hidden_dropout_prob)
        self.transformer = nn.Transformer(
            size,
            config.num_attention_heads,
            config.num_encoder_layers,
            config.num_decoder_layers,
            config.intermediate_size,
            config.hidden_dropout_prob,
            batch_first=True,
            norm_first=config.norm_first,
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return scores (B, L, V)."""
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).isinf()
        embedded = [self.positions(self.embedding(ids)) for ids in (source, target)]
        padding = source == 0
        decoded = self.transformer(
            *embedded, tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding
        )
        return decoded @ self.embedding.weight.T


class PlainSeq2Seq(nn.Module):
    """A bidirectional GRU, and a GRU cell that looks at all of its states before each step."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        embedded, hidden, vocabulary = config.embedding_size, config.hidden_size, config.target_vocab_size
        self.source_embedding = nn.Embedding(vocabulary, embedded)
        self.target_embedding = nn.Embedding(vocabulary, embedded)
        self.encoder = nn.GRU(embedded, hidden // 2, batch_first=True, bidirectional=True)
        self.query, self.key = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.decoder = nn.GRUCell(embedded + hidden, hidden)
        self.readout, self.output = nn.Linear(2 * hidden, embedded), nn.Linear(embedded, vocabulary)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return scores (B, L, V)."""
        memory, last = self.encoder(self.dropout(self.source_embedding(source)))
        state, scores = torch.cat([last[0], last[1]], dim=-1), []
        for x in self.dropout(self.target_embedding(target)).unbind(1):
            energies = self.score(torch.tanh(self.query(state).unsqueeze(1) + self.key(memory))).squeeze(-1)
            weights = energies.masked_fill(source == 0, -1e9).softmax(-1)
            context = (weights.unsqueeze(1) @ memory).squeeze(1)
            state = self.decoder(torch.cat([x, context], dim=-1), state)
            joined = torch.tanh(self.readout(torch.cat([state, context], dim=-1)))
            scores.append(self.output(self.dropout(joined)))
        return torch.stack(scores, dim=1)


class PlainLanguageModel(nn.Module):
    """ELMo's character network under torch.nn's LSTM with projection, both directions, and a full softmax."""

    def __init__(self, config: ElmoConfig, vocabulary: int) -> None:
        super().__init__()
        self.words = CharacterCnn(config)
        sizes = (config.projection_size, config.hidden_size, config.num_layers)
        self.directions = nn.ModuleList(
            nn.LSTM(*sizes, batch_first=True, proj_size=config.projection_size) for _ in range(2)
        )
        self.output = nn.Linear(config.projection_size, vocabulary)

    def forward(self, characters: Tensor, mask: Tensor, words: Tensor) -> Tensor:
        """Return the loss of both directions; padding stands at the end of the forward direction's rows."""
        x = self.words(characters)
        ahead, back = self.directions[0](x)[0][:, :-1], self.directions[1](x.flip(1))[0].flip(1)[:, 1:]
        follows = mask[:, 1:]
        losses = [
            functional.cross_entropy(self.output(states[follows]), targets[follows])
            for states, targets in ((ahead, words[:, 1:]), (back, words[:, :-1]))
        ]
        return losses[0] + losses[1]


def our_translator(model: Any, pairs: list[EncodedPair]) -> Step:
    """Return the step of the package's loop."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    batches = itertools.chain.from_iterable(PairBatches(pairs, TOKENS).epoch(number) for number in itertools.count())
    model.train()

    def step() -> int:
        batch = next(batches)
        source, mask, target, target_mask = (
            torch.from_numpy(array)
            for array in (batch.source_ids, batch.source_mask, batch.target_ids, batch.target_mask)
        )
        logits = model(source, target[:, :-1], mask).logits
        descend(model, optimizer, label_smoothing_loss(logits, target[:, 1:], target_mask[:, 1:]))
        return batch.num_tokens

    return step


def plain_translator(model: nn.Module, pairs: list[EncodedPair], size: int) -> Step:
    """Return the step of the reference, ``size`` sentences at a time."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    starts = itertools.cycle(range(0, len(pairs) - size, size))
    model.train()

    def step() -> int:
        start = next(starts)
        chosen = pairs[start : start + size]
        source = torch.from_numpy(pad_ids([pair.source for pair in chosen])[0])
        target = torch.from_numpy(pad_ids([pair.target for pair in chosen])[0])
        logits = model(source, target[:, :-1]).transpose(1, 2)
        loss = functional.cross_entropy(logits, target[:, 1:], ignore_index=0, label_smoothing=0.1)
        descend(model, optimizer, loss)
        return int((target[:, 1:] > 0).sum())

    return step


def language_models(words: int) -> tuple[Step, Step]:
    """Return the steps of both sides of ELMo's language model."""
    sentences = read_sentences(data.read("wikipedia_en", "train"), words)
    vocabulary = word_vocabulary(sentences, 20_000)
    batches = SentenceBatches(sentences, vocabulary, CONFIG.max_characters, 1500)
    ours = BidirectionalLanguageModel(Elmo(CONFIG), len(vocabulary), samples=1024).train()
    plain = PlainLanguageModel(CONFIG, len(vocabulary))
    size = round(len(sentences) / len(batches.plan(0)))
    in_file = [list(range(start, start + size)) for start in range(0, len(sentences) - size, size)]

    def step_of(model: nn.Module, rows: Iterator[list[int]], loss: Callable[[Any], Tensor]) -> Step:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

        def step() -> int:
            batch = batches.batch(next(rows))
            descend(model, optimizer, loss(model(*(torch.from_numpy(array) for array in batch))))
            return int(batch.mask.sum())

        return step

    return (
        step_of(ours, itertools.cycle(batches.plan(0)), lambda losses: losses[0].mean() + losses[1].mean()),
        step_of(plain, itertools.cycle(in_file), lambda loss: loss),
    )


def measure(ours: Step, plain: Step, turns: int, steps: int) -> dict[str, Any]:
    """Let both sides take turns of some steps each; return what was measured."""
    sides = {
        "reference": timed(lambda turn: sum(plain() for _ in range(steps))),
        "ours": timed(lambda turn: sum(ours() for _ in range(steps))),
    }
    return compare(take_turns(sides, range(turns + 1), warm_up=1), "tokens")


def main() -> None:
    """Measure and write ``results/translation/training_speed.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8, help="of a turn")
    parser.add_argument("--merges", type=int, default=4000)
    arguments = parser.parse_args()
    record = Record("translation/training_speed", ["torch", "d2lbert"], [0], data_sets=["multi30k", "wikipedia_en"])
    seed_everything(0)
    train = data.load("multi30k", "train")
    tokenizer = learn_vocabulary(train, arguments.merges)
    pairs = encode_pairs(train, tokenizer)
    size = round(len(pairs) / len(PairBatches(pairs, TOKENS)))
    config = transformer_preset("tiny", len(tokenizer))
    recurrent = Seq2SeqConfig(len(tokenizer), len(tokenizer), 256, hidden_dropout_prob=0.3, embedding_size=128)
    sides = {
        "Transformer": (
            our_translator(Transformer(config), pairs),
            plain_translator(PlainTransformer(config), pairs, size),
        ),
        "Seq2Seq": (our_translator(Seq2Seq(recurrent), pairs), plain_translator(PlainSeq2Seq(recurrent), pairs, size)),
        "ELMo": language_models(60_000),
    }
    metrics = {}
    for name, (ours, plain) in sides.items():
        metrics[name] = measure(ours, plain, arguments.turns, arguments.steps)
        print(f"{name}, {in_words(metrics[name])}", flush=True)
    record.write(
        metrics,
        settings=vars(arguments) | {"tokens": TOKENS, "sentences_of_a_batch": size},
    )


if __name__ == "__main__":
    main()
