"""From text to numbers: characters, words, byte-pair encoding, WordPiece, Unigram. No framework."""

from d2lbert.text.bpe import BytePairEncoding
from d2lbert.text.byte_level import ByteLevel
from d2lbert.text.characters import CharacterVocabulary
from d2lbert.text.encoding import CLS, MASK, PAD, SEP, SPECIAL_TOKENS, UNKNOWN, AnyEncoding, CompactEncoding, Encoding
from d2lbert.text.unigram import Unigram
from d2lbert.text.vocab import Vocabulary
from d2lbert.text.wordpiece import WordPiece
from d2lbert.text.wordpiece_learning import learn_wordpiece, train_wordpiece
from d2lbert.text.words import count_words, split_words

Tokenizer = WordPiece | Unigram  # of an encoder: BERT's and its relatives'

__all__ = [
    "CLS",
    "MASK",
    "PAD",
    "SEP",
    "SPECIAL_TOKENS",
    "UNKNOWN",
    "AnyEncoding",
    "ByteLevel",
    "BytePairEncoding",
    "CharacterVocabulary",
    "CompactEncoding",
    "Encoding",
    "Tokenizer",
    "Unigram",
    "Vocabulary",
    "WordPiece",
    "count_words",
    "learn_wordpiece",
    "split_words",
    "train_wordpiece",
]
