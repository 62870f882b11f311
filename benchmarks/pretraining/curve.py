"""The learning curve of the small BERT that comes with the book, and a fitted power law.

The law, and the points that it is fitted to, stand in ``benchmarks/learning_curve.py``.

    python -m benchmarks.pretraining.curve --run DIR    # a folder that d2lbert pretrain wrote
"""

from benchmarks.learning_curve import measure

if __name__ == "__main__":
    measure("curve", __doc__)
