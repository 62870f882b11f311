"""Find, verify and read data sets, and make padded or packed batches (:mod:`d2lbert.data.batching`)."""

from d2lbert.data.examples import (
    Analogy,
    Answer,
    ChoiceQuestion,
    Document,
    MinimalPair,
    Pair,
    Question,
    ScoredPair,
    Sentence,
    TaggedSentence,
    Translation,
    WordInContext,
    WordPair,
)
from d2lbert.data.readers.formats import guess_format, read_file
from d2lbert.data.readers.tables import Columns
from d2lbert.data.registry import SampleDataWarning, describe, fetch, info, is_sample, load, names, opened, read
from d2lbert.data.splitting import cut_dev

__all__ = [
    "Analogy",
    "Answer",
    "ChoiceQuestion",
    "Columns",
    "Document",
    "MinimalPair",
    "Pair",
    "Question",
    "SampleDataWarning",
    "ScoredPair",
    "Sentence",
    "TaggedSentence",
    "Translation",
    "WordInContext",
    "WordPair",
    "cut_dev",
    "describe",
    "fetch",
    "guess_format",
    "info",
    "is_sample",
    "load",
    "names",
    "opened",
    "read",
    "read_file",
]
