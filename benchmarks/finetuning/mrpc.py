"""MRPC, pairs of sentences of news that mean the same or not: MiniLM, three seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.mrpc    # needs D2LBERT_DATA for the real set; twenty minutes
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("mrpc", __doc__)
