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
from d2lbert.data.readers.formats import read_file
from d2lbert.data.registry import SampleDataWarning, describe, fetch, info, is_sample, load, names, read

__all__ = [
    "Analogy",
    "Answer",
    "ChoiceQuestion",
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
    "describe",
    "fetch",
    "info",
    "is_sample",
    "load",
    "names",
    "read",
    "read_file",
]
