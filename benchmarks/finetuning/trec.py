"""TREC, what kind of answer a question asks for, one of six: MiniLM, two seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.trec --seeds 0 1    # needs D2LBERT_DATA for the real set; a quarter of an hour
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("trec", __doc__)
