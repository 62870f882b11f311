"""The sizes of the small ELMo that comes with the book (``data/checkpoints/elmo-small``)."""

from d2lbert.config import ElmoConfig

CONFIG = ElmoConfig(
    char_embedding_size=16,
    filters=((1, 16), (2, 16), (3, 32), (4, 64), (5, 96)),
    num_highway_layers=1,
    max_characters=20,
    projection_size=96,
    hidden_size=384,
)
