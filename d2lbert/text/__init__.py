"""From text to numbers: characters, words, byte-pair encoding, WordPiece. Plain Python; no framework."""

from d2lbert.text.encoding import Encoding
from d2lbert.text.wordpiece import WordPiece

__all__ = ["Encoding", "WordPiece"]
