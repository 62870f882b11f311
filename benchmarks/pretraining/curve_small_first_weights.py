"""The learning curve of a small BERT whose first weights were smaller (0.02), and a fitted power law.

The law, and the points that it is fitted to, stand in ``benchmarks/learning_curve.py``.

    python -m benchmarks.pretraining.curve_small_first_weights --run DIR    # a folder that d2lbert pretrain wrote
"""

from benchmarks.learning_curve import measure

if __name__ == "__main__":
    measure("curve_small_first_weights", __doc__)
