"""Brown, the part of speech of every word, one of twelve: MiniLM, one seed.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.brown_universal --seeds 0    # needs D2LBERT_DATA for the real set; half an hour
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("brown_universal", __doc__)
