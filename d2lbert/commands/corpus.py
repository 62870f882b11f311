"""The corpus of ``d2lbert pretrain``: which text, and how it becomes shards of tokens, once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d2lbert.data.pretraining.corpus import corpus_files, learn_vocabulary
from d2lbert.data.pretraining.origin import check_origin, digest_of, origin_of
from d2lbert.data.pretraining.shards import INDEX_FILE, Preparation, TokenShards, foreign_files
from d2lbert.errors import UserError
from d2lbert.text import WordPiece


@dataclass(frozen=True)
class CorpusSource:
    """The text, and how it becomes shards.

    Fields:
        paths: files, folders, patterns, or one folder that is already prepared.
        vocab, vocab_size, cased: a vocabulary, or how to learn one.
        preparation, workers, engine: how, and with what, the text is tokenised.
    """

    paths: list[str]
    vocab: Path | None
    vocab_size: int
    cased: bool
    preparation: Preparation
    workers: int
    engine: Callable[..., TokenShards]

    @property
    def prepared(self) -> bool:
        """Whether the corpus is already a folder of shards."""
        return len(self.paths) == 1 and (Path(self.paths[0]) / INDEX_FILE).is_file()

    def check_vocabulary(self) -> None:
        """Refuse a vocabulary beside a corpus that was prepared with its own.

        Raises:
            UserError: there is one, or ``--cased``.
        """
        for name, given in (("--vocab", self.vocab is not None), ("--cased", self.cased)):
            if self.prepared and given:
                raise UserError(f"{name}: {self.paths[0]} is prepared, with its own vocabulary: leave {name} out")

    def shards(self, folder: Path) -> TokenShards:
        """Return the shards of the corpus in a folder: those that are there, or new ones.

        Raises:
            UserError: the folder holds shards of another corpus, or prepared in another way; or other files; or the
                corpus cannot be read; or the folder cannot be written.
        """
        files = corpus_files(self.paths)
        if (folder / INDEX_FILE).is_file():
            shards = TokenShards.open(folder, verify=False)
            check_origin(shards, files, self._options())
            return shards
        if found := foreign_files(folder):
            raise UserError(f"{folder} holds {found[0].name}, which is not of shards of tokens: choose another --out")
        return self._prepare(files, folder)

    def _prepare(self, files: list[Path], folder: Path) -> TokenShards:
        """Tokenise the corpus and write its shards into a folder."""
        origin = origin_of(files, self._options())
        if self.vocab is None:
            tokenizer = learn_vocabulary(files, self.vocab_size, not self.cased)
        else:
            tokenizer = WordPiece.from_file(self.vocab, not self.cased)
        shards = self.engine(files, folder, tokenizer, self.preparation, self.workers, origin)
        counts = ", ".join(f"{shards.index[name]:,} {name}" for name in ("documents", "sentences", "tokens"))
        print(f"{counts}; {len(tokenizer.vocab):,} pieces", file=sys.stderr)
        return shards

    def _options(self) -> dict[str, Any]:
        """Return the options on which the shards depend. A vocabulary is known by its content."""
        return {
            "--vocab": "learned" if self.vocab is None else f"sha256 {digest_of(self.vocab)}",
            "--vocab-size": self.vocab_size if self.vocab is None else None,
            "--cased": self.cased,
            "--dev-share": self.preparation.dev_share,
            "--shard-characters": self.preparation.shard_characters,
        }
